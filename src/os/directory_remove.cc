// Removing what a guest made, while it may still be at work: every name is taken by the directory that we hold open, a
// directory is entered only as itself, and nothing is asked twice by its path.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <vector>

#include "os/beneath.h"
#include "os/directory.h"
#include "os/syscalls.h"

namespace cella::os {
namespace {

// A guest may have closed its directories even to itself; as their owner we may open them again.
UniqueFd OpenToRemove(int dir, const std::string& name) {
  UniqueFd child = OpenBeneath(dir, name.c_str(), O_RDONLY | O_DIRECTORY);
  if (!child && errno == EACCES) {
    UniqueFd handle = OpenBeneath(dir, name.c_str(), O_PATH | O_DIRECTORY);
    if (!handle) return handle;
    // By the inode that we hold; a name might be a link by now. fchmod() itself does not take such a descriptor.
    if (chmod(fmt::format("/proc/self/fd/{}", handle.get()).c_str(), 0700) < 0) {
      errno = EACCES;
      return {};
    }
    child = OpenBeneath(handle.get(), ".", O_RDONLY | O_DIRECTORY);
  }
  struct stat info;
  if (child && fstat(child.get(), &info) == 0 && (info.st_mode & 0700) != 0700) (void)fchmod(child.get(), 0700);
  return child;
}

struct Removal {
  size_t left = 0;     // entries that may still be removed
  bool again = false;  // not all is gone
};

Status RemoveEntry(int dir, const std::string& name, const std::string& path, int depth, Removal* removal);

Status RemoveContent(int dir, const std::string& path, int depth, Removal* removal) {
  std::vector<std::string> names;
  bool read = ForEachName(dir, PartFiles::kShow, [&](const char* name) {
    if (names.size() == removal->left) {
      removal->again = true;
      return false;
    }
    names.emplace_back(name);
    return true;
  });
  if (!read) return SysErr(errno, "remove '{}'", path);
  for (const std::string& name : names) {
    if (removal->left == 0) {
      removal->again = true;
      return {};
    }
    TRY_VOID(RemoveEntry(dir, name, path + "/" + name, depth, removal));
  }
  return {};
}

Status RemoveEntry(int dir, const std::string& name, const std::string& path, int depth, Removal* removal) {
  // An attempt counts too: a guest that keeps us from succeeding shall not keep us busy.
  if (removal->left == 0) {
    removal->again = true;
    return {};
  }
  --removal->left;
  if (unlinkat(dir, name.c_str(), 0) == 0 || errno == ENOENT) return {};
  int refused = errno;
  if (refused != EISDIR && refused != EPERM) return SysErr(refused, "remove '{}'", path);
  if (unlinkat(dir, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return {};
  if (errno == ENOTDIR && refused == EISDIR) {
    removal->again = true;  // it was a directory a moment ago
    return {};
  }
  if (errno == ENOTDIR) return SysErr(refused, "remove '{}'", path);
  if (errno != ENOTEMPTY && errno != EEXIST) return SysErr(errno, "remove '{}'", path);
  if (depth == kMaxDepth) {
    return Err(ErrorCode::kExhausted,
               "'{}' is more than {} directories deep; remove it by code that runs in the session", path, kMaxDepth);
  }
  UniqueFd child = OpenToRemove(dir, name);
  if (!child) {
    if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP) return SysErr(errno, "remove '{}'", path);
    removal->again = true;
    return {};
  }
  TRY_VOID(RemoveContent(child.get(), path, depth + 1, removal));
  if (unlinkat(dir, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return {};
  if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) return SysErr(errno, "remove '{}'", path);
  removal->again = true;
  return {};
}

}  // namespace

Status Directory::RemoveFile(const std::string& path) const {
  ScopedFsIdentity identity(identity_);
  TRY(UniqueFd parent, OpenParent(fd_.get(), path));
  if (unlinkat(parent.get(), LastName(path).c_str(), 0) < 0) return SysErr(errno, "remove '{}'", path);
  return {};
}

Status Directory::Remove(const std::string& path) const {
  ScopedFsIdentity identity(identity_);
  TRY(UniqueFd parent, OpenParent(fd_.get(), path));
  std::string name = LastName(path);
  if (unlinkat(parent.get(), name.c_str(), 0) == 0) return {};
  if (errno == EISDIR || errno == EPERM) {
    if (unlinkat(parent.get(), name.c_str(), AT_REMOVEDIR) == 0) return {};
    if (errno == ENOTEMPTY || errno == EEXIST) {
      return Err(ErrorCode::kInvalid, "the directory '{}' is not empty", path);
    }
  }
  return SysErr(errno, "remove '{}'", path);
}

Result<Directory::Removed> Directory::RemoveTree(const std::string& path, size_t at_most) const {
  ScopedFsIdentity identity(identity_);
  TRY(UniqueFd parent, OpenParent(fd_.get(), path));
  std::string name = LastName(path);
  if (name.empty() || name == "." || name == "..") return NotInside(EXDEV, path);
  struct stat info;
  if (fstatat(parent.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) < 0) return SysErr(errno, "remove '{}'", path);
  // The way down to the first file counts as well, and must leave something for the file.
  Removal removal{.left = std::max(at_most, size_t{2} * kMaxDepth)};
  TRY_VOID(RemoveEntry(parent.get(), name, path, 0, &removal));
  return removal.again ? Removed::kPart : Removed::kAll;
}

}  // namespace cella::os
