// Reads sources of workflows with the Python of the machine, in a jail, and executes none of them.
#pragma once

#include <string>
#include <vector>

#include "storage/file_storage.h"

namespace cella::engine {

struct SourceCheckOptions {
  std::string launcher{};                     // cella-launch; empty: that of this program's installation
  std::string state_dir{};                    // for what is remembered of programs, where there is no home directory
  std::string python{};                       // a version or a path; empty: the default
  std::vector<std::string> guest_writable{};  // real paths that guests may have written to: nothing there is trusted
};

// The result may be called by any thread, and blocks. Not to be made while another thread changes the environment.
storage::CheckSources MakeSourceCheck(SourceCheckOptions options);

}  // namespace cella::engine
