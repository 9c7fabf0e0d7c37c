#include "language/guest_record.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <sstream>
#include <thread>

#include "language/own_directory.h"
#include "os/io.h"

namespace cella::language {
namespace {

using Entry = GuestDirectories::Entry;

constexpr char kFileName[] = "guest-directories";
constexpr uint64_t kMaxFile = uint64_t{1} << 20;
constexpr uint64_t kFullFile = kMaxFile / 2;
constexpr int kLockAttempts = 200;
constexpr std::chrono::milliseconds kLockPause{5};

// Other processes hold it for one write.
bool Lock(int fd, int how) {
  for (int attempt = 0; attempt < kLockAttempts; ++attempt) {
    if (::flock(fd, how | LOCK_NB) == 0) return true;
    if (errno != EWOULDBLOCK && errno != EINTR) return false;
    std::this_thread::sleep_for(kLockPause);
  }
  return false;
}

// The file, which is made where it is missing, locked.
UniqueFd Open(const std::string& directory, int how) {
  const UniqueFd dir = OpenOwnDirectory(directory, Missing::kIsMade);
  if (!dir) return {};
  UniqueFd file(::openat(dir.get(), kFileName,
                         O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600));
  struct stat info{};
  if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) || !IsOursAlone(info)) return {};
  return Lock(file.get(), how) ? std::move(file) : UniqueFd();
}

std::string LineOf(const Entry& entry) {
  std::string path;
  for (char c : entry.path) {
    if (c == '\n' || c == '\\') path += '\\';
    path += c == '\n' ? 'n' : c;
  }
  return fmt::format("{} {} {} {}\n", entry.id.device, entry.id.inode, entry.id.born, path);
}

std::optional<Entry> ParseLine(const std::string& line) {
  unsigned long long device = 0, inode = 0;
  long long born = 0;
  int length = 0;
  const int read = std::sscanf(line.c_str(), "%llu %llu %lld %n", &device, &inode, &born, &length);
  if (read != 3 || length == 0) return std::nullopt;
  Entry entry;
  entry.id = {static_cast<dev_t>(device), static_cast<ino_t>(inode), static_cast<int64_t>(born)};
  for (size_t at = static_cast<size_t>(length); at < line.size(); ++at) {
    const bool escaped = line[at] == '\\' && at + 1 < line.size();
    if (escaped) ++at;
    entry.path += escaped && line[at] == 'n' ? '\n' : line[at];
  }
  if (!entry.path.starts_with('/')) return std::nullopt;
  return entry;
}

std::optional<std::vector<Entry>> Read(int file) {
  if (::lseek(file, 0, SEEK_SET) < 0) return std::nullopt;
  auto text = os::ReadFd(file, kMaxFile);
  if (!text || (!text->empty() && !text->ends_with('\n'))) return std::nullopt;
  std::vector<Entry> entries;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    auto entry = ParseLine(line);
    if (!entry) return std::nullopt;
    entries.push_back(std::move(*entry));
  }
  return entries;
}

bool IsGone(const Entry& entry) {
  struct stat info;
  return ::lstat(entry.path.c_str(), &info) != 0 && errno == ENOENT;
}

// Leaves out what is listed twice, and directories that were removed, as temporary ones are.
std::string Compact(std::vector<Entry> entries) {
  std::ranges::sort(entries);
  const auto doubles = std::ranges::unique(entries);
  entries.erase(doubles.begin(), doubles.end());
  std::erase_if(entries, IsGone);
  std::string text;
  for (const Entry& entry : entries) text += LineOf(entry);
  return text;
}

}  // namespace

void AppendToGuestRecord(const std::string& directory, std::span<const Entry> entries) {
  const UniqueFd file = Open(directory, LOCK_EX);
  struct stat info;
  if (!file || ::fstat(file.get(), &info) != 0) return;
  std::string text;
  for (const Entry& entry : entries) text += LineOf(entry);
  if (static_cast<uint64_t>(info.st_size) > kFullFile) {
    auto known = Read(file.get());
    if (!known) return;  // it is broken, and believed by no reader
    text = Compact(std::move(*known)) + text;
    if (::ftruncate(file.get(), 0) < 0) return;
  }
  (void)os::WriteAll(file.get(), text);
}

std::optional<std::vector<Entry>> ReadGuestRecord(const std::string& directory) {
  const UniqueFd file = Open(directory, LOCK_SH);
  if (!file) return std::nullopt;
  return Read(file.get());
}

}  // namespace cella::language
