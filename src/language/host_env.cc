#include "language/host_env.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

namespace cella::language {
namespace {

// Variables that decide which real program a version manager's shim starts, and where such programs are kept.
constexpr const char* kVariables[] = {
    "PYENV_ROOT",
    "PYENV_VERSION",
    "ASDF_DIR",
    "ASDF_DATA_DIR",
    "ASDF_PYTHON_VERSION",
    "MISE_DATA_DIR",
    "MISE_PYTHON_VERSION",
    "RUSTUP_HOME",
    "CARGO_HOME",
    "RUSTUP_TOOLCHAIN",
    "RBENV_ROOT",
    "RBENV_VERSION",
    "NODENV_ROOT",
    "NODENV_VERSION",
    "XDG_DATA_HOME",
    "XDG_CONFIG_HOME",
    "UV_PYTHON_INSTALL_DIR",
    "ASDF_NODEJS_VERSION",
    "PLENV_ROOT",
    "GOENV_ROOT",
};

std::string FromEnviron(const char* name) {
  const char* value = ::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace

std::string_view HostEnv::Get(std::string_view name) const {
  for (const auto& [key, value] : variables) {
    if (key == name) return value;
  }
  return {};
}

std::vector<std::string> HostEnv::ForAsking() const {
  // Asking must never start a download.
  std::vector<std::string> env = {"LC_ALL=C.UTF-8", "RUSTUP_AUTO_INSTALL=0", "GOTOOLCHAIN=local"};
  env.push_back("PATH=" + path);
  if (!home.empty()) env.push_back("HOME=" + home);
  for (const auto& [key, value] : variables) env.push_back(key + "=" + value);
  return env;
}

HostEnv HostEnv::FromProcess() {
  HostEnv host;
  host.path = FromEnviron("PATH");
  host.home = FromEnviron("HOME");
  host.virtual_env = FromEnviron("VIRTUAL_ENV");
  char cwd[PATH_MAX];
  if (::getcwd(cwd, sizeof(cwd)) != nullptr) host.cwd = cwd;
  std::string cache = FromEnviron("XDG_CACHE_HOME");
  // A relative XDG_CACHE_HOME is to be ignored, as the base directory specification says.
  if (cache.starts_with('/')) {
    host.cache_dir = cache + "/cella";
  } else if (host.home.starts_with('/')) {
    host.cache_dir = host.home + "/.cache/cella";
  }
  for (const char* name : kVariables) {
    if (std::string value = FromEnviron(name); !value.empty()) host.variables.emplace_back(name, std::move(value));
  }
  return host;
}

}  // namespace cella::language
