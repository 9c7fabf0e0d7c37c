#include "language/own_directory.h"

#include <fcntl.h>
#include <unistd.h>

namespace cella::language {
namespace {

void MakeDirectories(const std::string& dir) {
  for (size_t slash = dir.find('/', 1);; slash = dir.find('/', slash + 1)) {
    (void)::mkdir(dir.substr(0, slash).c_str(), 0700);
    if (slash == std::string::npos) return;
  }
}

}  // namespace

UniqueFd OpenOwnDirectory(const std::string& path, Missing missing) {
  if (!path.starts_with('/')) return {};
  if (missing == Missing::kIsMade) MakeDirectories(path);
  UniqueFd dir(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info{};
  if (!dir || ::fstat(dir.get(), &info) != 0 || info.st_uid != ::geteuid()) return {};
  // A state directory may be readable by others, which is harmless; the files are not.
  return (info.st_mode & 022) == 0 ? std::move(dir) : UniqueFd();
}

bool IsOursAlone(const struct stat& info) { return info.st_uid == ::geteuid() && (info.st_mode & 077) == 0; }

}  // namespace cella::language
