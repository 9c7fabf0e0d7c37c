// Files of a storage on their way to their place: written in .cella/tmp, then renamed.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>

#include "base/random.h"
#include "os/beneath.h"
#include "os/io.h"
#include "os/syscalls.h"
#include "storage/file_storage.h"
#include "storage/names.h"

namespace cella::storage {
namespace {

constexpr const char* kParts = ".cella/tmp";
// A process that writes for longer has ended: uploads are bounded in size, and their connections in time.
constexpr time_t kForgotten = 24 * 3600;
constexpr size_t kSweptAtOnce = 10'000;
// Another process may remove an empty directory just before a file comes into it.
constexpr int kAttempts = 16;

Error NotPlaced(int sys_errno, const std::string& path) {
  switch (sys_errno) {
    case EISDIR:
      return {ErrorCode::kInvalid, fmt::format("'{}' is a directory of the storage", Shown(path)), sys_errno};
    case ENOTDIR:
      return {ErrorCode::kInvalid, fmt::format("'{}': a file is where a directory should be", Shown(path)), sys_errno};
    case ELOOP:
    case EXDEV: return {ErrorCode::kInvalid, fmt::format("'{}' leads over a symbolic link", Shown(path)), sys_errno};
    default: return {CodeFromErrno(sys_errno), fmt::format("'{}': {}", Shown(path), ErrnoText(sys_errno)), sys_errno};
  }
}

}  // namespace

FileStorage::Upload::Upload(FileStorage& storage, std::string name, std::string part, UniqueFd file)
    : storage_(&storage), name_(std::move(name)), part_(std::move(part)), file_(std::move(file)) {}

FileStorage::Upload::~Upload() {
  if (file_) storage_->DropPart(part_);
}

Status FileStorage::Upload::Write(std::string_view bytes) {
  size_ += bytes.size();
  if (size_ > storage_->bounds_.artifact_bytes) {
    return Err(ErrorCode::kExhausted, "'{}' is too large: an artifact has at most {} bytes", Shown(name_),
               storage_->bounds_.artifact_bytes);
  }
  auto written = os::WriteAll(file_.get(), bytes);
  if (!written) return std::unexpected(std::move(written.error()).WithContext(fmt::format("'{}'", Shown(name_))));
  return {};
}

Result<Artifact> FileStorage::Upload::Commit(const Details& details) { return storage_->CommitUpload(*this, details); }

Result<UniqueFd> FileStorage::MakePart(const std::string& part) const {
  const std::string path = fmt::format("{}/{}", kParts, part);
  UniqueFd file = os::OpenBeneath(directory_.fd(), path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0644);
  if (!file) return SysErr(errno, "write in the storage '{}'", path_);
  return file;
}

void FileStorage::DropPart(const std::string& part) const {
  if (!part.empty()) (void)unlinkat(directory_.fd(), fmt::format("{}/{}", kParts, part).c_str(), 0);
}

Result<UniqueFd> FileStorage::Place(const std::string& part, const std::string& path) const {
  const std::string from = fmt::format("{}/{}", kParts, part);
  int failure = 0;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    auto parent = os::MakeParents(directory_.fd(), path);
    if (!parent) {
      failure = parent.error().sys_errno;
      if (failure == 0) return std::unexpected(NotPlaced(ELOOP, path));  // a link is in the way
    } else if (renameat(directory_.fd(), from.c_str(), parent->get(), os::LastName(path).c_str()) == 0) {
      return parent;
    } else {
      failure = errno;
    }
    if (failure != ENOENT) break;
  }
  return std::unexpected(NotPlaced(failure, path));
}

// Of processes that were killed.
void FileStorage::SweepParts() const {
  UniqueFd parts = os::OpenBeneath(directory_.fd(), kParts, O_RDONLY | O_DIRECTORY);
  if (!parts) return;
  size_t seen = 0;
  (void)os::ForEachName(parts.get(), os::PartFiles::kShow, [&](const char* name) {
    struct stat info;
    const bool there = fstatat(parts.get(), name, &info, AT_SYMLINK_NOFOLLOW) == 0;
    if (there && info.st_mtim.tv_sec + kForgotten < time(nullptr)) (void)unlinkat(parts.get(), name, 0);
    return ++seen < kSweptAtOnce;
  });
}

}  // namespace cella::storage
