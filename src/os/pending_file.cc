#include "os/pending_file.h"

#include <linux/fs.h>

#include <cstdio>

#include "os/beneath.h"
#include "os/io.h"
#include "os/syscalls.h"

namespace cella::os {

PendingFile::PendingFile(UniqueFd parent, UniqueFd file, std::string part_name, std::string path,
                         std::optional<FsIdentity> identity)
    : parent_(std::move(parent)),
      file_(std::move(file)),
      part_name_(std::move(part_name)),
      path_(std::move(path)),
      identity_(identity) {}

PendingFile::PendingFile(PendingFile&& other) noexcept
    : parent_(std::move(other.parent_)),
      file_(std::move(other.file_)),
      part_name_(std::exchange(other.part_name_, {})),
      path_(std::move(other.path_)),
      identity_(other.identity_) {}

PendingFile::~PendingFile() {
  if (part_name_.empty()) return;
  ScopedFsIdentity identity(identity_);
  (void)unlinkat(parent_.get(), part_name_.c_str(), 0);
}

Status PendingFile::Write(std::string_view bytes) {
  auto written = WriteAll(file_.get(), bytes);
  if (!written) return std::unexpected(std::move(written.error()).WithContext(fmt::format("'{}'", path_)));
  return {};
}

Status PendingFile::Commit(Directory::IfExists if_exists) {
  ScopedFsIdentity identity(identity_);
  unsigned flags = if_exists == Directory::IfExists::kRefuse ? RENAME_NOREPLACE : 0;
  std::string name = LastName(path_);
  long renamed = syscall(SYS_renameat2, parent_.get(), part_name_.c_str(), parent_.get(), name.c_str(), flags);
  if (renamed < 0) {
    switch (errno) {
      case EEXIST: return Err(ErrorCode::kInvalid, "'{}' is there already", path_);
      case EISDIR: return Err(ErrorCode::kInvalid, "'{}' is a directory", path_);
      case ENOENT: return Err(ErrorCode::kClosed, "'{}': its directory was removed while it was written", path_);
      default: return SysErr(errno, "'{}'", path_);
    }
  }
  part_name_.clear();
  return {};
}

}  // namespace cella::os
