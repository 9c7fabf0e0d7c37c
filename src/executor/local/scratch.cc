#include "executor/local/scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "os/owner.h"

namespace cella::executor {
namespace {

constexpr std::string_view kPrefix = "cella-local-";

void RemoveTree(const std::string& path) {
  namespace fs = std::filesystem;
  // remove_all does not follow links and walks by descriptor.
  std::error_code error;
  fs::remove_all(path, error);
  if (!error) return;
  // A program may have taken its own directories' rights away. They are ours to give back.
  auto open_up = [](const fs::path& directory) {
    std::error_code ignored;
    fs::permissions(directory, fs::perms::owner_all, fs::perm_options::add | fs::perm_options::nofollow, ignored);
  };
  open_up(path);
  fs::recursive_directory_iterator walk(path, error), end;
  while (!error && walk != end) {
    if (walk->is_directory(error) && !walk->is_symlink()) {
      open_up(walk->path());
    }
    walk.increment(error);
  }
  fs::remove_all(path, error);
}

}  // namespace

Result<LocalScratch> LocalScratch::Create(const std::string& parent) {
  std::string path = fmt::format("{}/{}", parent, os::FormatOwnedName(kPrefix, os::CurrentOwner(), "XXXXXX"));
  if (mkdtemp(path.data()) == nullptr) {
    // Not a missing file of the caller's: 126, whatever errno says.
    return Err(ErrorCode::kUnsupported, "create a directory in '{}': {}; set TMPDIR", parent, ErrnoText(errno));
  }
  return LocalScratch(std::move(path));
}

LocalScratch::~LocalScratch() {
  if (!path_.empty()) RemoveTree(path_);
}

void LocalScratch::Sweep(const std::string& parent) {
  std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(parent.c_str()), closedir);
  if (!directory) return;
  const os::Owner self = os::CurrentOwner();
  if (self.pid_namespace == 0) return;  // a foreign /proc: no judging by it
  while (const dirent* entry = readdir(directory.get())) {
    auto owned = os::ParseOwnedName(kPrefix, entry->d_name);
    // In another pid namespace (a container that shares the directory) the number says nothing to us.
    if (!owned || owned->owner.pid_namespace != self.pid_namespace || os::IsAlive(owned->owner)) continue;
    struct stat info;
    if (fstatat(dirfd(directory.get()), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) < 0) continue;
    if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid()) continue;
    RemoveTree(fmt::format("{}/{}", parent, entry->d_name));
  }
}

}  // namespace cella::executor
