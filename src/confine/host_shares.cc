#include "confine/host_shares.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "language/visible.h"
#include "os/bound_sockets.h"
#include "os/mount_points.h"

namespace cella::confine {
namespace {

using Kind = GuardedPath::Kind;
using language::DirName;
using language::IsBelow;

constexpr int kMaxEntries = 20'000;  // of a directory with a moved socket

struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  mode_t type = 0;

  bool is_socket() const { return type == S_IFSOCK; }

  bool operator==(const FileId&) const = default;
};

// A place of the host that a guest sees, and the path by which the caller knows it.
struct Sight {
  const HostShare* share = nullptr;
  std::string path;
};

std::string Join(const std::string& directory, std::string_view name) {
  return directory == "/" ? fmt::format("/{}", name) : fmt::format("{}/{}", directory, name);
}

// Files by device and inode: a bind mount gives one directory several paths.
class HostFiles {
 public:
  // Of the path itself, links not followed. Nothing: it does not exist, or the caller has no way to it.
  const std::optional<FileId>& IdOf(const std::string& path) {
    auto [entry, is_new] = ids_.try_emplace(path);
    struct stat info;
    if (is_new && fstatat(AT_FDCWD, path.c_str(), &info, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0) {
      entry->second = FileId{info.st_dev, info.st_ino, info.st_mode & S_IFMT};
    }
    return entry->second;
  }

  // Where the last name of the path lies: its directory by the real path.
  std::string PlaceOf(const std::string& path) {
    return path == "/" ? path : Join(RealPath(DirName(path)), language::BaseName(path));
  }

  // Of what exists; behind that what is missing follows as it is written. One look at each directory, where realpath
  // looks at all of them for each path.
  const std::string& RealPath(const std::string& path) {
    auto [entry, is_new] = real_.try_emplace(path);
    std::string& real = entry->second;  // stays where it is while others are added
    if (!is_new) return real;
    const std::string place = PlaceOf(path);
    const auto& id = IdOf(place);
    if (id && id->type == S_IFLNK) real = language::RealPath(place);
    if (real.empty()) real = place;
    return real;
  }

 private:
  std::unordered_map<std::string, std::optional<FileId>> ids_;
  std::unordered_map<std::string, std::string> real_;
};

class Check {
 public:
  Check(std::span<const HostShare> shares, std::span<const GuardedPath> guarded) : shares_(shares), guarded_(guarded) {}

  Status Run() {
    TRY_VOID(FindPlaces());
    for (const GuardedPath& guarded : guarded_) {
      TRY_VOID(guarded.kind == Kind::kService ? CheckService(guarded) : CheckOwn(guarded));
    }
    return CheckBoundSockets();
  }

 private:
  struct Place {
    FileId id;
    Sight sight;
  };

  // Every share, and every file system that is mounted below one: what that shows may have another path as well.
  Status FindPlaces() {
    for (const HostShare& share : shares_) AddPlace(share, share.path);
    TRY(std::vector<std::string> points, os::MountPoints());
    for (const std::string& point : points) {
      for (const HostShare& share : shares_) {
        if (point != share.path && IsBelow(point, share.path)) TRY_VOID(AddMountPoint(share, point));
      }
    }
    return {};
  }

  void AddPlace(const HostShare& share, const std::string& path) {
    const auto& id = files_.IdOf(path);
    if (!id) return;  // opening it will tell why
    if (id->is_socket()) named_.push_back(*id);
    places_.push_back({*id, {&share, path}});
  }

  Status AddMountPoint(const HostShare& share, const std::string& point) {
    const auto& id = files_.IdOf(point);
    // A socket that was mounted here belongs to another place of this machine, perhaps to another network namespace.
    if (id && id->is_socket()) {
      if (!IsNamed(*id)) return ShowsService({&share, point}, "a socket");
    } else if (id) {
      places_.push_back({*id, {&share, point}});
    }
    return {};
  }

  bool IsNamed(const FileId& id) const { return std::ranges::find(named_, id) != named_.end(); }

  // Where guests see a file with this real path; nothing: nowhere. `writable`: in writable shares only.
  std::optional<Sight> Find(const std::string& real, bool writable) {
    for (std::string above = real;; above = DirName(above)) {
      if (const auto& id = files_.IdOf(above)) {
        for (const Place& place : places_) {
          if (place.id != *id || (writable && !place.sight.share->writable)) continue;
          const std::string below = real.substr(above == "/" ? 0 : above.size());
          return Sight{place.sight.share, place.sight.path == "/" ? below : place.sight.path + below};
        }
      }
      if (above == "/") return std::nullopt;
    }
  }

  // Where the name of `path`, or of a directory or link on the way to it, lies: a user who may write there decides what
  // is found under the name.
  std::optional<Sight> FindOnTheWay(const std::string& path, bool writable) {
    for (std::string part = path; part != "/"; part = DirName(part)) {
      if (auto sight = Find(files_.PlaceOf(part), writable)) return sight;
    }
    return Find(files_.RealPath(path), writable);
  }

