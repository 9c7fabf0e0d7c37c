#include "language/host_path.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "language/visible.h"
#include "os/io.h"

namespace cella::language {
namespace {

constexpr int kMaxLinks = 40;  // as the kernel's own limit

enum class Missing { kIsAnError, kIsAppended };

class Walk {
 public:
  Walk(std::string_view path, std::span<const std::string> guest_writable)
      : given_(path), guest_writable_(guest_writable) {
    for (const std::string& dir : guest_writable) {
      struct stat info{};
      if (::stat(dir.c_str(), &info) == 0) guest_ids_.emplace_back(info.st_dev, info.st_ino);
    }
  }

  Result<std::string> Run(Missing missing) {
    if (given_.empty()) return Err(ErrorCode::kInvalid, "the path is empty");
    if (given_.contains('\0')) return Err(ErrorCode::kInvalid, "the path contains a NUL byte");
    TRY_VOID(Start());
    while (!pending_.empty()) {
      std::string name = std::move(pending_.back());
      pending_.pop_back();
      // Also for "file/" and "file/.": the kernel refuses those, too.
      if (!S_ISDIR(places_.back().mode)) return SysErr(ENOTDIR, "'{}'", given_);
      if (name.empty() || name == ".") continue;
      if (name == "..") {
        // Back to where this walk came from, not to the parent of the moment: the directory may have been moved.
        if (places_.size() > 1) places_.pop_back();
        continue;
      }
      Status entered = Enter(name);
      if (entered) continue;
      if (missing == Missing::kIsAppended && entered.error().sys_errno == ENOENT) return AppendRest(name);
      return std::unexpected(std::move(entered.error()));
    }
    if (missing == Missing::kIsAppended && !S_ISDIR(places_.back().mode)) {
      return Err(ErrorCode::kInvalid, "'{}' is not a directory", given_);
    }
    return RealSoFar();
  }

 private:
  // Where the walk stands, held open: what happens to its name meanwhile does not matter.
  struct Place {
    UniqueFd fd;
    std::string name;
    mode_t mode = 0;
    bool guests = false;  // guests may write into it
  };

  Status Start() {
    UniqueFd root(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root) return SysErr(errno, "open '/'");
    struct stat info{};
    if (::fstat(root.get(), &info) != 0) return SysErr(errno, "stat '/'");
    places_.push_back({.fd = std::move(root), .name = "", .mode = info.st_mode, .guests = GuestsWrite("/", info)});
    Push(given_);
    if (!given_.starts_with('/')) {
      char cwd[PATH_MAX];
      if (::getcwd(cwd, sizeof(cwd)) == nullptr) return SysErr(errno, "'{}': the current directory", given_);
      if (cwd[0] != '/') return SysErr(ENOENT, "'{}': the current directory", given_);
      Push(cwd);
    }
    return {};
  }

  // In front of what is left to do; the next component is the last of the vector.
  void Push(std::string_view path) {
    while (true) {
      size_t slash = path.rfind('/');
      pending_.emplace_back(slash == std::string_view::npos ? path : path.substr(slash + 1));
      if (slash == std::string_view::npos) return;
      path = path.substr(0, slash);
    }
  }

  bool GuestsWrite(const std::string& real, const struct stat& info) const {
    // By identity as well: a bind mount shows the same directory under another name.
    return std::ranges::find(guest_writable_, real) != guest_writable_.end() ||
           std::ranges::find(guest_ids_, std::pair(info.st_dev, info.st_ino)) != guest_ids_.end();
  }

