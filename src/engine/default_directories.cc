#include "engine/default_directories.h"

#include <unistd.h>

#include <cstdlib>

namespace cella::engine {

Surroundings Surroundings::FromProcess() {
  auto value = [](const char* name) -> std::string {
    const char* text = std::getenv(name);
    return text == nullptr ? "" : text;
  };
  return {.uid = ::geteuid(),
          .home = value("HOME"),
          .xdg_state_home = value("XDG_STATE_HOME"),
          .xdg_runtime_dir = value("XDG_RUNTIME_DIR")};
}

std::string DefaultStateDirectory(const Surroundings& surroundings) {
  // Root's are the machine's: the same from a login and from the init system.
  if (surroundings.uid == 0) return "/var/lib/cella";
  const std::string of_user = UserStateDirectory(surroundings);
  return of_user.empty() ? "/var/lib/cella" : of_user;
}

std::string DefaultRuntimeDirectory(const Surroundings& surroundings, const std::string& state_dir) {
  if (surroundings.uid == 0) return "/run/cella";
  if (surroundings.xdg_runtime_dir.starts_with('/')) return surroundings.xdg_runtime_dir + "/cella";
  // Not in /tmp, where others could make it first.
  return state_dir + "/run";
}

std::string UserStateDirectory(const Surroundings& surroundings) {
  // A relative one is to be ignored, says the XDG base directory specification.
  if (surroundings.xdg_state_home.starts_with('/')) return surroundings.xdg_state_home + "/cella";
  return surroundings.home.starts_with('/') ? surroundings.home + "/.local/state/cella" : "";
}

}  // namespace cella::engine
