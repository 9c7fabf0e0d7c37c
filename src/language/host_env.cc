#include "language/host_env.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "language/version_managers.h"

namespace cella::language {
namespace {

std::string FromEnviron(const char* name) {
  const char* value = ::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// Below sudo HOME may be another user's, where we keep nothing.
bool IsOwnDirectory(const std::string& path) {
  struct stat info{};
  return path.starts_with('/') && ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
         info.st_uid == ::geteuid();
}

std::string CacheDirectory(const std::string& home, const std::string& state_dir) {
  // Relative ones are to be ignored, as the base directory specification says.
  if (std::string cache = FromEnviron("XDG_CACHE_HOME"); cache.starts_with('/')) return cache + "/cella";
  if (IsOwnDirectory(home)) return home + "/.cache/cella";
  if (!state_dir.empty()) return state_dir;
  if (std::string state = FromEnviron("XDG_STATE_HOME"); state.starts_with('/')) return state + "/cella";
  return "/var/lib/cella";  // of root, or of a service whose user has been given it
}

}  // namespace

std::string_view HostEnv::Get(std::string_view name) const {
  for (const auto& [key, value] : variables) {
    if (key == name) return value;
  }
  return {};
}

HostEnv HostEnv::FromProcess(const std::string& state_dir) {
  HostEnv host;
  host.path = FromEnviron("PATH");
  if (::getenv("PATH") == nullptr) host.path = "/usr/local/bin:/usr/bin:/bin";  // as shells have it
  host.home = FromEnviron("HOME");
  host.virtual_env = FromEnviron("VIRTUAL_ENV");
  char cwd[PATH_MAX];
  if (::getcwd(cwd, sizeof(cwd)) != nullptr) host.cwd = cwd;
  host.cache_dir = CacheDirectory(host.home, state_dir);
  for (const std::string& name : ManagerVariables()) {
    if (std::string value = FromEnviron(name.c_str()); !value.empty()) host.variables.emplace_back(name, value);
  }
  return host;
}

}  // namespace cella::language
