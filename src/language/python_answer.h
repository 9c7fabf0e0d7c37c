// What a Python interpreter says about itself, and the file that remembers it: starting an interpreter only to ask
// costs tens of milliseconds, behind a pyenv shim more than a hundred. Blocks; not for use by two threads at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "language/host_env.h"

namespace cella::language {

struct PythonAnswer {
  std::string executable;  // sys.executable
  std::string version;     // "3.11.7"
  std::string prefix;
  std::string base_prefix;
  std::string exec_prefix;
  std::string base_exec_prefix;
  int64_t mtime = 0;  // of the executable, in nanoseconds, when it was asked
  // Of an environment, whose files are read and not run:
  bool read_as_data = false;
  std::string base_executable;       // the interpreter that it was made from
  bool base_asked = false;           // it was asked; else even this is read off the files
  std::vector<std::string> between;  // environments that it was made from, if any
};

class PythonAsker {
 public:
  explicit PythonAsker(const HostEnv& host);

  // `path` is absolute. An environment (venv, Conda) is described by its files and its base interpreter, which is asked
  // only where PATH, the system or a version manager has it: else a guest that can write the environment could name
  // any program. Everything else is asked itself, if CheckRunnable allows it (kUnsupported). The remembered answer is
  // taken when neither the file nor, for a shim, what decides its choice has changed. kNotFound: there is no such
  // executable file.
  Result<PythonAnswer> Ask(const std::string& path);

 private:
  Result<PythonAnswer> AskProgram(const std::string& path);
  Result<PythonAnswer> DescribeVenv(const std::string& path, const std::string& dir);
  void LoadCache();
  std::optional<Result<PythonAnswer>> Recall(const std::string& key);
  void Remember(const std::string& key, const std::string& path, const Result<PythonAnswer>& answer);

  const HostEnv& host_;
  std::string cache_dir_;  // empty: none, or guests may write to it
  bool loaded_ = false;
  std::string cache_;
};

// A small script or a link of a version manager that picks the real interpreter by environment and directory.
bool IsShim(const std::string& path);

}  // namespace cella::language
