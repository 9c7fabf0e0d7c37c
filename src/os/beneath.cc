#include "os/beneath.h"

#include <dirent.h>
#include <sys/random.h>

#include <algorithm>
#include <memory>

#include "os/syscalls.h"

namespace cella::os {
namespace {

constexpr std::string_view kPartPrefix = ".cella-part-";
constexpr size_t kPartDigits = 16;

}  // namespace

UniqueFd OpenBeneath(int dir, const char* path, uint64_t flags, mode_t mode) {
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

Result<UniqueFd> OpenParent(int dir, const std::string& path) {
  size_t slash = path.rfind('/');
  UniqueFd parent =
      OpenBeneath(dir, slash == std::string::npos ? "." : path.substr(0, slash).c_str(), O_RDONLY | O_DIRECTORY);
  if (!parent) return NotInside(errno, path);
  return parent;
}

std::string LastName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool ForEachName(int dir, PartFiles parts, const std::function<bool(const char*)>& use) {
  // A description of its own: the position in the directory must not be shared with other readers.
  UniqueFd own = OpenBeneath(dir, ".", O_RDONLY | O_DIRECTORY);
  if (!own) return false;
  std::unique_ptr<DIR, int (*)(DIR*)> stream(fdopendir(own.get()), closedir);
  if (!stream) return false;
  (void)own.Release();
  while (const dirent* entry = readdir(stream.get())) {
    std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (parts == PartFiles::kHide && IsPartName(name)) continue;
    if (!use(entry->d_name)) break;
  }
  return true;
}

EntryInfo InfoOf(const struct stat& info) {
  EntryType type = S_ISREG(info.st_mode)   ? EntryType::kFile
                   : S_ISDIR(info.st_mode) ? EntryType::kDirectory
                   : S_ISLNK(info.st_mode) ? EntryType::kLink
                                           : EntryType::kOther;
  return {type, type == EntryType::kFile ? static_cast<uint64_t>(info.st_size) : 0,
          info.st_mtim.tv_sec * 1'000'000'000LL + info.st_mtim.tv_nsec, info.st_mode & 07777};
}

std::string NewPartName() {
  uint64_t bits = 0;
  // Not a secret: the guest sees the name, and may do to the file what it may do to any of its own.
  (void)getrandom(&bits, sizeof bits, 0);
  return fmt::format("{}{:016x}", kPartPrefix, bits);
}

bool IsPartName(std::string_view name) {
  if (name.size() != kPartPrefix.size() + kPartDigits || !name.starts_with(kPartPrefix)) return false;
  return std::ranges::all_of(name.substr(kPartPrefix.size()),
                             [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace cella::os
