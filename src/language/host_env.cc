#include "language/host_env.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>

#include "language/host_path.h"
#include "language/host_program.h"
#include "language/visible.h"

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

// Shims begin with "#!/usr/bin/env bash": their PATH decides what runs, too.
std::string PathForAsking(const HostEnv& host) {
  std::vector<std::string> active = NamesOf(host.virtual_env);
  std::string kept;
  for (std::string_view rest = host.path; !rest.empty();) {
    size_t colon = rest.find(':');
    std::string dir(rest.substr(0, colon));
    rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
    if (!dir.starts_with('/') || LiesBelowAny(dir, host.guest_writable) || LiesBelowAny(dir, active)) continue;
    bool environment = std::ranges::any_of(NamesOf(dir), [](const std::string& name) {
      return !AlwaysVisible(name) && !VirtualEnvironmentOf(name + "/python").empty();
    });
    if (environment) continue;
    if (!kept.empty()) kept += ':';
    kept += dir;
  }
  return kept;
}

// pyenv's choice for the current directory, taken over as data: names of versions only. "" when there is none.
std::string ProjectPyenvVersion(const std::string& cwd) {
  constexpr uint64_t kMaxFile = 4096;
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_+";
  for (std::string dir = cwd;; dir = DirName(dir)) {
    std::string file = dir == "/" ? "/.python-version" : dir + "/.python-version";
    if (::access(file.c_str(), F_OK) == 0) {
      auto text = ReadDataFile(file, kMaxFile);
      std::string versions;
      for (std::string_view rest = text ? std::string_view(*text) : std::string_view(); !rest.empty();) {
        size_t end = std::min(rest.find_first_of(" \t\r\n"), rest.size());
        std::string_view word = rest.substr(0, end);
        rest.remove_prefix(std::min(end + 1, rest.size()));
        if (word.empty()) continue;
        if (word.starts_with('.') || word.find_first_not_of(kPlain) != std::string_view::npos) return {};
        if (!versions.empty()) versions += ':';
        versions += word;
      }
      return versions;
    }
    if (dir == "/") return {};
  }
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
  env.push_back("PATH=" + PathForAsking(*this));
  if (!home.empty()) env.push_back("HOME=" + home);
  for (const auto& [key, value] : variables) {
    // PYENV_ROOT, RUSTUP_HOME and the like: programs are taken from there.
    if (!value.starts_with('/') || !LiesBelowAny(value, guest_writable)) env.push_back(key + "=" + value);
  }
  if (cwd.starts_with('/') && DirectoryForAsking() != cwd && Get("PYENV_VERSION").empty()) {
    if (std::string version = ProjectPyenvVersion(cwd); !version.empty()) env.push_back("PYENV_VERSION=" + version);
  }
  return env;
}

std::string HostEnv::DirectoryForAsking() const { return cwd.empty() || LiesBelowAny(cwd, guest_writable) ? "/" : cwd; }

HostEnv HostEnv::FromProcess() {
  HostEnv host;
  host.path = FromEnviron("PATH");
  if (::getenv("PATH") == nullptr) host.path = "/usr/local/bin:/usr/bin:/bin";  // as shells have it
  host.home = FromEnviron("HOME");
  host.virtual_env = FromEnviron("VIRTUAL_ENV");
  char cwd[PATH_MAX];
  if (::getcwd(cwd, sizeof(cwd)) != nullptr) host.cwd = cwd;
  std::string cache = FromEnviron("XDG_CACHE_HOME");
  // A relative XDG_CACHE_HOME is to be ignored, as the base directory specification says.
  if (cache.starts_with('/')) {
    host.cache_dir = cache + "/cella";
  } else if (host.home.starts_with('/') && ::access(host.home.c_str(), F_OK) == 0) {
    host.cache_dir = host.home + "/.cache/cella";
  }
  for (const char* name : kVariables) {
    if (std::string value = FromEnviron(name); !value.empty()) host.variables.emplace_back(name, std::move(value));
  }
  return host;
}

}  // namespace cella::language
