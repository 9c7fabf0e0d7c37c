#include "server/state_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>

namespace cella::server {

Status MakePrivateDirectory(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    if (mkdir(path.substr(0, slash).c_str(), 0700) < 0 && errno != EEXIST) {
      return SysErr(errno, "make the directory '{}'", path.substr(0, slash));
    }
  }
  if (mkdir(path.c_str(), 0700) == 0) return {};
  if (errno != EEXIST) return SysErr(errno, "make the directory '{}'", path);
  struct stat info = {};
  if (stat(path.c_str(), &info) < 0) return SysErr(errno, "look at '{}'", path);
  if (!S_ISDIR(info.st_mode)) return Err(ErrorCode::kInvalid, "'{}' is not a directory", path);
  if ((info.st_mode & 0022) != 0 || (info.st_uid != geteuid() && info.st_uid != 0)) {
    return Err(ErrorCode::kPermission, "others can write to '{}': chmod go-w it, or name another directory", path);
  }
  return {};
}

Status EmptyDirectory(const std::string& path) {
  std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path.c_str()), closedir);
  if (!directory) return SysErr(errno, "open '{}'", path);
  while (const dirent* entry = readdir(directory.get())) {
    if (entry->d_type == DT_DIR) continue;
    if (unlinkat(dirfd(directory.get()), entry->d_name, 0) < 0 && errno != ENOENT && errno != EISDIR) {
      return SysErr(errno, "remove '{}/{}'", path, entry->d_name);
    }
  }
  return {};
}

}  // namespace cella::server
