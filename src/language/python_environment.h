// Python environments read as data. A guest may have written every file of one, so nothing in it is run on the host:
// its files say which interpreter outside of it is to be asked.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "language/host_env.h"

namespace cella::language {

struct VenvConfig {
  std::string home;        // the directory of the base interpreter
  std::string version;     // "3.11.7"; empty: not told
  std::string executable;  // the base interpreter's file name; empty: not told, or strange
};

// The text of a pyvenv.cfg as venv, virtualenv and uv write it.
VenvConfig ParseVenvConfig(std::string_view text);

// What an environment rests on.
struct VenvBase {
  std::string executable;            // the base interpreter, in no virtual environment
  std::string version;               // by pyvenv.cfg; may be empty
  std::vector<std::string> between;  // environments that this one was made from, if any
};

// `dir` is the environment's directory. kUnsupported: its pyvenv.cfg does not lead to an interpreter. kInvalid: a link
// on the way must not be followed, see ResolveHostPath.
Result<VenvBase> FindVenvBase(const std::string& dir, const HostEnv& host);

// "3.11.7" when `prefix` is a Conda environment that has Python, by the name of the package's record.
std::optional<std::string> CondaPythonVersion(const std::string& prefix);

// A directory that --venv or VIRTUAL_ENV may name: one with a pyvenv.cfg, or Conda's.
bool IsPythonEnvironment(const std::string& dir);

}  // namespace cella::language