  Status Enter(const std::string& name) {
    UniqueFd fd(::openat(places_.back().fd.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!fd) return SysErr(errno, "'{}'", given_);
    struct stat info{};
    if (::fstat(fd.get(), &info) != 0) return SysErr(errno, "'{}'", given_);
    std::string here = Below(name);
    if (S_ISLNK(info.st_mode)) return Follow(fd.get(), here, info);
    bool guests = places_.back().guests || (S_ISDIR(info.st_mode) && GuestsWrite(here, info));
    places_.push_back({.fd = std::move(fd), .name = name, .mode = info.st_mode, .guests = guests});
    return {};
  }

  // The descriptor is the link itself, so what was judged is what is read.
  Status Follow(int fd, const std::string& link, const struct stat& info) {
    if (places_.back().guests) {
      return Err(ErrorCode::kInvalid,
                 "'{}' is a symbolic link in a directory that guests can write to, so it is not followed; name the "
                 "place that it should lead to",
                 link);
    }
    if (!TrustedOwner(info.st_uid)) {
      return Err(ErrorCode::kInvalid,
                 "'{}' is a symbolic link of another user (uid {}), so it is not followed; name the place that it "
                 "should lead to",
                 link, info.st_uid);
    }
    struct statfs system{};
    if (::fstatfs(fd, &system) != 0) return SysErr(errno, "'{}'", given_);
    if (system.f_type == PROC_SUPER_MAGIC) {
      return Err(ErrorCode::kInvalid, "'{}' is a link of the kernel's, which leads to no certain place", link);
    }
    if (++links_ > kMaxLinks) return SysErr(ELOOP, "'{}'", given_);
    char target[PATH_MAX];
    ssize_t length = ::readlinkat(fd, "", target, sizeof(target));
    if (length < 0) return SysErr(errno, "'{}'", given_);
    if (length == 0 || length == sizeof(target)) return SysErr(ENAMETOOLONG, "'{}'", given_);
    if (target[0] == '/') places_.resize(1);
    Push(std::string_view(target, static_cast<size_t>(length)));
    return {};
  }

  Result<std::string> AppendRest(const std::string& name) {
    std::string path = RealSoFar();
    if (path == "/") path.clear();
    path += '/' + name;
    for (; !pending_.empty(); pending_.pop_back()) {
      const std::string& next = pending_.back();
      if (next.empty() || next == ".") continue;
      if (next == "..") return Err(ErrorCode::kInvalid, "'{}' has '..' after a directory that does not exist", given_);
      path += '/' + next;
    }
    return path;
  }

  std::string RealSoFar() const {
    std::string path;
    for (size_t i = 1; i < places_.size(); ++i) path += '/' + places_[i].name;
    return path.empty() ? "/" : path;
  }

  std::string Below(const std::string& name) const {
    std::string dir = RealSoFar();
    return dir == "/" ? dir + name : dir + '/' + name;
  }

  std::string_view given_;
  std::span<const std::string> guest_writable_;
  std::vector<std::pair<dev_t, ino_t>> guest_ids_;
  std::vector<Place> places_;  // from "/" on
  std::vector<std::string> pending_;
  int links_ = 0;
};

}  // namespace

Result<std::string> ResolveHostPath(std::string_view path, std::span<const std::string> guest_writable) {
  return Walk(path, guest_writable).Run(Missing::kIsAnError);
}

Result<std::string> ResolveHostDirectoryForCreation(std::string_view path,
                                                    std::span<const std::string> guest_writable) {
  return Walk(path, guest_writable).Run(Missing::kIsAppended);
}

bool TrustedOwner(uid_t uid) {
  if (uid == 0 || uid == ::geteuid()) return true;
  struct stat root{};
  return ::stat("/", &root) == 0 && uid == root.st_uid;
}

Result<std::string> ReadDataFile(const std::string& path, uint64_t limit) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info{};
  if (!fd || ::fstat(fd.get(), &info) != 0) return SysErr(errno, "open '{}'", path);
  if (!S_ISREG(info.st_mode)) return Err(ErrorCode::kUnsupported, "'{}' is not a regular file", path);
  auto text = os::ReadFd(fd.get(), limit);
  if (!text) return std::unexpected(std::move(text.error()).WithContext(fmt::format("'{}'", path)));
  return text;
}

bool LiesBelowAny(const std::string& path, std::span<const std::string> dirs) {
  if (dirs.empty()) return false;
  auto below = [&](const std::string& each) {
    return std::ranges::any_of(dirs, [&](const std::string& dir) { return IsBelow(each, dir); });
  };
  if (below(Normalize(path, "/"))) return true;
  std::string real = RealPath(path);
  return !real.empty() && below(real);
}

}  // namespace cella::language
