// The file operations of the supervisor, below the workspace: the agent has the guest's own rights, and follows no
// symbolic link.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "agent/wire.h"
#include "os/directory.h"

namespace cella::agent {

// The whole payload of a kAnswer that is no failure.
std::string EncodeAnswer(std::string_view content);

class Files {
 public:
  // `packages` may be absent.
  Files(os::Directory directory, std::optional<os::Directory> packages)
      : directory_(std::move(directory)), packages_(std::move(packages)) {}

  // The whole payload of a kAnswer. Never waits for the guest.
  std::string Put(std::string_view payload);
  std::string Get(std::string_view payload);
  std::string List(std::string_view payload);
  std::string Remove(std::string_view payload);

 private:
  os::Directory directory_;
  std::optional<os::Directory> packages_;
  UniqueFd put_;  // the file that kPut is writing
};

}  // namespace cella::agent
