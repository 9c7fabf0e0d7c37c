#include "os/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/fsuid.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>

#include "os/io.h"
#include "os/syscalls.h"

namespace cella::os {
namespace {

constexpr int kMaxDepth = 64;
// Names are the guest's to choose, and long ones in deep trees add up.
constexpr size_t kMaxPathBytes = size_t{4} << 20;

// For the calling thread only. Leaving root's file-system uid also puts its file capabilities to sleep.
class ScopedFsIdentity {
 public:
  explicit ScopedFsIdentity(const std::optional<FsIdentity>& identity) : active_(identity.has_value()) {
    if (!active_) return;
    old_gid_ = static_cast<gid_t>(setfsgid(identity->gid));
    old_uid_ = static_cast<uid_t>(setfsuid(identity->uid));
  }
  ScopedFsIdentity(const ScopedFsIdentity&) = delete;
  ScopedFsIdentity& operator=(const ScopedFsIdentity&) = delete;
  ~ScopedFsIdentity() {
    if (!active_) return;
    setfsuid(old_uid_);
    setfsgid(old_gid_);
  }

 private:
  bool active_;
  uid_t old_uid_ = 0;
  gid_t old_gid_ = 0;
};

UniqueFd OpenBeneath(int dir, const char* path, uint64_t flags, mode_t mode = 0) {
  open_how how = {};
  how.flags = flags | O_CLOEXEC | O_NOFOLLOW;
  how.mode = mode;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  // EAGAIN: the kernel saw a concurrent rename and cannot vouch for the walk.
  for (int attempt = 0;; ++attempt) {
    UniqueFd fd(Openat2(dir, path, how));
    if (fd || errno != EAGAIN || attempt == 32) return fd;
  }
}

std::unexpected<Error> NotInside(int sys_errno, const std::string& path) {
  if (sys_errno == EXDEV || sys_errno == ELOOP) {
    return Err(ErrorCode::kInvalid, "file name '{}' is not in the workspace", path);
  }
  return SysErr(sys_errno, "'{}'", path);
}

Result<UniqueFd> MakeParents(int dir, const std::string& path) {
  if (path.starts_with('/')) return NotInside(EXDEV, path);
  UniqueFd current = OpenBeneath(dir, ".", O_RDONLY | O_DIRECTORY);
  if (!current) return NotInside(errno, path);
  size_t start = 0;
  for (size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', start)) {
    std::string part = path.substr(start, slash - start);
    start = slash + 1;
    if (part.empty() || part == ".") continue;
    if (mkdirat(current.get(), part.c_str(), 0755) < 0 && errno != EEXIST) return NotInside(errno, path);
    UniqueFd next = OpenBeneath(current.get(), part.c_str(), O_RDONLY | O_DIRECTORY);
    if (!next) {
      // O_DIRECTORY hides from us that it was a link: it is not followed either way, but people should know.
      int error = errno;
      struct stat info;
      bool link = fstatat(current.get(), part.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
      return NotInside(link ? ELOOP : error, path);
    }
    current = std::move(next);
  }
  return current;
}

void ListInto(int dir, const std::string& prefix, int depth, size_t limit, size_t* seen, size_t* path_bytes,
              DirectoryListing* out) {
  UniqueFd own = OpenBeneath(dir, ".", O_RDONLY | O_DIRECTORY);
  if (!own) {
    out->complete = false;
    return;
  }
  std::unique_ptr<DIR, int (*)(DIR*)> stream(fdopendir(own.get()), closedir);
  if (!stream) {
    out->complete = false;
    return;
  }
  (void)own.Release();
  while (const dirent* entry = readdir(stream.get())) {
    std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    *path_bytes += prefix.size() + name.size();
    if (++*seen > limit || *path_bytes > kMaxPathBytes || prefix.size() + name.size() > PATH_MAX) {
      out->complete = false;
      return;
    }
    struct stat info;
    if (fstatat(dirfd(stream.get()), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) < 0) continue;
    if (S_ISREG(info.st_mode)) {
      out->files.push_back({prefix + name, static_cast<uint64_t>(info.st_size),
                            info.st_ctim.tv_sec * 1'000'000'000LL + info.st_ctim.tv_nsec, info.st_ino});
    } else if (S_ISDIR(info.st_mode)) {
      UniqueFd child = OpenBeneath(dirfd(stream.get()), name.c_str(), O_RDONLY | O_DIRECTORY);
      if (!child || depth == kMaxDepth) {
        out->complete = false;
        continue;
      }
      ListInto(child.get(), prefix + name + "/", depth + 1, limit, seen, path_bytes, out);
    }
  }
}

}  // namespace

Result<UniqueFd> Directory::CreateFile(const std::string& path, IfExists if_exists, mode_t mode) const {
  ScopedFsIdentity identity(identity_);
  TRY(UniqueFd parent, MakeParents(fd_.get(), path));
  std::string name = path.substr(path.rfind('/') + 1);
  uint64_t flags = O_WRONLY | O_CREAT | O_NONBLOCK | (if_exists == IfExists::kRefuse ? O_EXCL : O_TRUNC);
  UniqueFd file = OpenBeneath(parent.get(), name.c_str(), flags, mode);
  if (!file) return NotInside(errno, path);
  struct stat info;
  if (fstat(file.get(), &info) < 0 || !S_ISREG(info.st_mode)) {
    return Err(ErrorCode::kInvalid, "'{}' is not a regular file", path);
  }
  return file;
}

Status Directory::WriteFile(const std::string& path, std::string_view content, IfExists if_exists, mode_t mode) const {
  TRY(UniqueFd file, CreateFile(path, if_exists, mode));
  if (auto status = WriteAll(file.get(), content); !status) {
    return std::unexpected(std::move(status.error()).WithContext(fmt::format("'{}'", path)));
  }
  return {};
}

Result<UniqueFd> Directory::OpenFile(const std::string& path) const {
  ScopedFsIdentity identity(identity_);
  // Not blocking: the guest may have put a FIFO there.
  UniqueFd file = OpenBeneath(fd_.get(), path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!file) return NotInside(errno, path);
  struct stat info;
  if (fstat(file.get(), &info) < 0 || !S_ISREG(info.st_mode)) {
    return Err(ErrorCode::kInvalid, "'{}' is not a regular file", path);
  }
  return file;
}

Status Directory::RemoveFile(const std::string& path) const {
  ScopedFsIdentity identity(identity_);
  std::string directory = path.rfind('/') == std::string::npos ? "." : path.substr(0, path.rfind('/'));
  UniqueFd parent = OpenBeneath(fd_.get(), directory.c_str(), O_RDONLY | O_DIRECTORY);
  if (!parent) return NotInside(errno, path);
  if (unlinkat(parent.get(), path.substr(path.rfind('/') + 1).c_str(), 0) < 0)
    return SysErr(errno, "remove '{}'", path);
  return {};
}

DirectoryListing Directory::List(size_t limit) const {
  ScopedFsIdentity identity(identity_);
  DirectoryListing listing;
  size_t seen = 0, path_bytes = 0;
  ListInto(fd_.get(), "", 0, limit, &seen, &path_bytes, &listing);
  std::ranges::sort(listing.files, {}, &DirectoryEntry::path);
  return listing;
}

}  // namespace cella::os
