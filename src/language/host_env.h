// What tool lookup wants to know of the caller's environment, as values: libraries do not read environ behind the
// caller's back, and a server answers for callers other than itself.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cella::language {

struct HostEnv {
  std::string path;         // PATH
  std::string home;         // HOME
  std::string cwd;          // where version managers look for .python-version and the like; empty: "/"
  std::string virtual_env;  // VIRTUAL_ENV
  std::string cache_dir;    // for answers of interpreters; empty: none are kept
  // What version managers and toolchains read: PYENV_ROOT, PYENV_VERSION, ASDF_…, RUSTUP_HOME, …
  std::vector<std::pair<std::string, std::string>> variables;
  // Real paths of the directories that guests may write to (--workdir, writable mounts). Nothing below them is run on
  // the host.
  std::vector<std::string> guest_writable;

  // The variable's value, or "".
  std::string_view Get(std::string_view name) const;
  // The clean environment for a program that is asked something: HOME, PATH and the variables above, without what
  // leads to where guests may write or into a virtual environment.
  std::vector<std::string> ForAsking() const;
  // The current directory for that. Version managers read files there that name programs (rust-toolchain.toml,
  // .tool-versions), so it is "/" when a guest may have written those.
  std::string DirectoryForAsking() const;

  // Of this process; cache_dir is $XDG_CACHE_HOME/cella or ~/.cache/cella. Not to be called while another thread
  // changes the environment.
  static HostEnv FromProcess();
};

}  // namespace cella::language
