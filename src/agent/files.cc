#include "agent/files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "os/io.h"
#include "os/syscalls.h"

namespace cella::agent {
namespace {

constexpr size_t kMaxListing = size_t{3} << 20;

std::string Encode(Answer answer, std::string_view content = {}) {
  std::string bytes(reinterpret_cast<const char*>(&answer), sizeof answer);
  bytes += content;
  return bytes;
}

std::string Failed(const Error& error) {
  Answer answer = {};
  answer.error = static_cast<uint32_t>(error.code) + 1;
  answer.sys_errno = error.sys_errno;
  return Encode(answer, error.message);
}

template <typename Options>
bool Decode(std::string_view& payload, Options* options) {
  if (payload.size() < sizeof *options) return false;
  std::memcpy(options, payload.data(), sizeof *options);
  payload.remove_prefix(sizeof *options);
  return true;
}

std::string Malformed() { return Failed(Error{ErrorCode::kInvalid, "malformed request", 0}); }

}  // namespace

std::string EncodeAnswer(std::string_view content) { return Encode({}, content); }

std::string Files::Put(std::string_view payload) {
  PutOptions options = {};
  if (!Decode(payload, &options) || options.path_size > payload.size()) return Malformed();
  const std::string path(payload.substr(0, options.path_size));
  payload.remove_prefix(options.path_size);
  if (options.is_first != 0) {
    using IfExists = os::Directory::IfExists;
    if (options.root == PutRoot::kPackages && !packages_) return Malformed();
    const os::Directory& root = options.root == PutRoot::kPackages ? *packages_ : directory_;
    auto file =
        root.CreateFile(path, options.replaces != 0 ? IfExists::kReplace : IfExists::kRefuse, options.mode & 0777);
    if (!file) return Failed(file.error());
    put_ = std::move(*file);
  }
  if (!put_) return Malformed();
  auto written = os::WriteAll(put_.get(), payload);
  if (!written) return Failed(std::move(written.error()).WithContext("write '" + path + "'"));
  return Encode({});
}

std::string Files::Get(std::string_view payload) {
  GetOptions options = {};
  if (!Decode(payload, &options)) return Malformed();
  auto file = directory_.OpenFile(std::string(payload));
  if (!file) return Failed(file.error());
  struct stat info = {};
  if (fstat(file->get(), &info) < 0) return Failed(Error{ErrorCode::kInternal, "stat", errno});
  std::string content(std::min<uint64_t>(options.size, kFileChunk), '\0');
  const ssize_t n = os::RetryOnEintr(
      [&] { return pread(file->get(), content.data(), content.size(), static_cast<off_t>(options.offset)); });
  if (n < 0) return Failed(Error{CodeFromErrno(errno), "read: " + ErrnoText(errno), errno});
  content.resize(static_cast<size_t>(n));
  Answer answer = {};
  answer.complete = n == 0 || options.offset + static_cast<uint64_t>(n) >= static_cast<uint64_t>(info.st_size) ? 1 : 0;
  answer.mode = info.st_mode & 0777;
  answer.size = static_cast<uint64_t>(info.st_size);
  return Encode(answer, content);
}

std::string Files::List(std::string_view payload) {
  ListOptions options = {};
  if (!Decode(payload, &options)) return Malformed();
  const os::DirectoryListing listing = directory_.List(options.limit);
  Answer answer = {};
  answer.complete = listing.complete ? 1 : 0;
  std::string content;
  for (const os::DirectoryEntry& entry : listing.files) {
    const ListedFile listed = {entry.size, entry.changed_ns, entry.inode, static_cast<uint32_t>(entry.path.size()), 0};
    if (content.size() + sizeof listed + entry.path.size() > kMaxListing) {
      answer.complete = 0;
      break;
    }
    content.append(reinterpret_cast<const char*>(&listed), sizeof listed);
    content += entry.path;
  }
  return Encode(answer, content);
}

std::string Files::Remove(std::string_view payload) {
  auto removed = directory_.RemoveFile(std::string(payload));
  return removed ? Encode({}) : Failed(removed.error());
}

}  // namespace cella::agent
