#include "cli/repl/history.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>

#include "os/io.h"

namespace cella::cli {
namespace {

constexpr off_t kMaxFile = off_t{16} << 20;

struct Opened {
  UniqueFd fd;
  off_t size = 0;
  bool locked = false;  // as long as the descriptor is open
};

Result<Opened> OpenFile(const std::string& path) {
  Opened opened;
  opened.fd = UniqueFd(open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  struct stat info = {};
  if (!opened.fd || fstat(opened.fd.get(), &info) < 0) return SysErr(errno, "open '{}'", path);
  if (!S_ISREG(info.st_mode)) return Err(ErrorCode::kInvalid, "'{}' is not a regular file", path);
  opened.size = info.st_size;
  // Takes no lock: an appended line is whole without one.
  opened.locked = flock(opened.fd.get(), LOCK_EX | LOCK_NB) == 0;
  return opened;
}

}  // namespace

std::string EncodeEntry(std::string_view entry) {
  std::string line;
  for (char byte : entry) {
    if (byte == '\\')
      line += "\\\\";
    else if (byte == '\n')
      line += "\\n";
    else
      line.push_back(byte);
  }
  return line;
}

std::string DecodeEntry(std::string_view line) {
  std::string entry;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\' && i + 1 < line.size()) {
      entry.push_back(line[++i] == 'n' ? '\n' : line[i]);
    } else {
      entry.push_back(line[i]);
    }
  }
  return entry;
}

Status History::Open(std::string path) {
  TRY(Opened file, OpenFile(path));
  const bool too_large = file.size > kMaxFile;
  if (too_large && lseek(file.fd.get(), file.size - kMaxFile, SEEK_SET) < 0) return SysErr(errno, "read '{}'", path);
  // Others may append meanwhile.
  TRY(std::string text, os::ReadFd(file.fd.get(), uint64_t{2} * kMaxFile));
  // Of an entry that was cut off nothing is kept.
  for (size_t begin = too_large ? text.find('\n') : 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) entries_.push_back(DecodeEntry(std::string_view(text).substr(begin, end - begin)));
    begin = end + 1;
  }
  const bool too_many = entries_.size() > kMaxEntries;
  if (too_many) entries_.erase(entries_.begin(), entries_.end() - static_cast<std::ptrdiff_t>(kMaxEntries));
  if ((too_many || too_large) && file.locked) {
    std::string kept;
    for (const std::string& entry : entries_) kept += EncodeEntry(entry) + "\n";
    if (ftruncate(file.fd.get(), 0) < 0) return SysErr(errno, "shorten '{}'", path);
    TRY_VOID(os::WriteAll(file.fd.get(), kept));
  }
  path_ = std::move(path);
  return {};
}

void History::Add(const std::string& entry) {
  if (entry.starts_with(' ') || entry.size() > kMaxEntry) return;
  if (entry.find_first_not_of(" \t\n") == std::string::npos) return;
  if (!entries_.empty() && entries_.back() == entry) return;
  entries_.push_back(entry);
  if (entries_.size() > kMaxEntries) entries_.erase(entries_.begin());
  // A full disk costs the entry and nothing else.
  if (!path_.empty()) (void)Append(entry);
}

Status History::Append(const std::string& entry) const {
  TRY(Opened file, OpenFile(path_));
  return os::WriteAll(file.fd.get(), EncodeEntry(entry) + "\n");
}

}  // namespace cella::cli
