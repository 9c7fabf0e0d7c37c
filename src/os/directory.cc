#include "os/directory.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>

#include "os/beneath.h"
#include "os/io.h"
#include "os/pending_file.h"
#include "os/syscalls.h"
#include "os/tree_walk.h"

namespace cella::os {
namespace {

// Names are the guest's to choose, and long ones in deep trees add up.
constexpr size_t kMaxPathBytes = size_t{4} << 20;
// Of one directory, for a page of it.
constexpr size_t kMaxScanned = 200'000;

void ListInto(int dir, const std::string& prefix, int depth, size_t limit, size_t* seen, size_t* path_bytes,
              DirectoryListing* out) {
  bool read = ForEachName(dir, PartFiles::kHide, [&](const char* name_bytes) {
    std::string name = name_bytes;
    *path_bytes += prefix.size() + name.size();
    if (++*seen > limit || *path_bytes > kMaxPathBytes || prefix.size() + name.size() > PATH_MAX) {
      out->complete = false;
      return false;
    }
    struct stat info;
    if (fstatat(dir, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) < 0) return true;
    if (S_ISREG(info.st_mode)) {
      out->files.push_back({prefix + name, static_cast<uint64_t>(info.st_size),
                            info.st_ctim.tv_sec * 1'000'000'000LL + info.st_ctim.tv_nsec, info.st_ino});
    } else if (S_ISDIR(info.st_mode)) {
      UniqueFd child = OpenBeneath(dir, name.c_str(), O_RDONLY | O_DIRECTORY);
      if (!child || depth == kMaxDepth) {
        out->complete = false;
        return true;
      }
      ListInto(child.get(), prefix + name + "/", depth + 1, limit, seen, path_bytes, out);
    }
    return true;
  });
  if (!read) out->complete = false;
}

Result<UniqueFd> OpenDirectory(int dir, const std::string& path) {
  UniqueFd opened = OpenBeneath(dir, path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY);
  if (opened) return opened;
  int error = errno;
  // "No such file" would be wrong for a file that the caller took for a directory.
  if (error == ENOTDIR) {
    UniqueFd other = OpenBeneath(dir, path.c_str(), O_PATH);
    if (other) return Err(ErrorCode::kInvalid, "'{}' is not a directory", path);
  }
  return NotInside(error, path);
}

}  // namespace

Result<Directory> Directory::Duplicate() const {
  UniqueFd copy(fcntl(fd_.get(), F_DUPFD_CLOEXEC, 3));
  if (!copy) return SysErr(errno, "duplicate the descriptor of a workspace");
  return Directory(std::move(copy), identity_);
}

Result<Directory> Directory::OpenMountBeside(const char* name) const {
  ScopedFsIdentity identity(identity_);
  open_how how = {};
  how.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const std::string path = std::string("../") + name;
  UniqueFd fd(Openat2(fd_.get(), path.c_str(), how));
  if (!fd) return SysErr(errno, "open '/{}' of the guest", name);
  return Directory(std::move(fd), identity_);
}

Result<UniqueFd> Directory::CreateFile(const std::string& path, IfExists if_exists, mode_t mode) const {
  ScopedFsIdentity identity(identity_);
  TRY(UniqueFd parent, MakeParents(fd_.get(), path));
  uint64_t flags = O_WRONLY | O_CREAT | O_NONBLOCK | (if_exists == IfExists::kRefuse ? O_EXCL : O_TRUNC);
  UniqueFd file = OpenBeneath(parent.get(), LastName(path).c_str(), flags, mode);
  struct stat info;
  // ENXIO: a socket, or a device that is not there.
  if (!file && errno != ENXIO) return NotInside(errno, path);
  if (!file || fstat(file.get(), &info) < 0 || !S_ISREG(info.st_mode)) {
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

Result<PendingFile> Directory::CreatePending(const std::string& path, mode_t mode) const {
  ScopedFsIdentity identity(identity_);
  TRY(UniqueFd parent, MakeParents(fd_.get(), path));
  std::string name = LastName(path);
  if (name.empty() || name == "." || name == "..") return NotInside(EXDEV, path);
  // Here and not after a long upload; the rename would say it too.
  struct stat info;
  if (fstatat(parent.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode)) {
    return Err(ErrorCode::kInvalid, "'{}' is a directory", path);
  }
  if (name.size() > NAME_MAX) return SysErr(ENAMETOOLONG, "'{}'", path);
  std::string part = NewPartName();
  UniqueFd file = OpenBeneath(parent.get(), part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NONBLOCK, mode);
  if (!file) return NotInside(errno, path);
  // The umask is ours, not the guest's.
  (void)fchmod(file.get(), mode & 0777);
  return PendingFile(std::move(parent), std::move(file), std::move(part), path, identity_);
}

Result<OpenedFile> Directory::OpenWithInfo(const std::string& path) const {
  ScopedFsIdentity identity(identity_);
  // Not blocking: the guest may have put a FIFO there.
  UniqueFd file = OpenBeneath(fd_.get(), path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY);
  struct stat info;
  // ENXIO: a socket, or a device that is not there.
  if (!file && errno != ENXIO) return NotInside(errno, path);
  if (!file || fstat(file.get(), &info) < 0 || !S_ISREG(info.st_mode)) {
    return Err(ErrorCode::kInvalid, "'{}' is not a regular file", path);
  }
  return OpenedFile{std::move(file), InfoOf(info)};
}

Result<UniqueFd> Directory::OpenFile(const std::string& path) const {
  TRY(OpenedFile file, OpenWithInfo(path));
  return std::move(file.fd);
}

Result<EntryInfo> Directory::Stat(const std::string& path) const {
  ScopedFsIdentity identity(identity_);
  UniqueFd entry = OpenBeneath(fd_.get(), path.empty() ? "." : path.c_str(), O_PATH);
  if (!entry) return NotInside(errno, path);
  struct stat info;
  if (fstat(entry.get(), &info) < 0) return SysErr(errno, "'{}'", path);
  return InfoOf(info);
}

Result<std::string> Directory::ReadLink(const std::string& path) const {
  ScopedFsIdentity identity(identity_);
  UniqueFd link = OpenBeneath(fd_.get(), path.c_str(), O_PATH);
  if (!link) return NotInside(errno, path);
  std::string target(PATH_MAX, '\0');
  const ssize_t length = readlinkat(link.get(), "", target.data(), target.size());
  if (length < 0) return SysErr(errno, "'{}'", path);
  target.resize(static_cast<size_t>(length));
  return target;
}

Status Directory::MakeDirectories(const std::string& path) const {
  ScopedFsIdentity identity(identity_);
  auto made = MakeParents(fd_.get(), path + "/");
  if (made) return {};
  if (made.error().sys_errno == ENOTDIR) {
    return Err(ErrorCode::kInvalid, "'{}': a file is where a directory should be", path);
  }
  return std::unexpected(std::move(made.error()));
}

DirectoryListing Directory::List(size_t limit) const {
  ScopedFsIdentity identity(identity_);
  DirectoryListing listing;
  size_t seen = 0, path_bytes = 0;
  ListInto(fd_.get(), "", 0, limit, &seen, &path_bytes, &listing);
  std::ranges::sort(listing.files, {}, &DirectoryEntry::path);
  return listing;
}

Result<ChildPage> Directory::ListChildren(const std::string& path, const std::string& after, size_t limit) const {
  ScopedFsIdentity identity(identity_);
  TRY(UniqueFd dir, OpenDirectory(fd_.get(), path));
  ChildPage page;
  // The smallest names so far, the largest of them in front: however many there are, a page is all that is held.
  std::vector<std::string> names;
  size_t scanned = 0;
  bool read = ForEachName(dir.get(), PartFiles::kHide, [&](const char* name) {
    if (++scanned > kMaxScanned) {
      page.complete = false;
      return false;
    }
    if (after >= name) return true;
    if (names.size() == limit) {
      page.more = true;
      if (names.empty() || names.front() <= name) return true;
      std::ranges::pop_heap(names);
      names.pop_back();
    }
    names.emplace_back(name);
    std::ranges::push_heap(names);
    return true;
  });
  if (!read) return SysErr(errno, "read the directory '{}'", path);
  std::ranges::sort_heap(names);
  if (!names.empty()) page.last = names.back();
  for (std::string& name : names) {
    struct stat info;
    if (fstatat(dir.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) < 0) continue;  // gone meanwhile
    page.entries.push_back({std::move(name), InfoOf(info)});
  }
  return page;
}

Result<TreeWalk> Directory::Walk(const std::string& path, WalkBounds bounds) const {
  ScopedFsIdentity identity(identity_);
  TRY(UniqueFd top, OpenDirectory(fd_.get(), path));
  return TreeWalk(std::move(top), identity_, bounds);
}

Result<SpaceLeft> Directory::Space() const {
  struct statvfs info;
  if (fstatvfs(fd_.get(), &info) < 0) return SysErr(errno, "ask for the space that is left");
  // A file system that counts no files (btrfs) says 0 of 0.
  return SpaceLeft{uint64_t{info.f_bavail} * info.f_frsize, info.f_files == 0 ? UINT64_MAX : uint64_t{info.f_favail}};
}

}  // namespace cella::os
