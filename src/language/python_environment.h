// Python environments read as data: their files name the interpreter that they were made from, whose answer serves all
// of its environments. A guest may have written every one of these files.
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
  std::string version;     // "3.11.7"; empty: not given
  std::string executable;  // the base interpreter's file name; empty: not given, or no name of an interpreter
};

// The text of a pyvenv.cfg as venv, virtualenv and uv write it.
VenvConfig ParseVenvConfig(std::string_view text);

// The virtual environment that a program calls its own because of where it lies (PREFIX/bin/python beside
// PREFIX/pyvenv.cfg), else "". By the literal path, as Python does it.
std::string VirtualEnvironmentOf(const std::string& program);

// What an environment rests on.
struct VenvBase {
  std::string executable;            // the base interpreter, in no virtual environment
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
