// What tool lookup wants to know of the caller's environment, as values: libraries do not read environ behind the
// caller's back, and a server answers for callers other than itself.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "language/tool_query.h"

namespace cella::language {

class GuestDirectories;

struct HostEnv {
  std::string path;         // PATH
  std::string home;         // HOME
  std::string cwd;          // where relative paths begin, and pyenv's .python-version is looked for; empty: "/"
  std::string virtual_env;  // VIRTUAL_ENV
  std::string cache_dir;    // for answers of programs; empty: none are kept
  // What version managers and toolchains read: PYENV_ROOT, PYENV_VERSION, ASDF_…, RUSTUP_HOME, …
  std::vector<std::pair<std::string, std::string>> variables;
  // Real paths of the directories that guests may write to (--workdir, writable mounts). No link there decides what a
  // guest sees, and no answers are kept there.
  std::vector<std::string> guest_writable;
  // The same of guests that were there before; null: unknown.
  std::shared_ptr<const GuestDirectories> guests;
  // How programs are asked about themselves; null: they are not.
  std::shared_ptr<const ToolAsker> asker;

  // The variable's value, or "".
  std::string_view Get(std::string_view name) const;

  // Of this process, without an asker. cache_dir is $XDG_CACHE_HOME/cella, else ~/.cache/cella; without a home
  // directory of its own it is `state_dir`, or where that is by default. Not to be called while another thread changes
  // the environment.
  static HostEnv FromProcess(const std::string& state_dir = "");
};

}  // namespace cella::language
