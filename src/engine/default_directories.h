// Where Cella keeps its files when no option or configuration names a place.
#pragma once

#include <sys/types.h>

#include <string>

namespace cella::engine {

// What decides that.
struct Surroundings {
  uid_t uid = 0;
  std::string home;
  std::string xdg_state_home;
  std::string xdg_runtime_dir;

  // Not to be called while another thread changes the environment.
  static Surroundings FromProcess();
};

// What outlives a server: its registry, logs of runs, tokens.
std::string DefaultStateDirectory(const Surroundings& surroundings);

// Sockets, and what ends with the server. `state_dir`: the state directory of that server.
std::string DefaultRuntimeDirectory(const Surroundings& surroundings, const std::string& state_dir);

// What a user's commands keep, root's too; empty: HOME is not set.
std::string UserStateDirectory(const Surroundings& surroundings);

}  // namespace cella::engine
