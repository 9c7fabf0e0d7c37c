// The file operations of the supervisor, below the workspace: the agent has the guest's own rights, and follows no
// symbolic link.
#pragma once

#include <string>
#include <string_view>

#include "agent/wire.h"
#include "os/directory.h"

namespace cella::agent {

class Files {
 public:
  explicit Files(os::Directory directory) : directory_(std::move(directory)) {}

  // The whole payload of a kAnswer. Never waits for the guest.
  std::string Put(std::string_view payload);
  std::string Get(std::string_view payload);
  std::string List(std::string_view payload);
  std::string Remove(std::string_view payload);

 private:
  os::Directory directory_;
  UniqueFd put_;  // the file that kPut is writing
};

}  // namespace cella::agent