  Status CheckOwn(const GuardedPath& guarded) {
    const bool writable = guarded.kind != Kind::kPrivate;
    if (auto sight = FindOnTheWay(guarded.path, writable)) return Holds(*sight, guarded);
    if (guarded.kind == Kind::kShared) return {};
    const auto id = files_.IdOf(files_.RealPath(guarded.path));
    if (!id) return {};
    for (const HostShare& share : shares_) {
      if (writable && !share.writable) continue;
      for (std::string above = share.path; above != "/"; above = DirName(above)) {
        if (files_.IdOf(above) != id) continue;
        return Err(ErrorCode::kPermission, "{} '{}' lies in {} ('{}'), which no guest may {}: name another directory",
                   share.name, share.path, guarded.what, guarded.path, writable ? "write to" : "see");
      }
    }
    return {};
  }

  Status CheckService(const GuardedPath& guarded) {
    const std::string& real = files_.RealPath(guarded.path);
    const auto id = files_.IdOf(real);
    if (!id || IsNamed(*id)) return {};
    auto sight = Find(real, false);
    return sight ? ShowsService(*sight, guarded.what) : Status{};
  }

  Status CheckBoundSockets() {
    auto names = os::BoundSockets();
    if (!names) return std::unexpected(std::move(names.error()).WithContext("look for sockets below what is mounted"));
    for (const std::string& name : *names) {
      if (name.contains("/../")) {
        TRY_VOID(CheckBound(Join(language::RealPath(DirName(name)), language::BaseName(name))));
      } else if (name.starts_with('/')) {
        TRY_VOID(CheckBound(files_.PlaceOf(language::Normalize(name, "/"))));
      } else {
        // Relative to a directory that the kernel does not tell.
        for (const HostShare& share : shares_) TRY_VOID(CheckBound(language::Normalize(name, share.path)));
      }
    }
    return {};
  }

  Status CheckBound(const std::string& path) {
    auto sight = Find(path, false);
    if (!sight) return {};
    const auto& id = files_.IdOf(path);
    if (id && id->is_socket()) {
      return IsNamed(*id) ? Status{} : ShowsService(*sight, "a socket that a program listens on");
    }
    // Removed, or of another mount namespace; or moved: programs bind under a passing name and link it into place.
    return CheckMoved(language::DirName(path));
  }

  // A socket in whose directory one was bound that is not found under its name.
  Status CheckMoved(const std::string& directory) {
    if (!searched_.insert(directory).second) return {};
    const std::unique_ptr<DIR, decltype([](DIR* open) { closedir(open); })> open(opendir(directory.c_str()));
    for (int count = 0; open && count < kMaxEntries; ++count) {
      const dirent* entry = readdir(open.get());
      if (entry == nullptr) break;
      if (entry->d_type != DT_SOCK && entry->d_type != DT_UNKNOWN) continue;
      const std::string path = Join(directory, entry->d_name);
      const auto& id = files_.IdOf(path);
      if (!id || !id->is_socket() || IsNamed(*id)) continue;
      if (auto sight = Find(path, false)) return ShowsService(*sight, "a socket that a program may listen on");
    }
    return {};
  }

  static Status ShowsService(const Sight& sight, std::string_view what) {
    return Err(ErrorCode::kPermission,
               "{} '{}' shows guests {} ('{}'), which they could use in your name: name a directory without it, or "
               "mount the socket by its own path if guests may use it",
               sight.share->name, sight.share->path, what, sight.path);
  }

  static Status Holds(const Sight& sight, const GuardedPath& guarded) {
    const std::string_view danger = guarded.kind == Kind::kPrivate ? "which no guest may see: name"
                                    : guarded.kind == Kind::kProgram
                                        ? "which guests could replace: mount it read-only, or name"
                                        : "where other programs have their files: name";
    return Err(ErrorCode::kPermission, "{} '{}' holds {} ('{}'), {} a directory without it", sight.share->name,
               sight.share->path, guarded.what, sight.path, danger);
  }

  std::span<const HostShare> shares_;
  std::span<const GuardedPath> guarded_;
  HostFiles files_;
  std::vector<Place> places_;
  std::vector<FileId> named_;                 // sockets that are shares themselves
  std::unordered_set<std::string> searched_;  // for moved sockets
};

}  // namespace

std::vector<HostShare> SharesOf(const Policy& policy, std::span<const std::string> visible) {
  std::vector<HostShare> shares;
  if (!policy.workdir.empty()) shares.push_back({"workdir", policy.workdir, true});
  for (const Mount& mount : policy.mounts) {
    shares.push_back({"mount", mount.source, mount.mode == MountMode::kReadWrite});
  }
  if (!policy.rootfs.empty()) shares.push_back({"rootfs", policy.rootfs, false});
  for (const std::string& directory : visible) shares.push_back({"the interpreter's directory", directory, false});
  return shares;
}

bool OpenedPaths::Hold(const HostShare& share) const {
  const std::string real = language::RealPath(share.path);
  if (real.empty()) return false;
  if (!writable.empty() && IsBelow(real, writable)) return true;
  return !share.writable && !readable.empty() && IsBelow(real, readable);
}

Status CheckShares(std::span<const HostShare> shares, std::span<const GuardedPath> guarded) {
  if (shares.empty()) return {};
  return Check(shares, guarded).Run();
}

}  // namespace cella::confine
