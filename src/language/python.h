// Which Python interpreter a run uses, and what of the host its guest must see for it. Blocks while an interpreter is
// asked for the first time; afterwards the answer comes from a cache file.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "language/host_env.h"

namespace cella::language {

// Where the programs of a plan run. A jail must show what they need, so they are asked about themselves. On the host
// they are started as they are found, as a shell does it; only versions are asked for.
enum class Destination { kJail, kHost };

struct PythonRequest {
  std::string python;  // "3.12", "3.12.1", "python3.12", a path, the name of a program on PATH; empty: the default
  std::string venv;    // a virtual environment's directory; empty: none was named
  HostEnv host;
  Destination destination = Destination::kJail;
};

struct Python {
  std::string executable;  // as it must be exec'ed, so that a virtual environment is recognised
  // Empty if it was not asked (Destination::kHost):
  std::string version;  // "3.11.7"
  std::string prefix;
  std::string base_prefix;
  std::string exec_prefix;
  std::string base_exec_prefix;
  std::vector<std::string> visible;    // host directories to show read-only, each at its own path
  std::vector<std::string> path_dirs;  // to put in front of PATH
  std::string virtual_env;             // for VIRTUAL_ENV; empty: it is none
};

// The named environment or interpreter, else VIRTUAL_ENV, else python3 on PATH. kNotFound: there is none, and which
// there are; kInvalid: the request contradicts itself; kUnsupported: it does not answer, or cannot be shown to a guest.
Result<Python> ResolvePython(const PythonRequest& request);

}  // namespace cella::language
