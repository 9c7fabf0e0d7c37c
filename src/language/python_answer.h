// What a Python interpreter reports about itself. Blocks; not for use by two threads at once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "language/host_env.h"
#include "language/tool_answers.h"

namespace cella::language {

struct PythonAnswer {
  std::string executable;  // sys.executable
  std::string version;     // "3.11.7"
  std::string prefix;
  std::string base_prefix;
  std::string exec_prefix;
  std::string base_exec_prefix;
  // Of an environment, whose files are read and not run:
  bool read_as_data = false;
  std::string base_executable;       // the interpreter that it was made from
  std::vector<std::string> between;  // environments that it was made from, if any
};

class PythonAsker {
 public:
  explicit PythonAsker(const HostEnv& host);

  // `path` is absolute. An environment (venv, Conda) is described by its files, and a venv by its base interpreter's
  // answer too. A shim is described by the interpreter that it starts. Everything else answers for itself; what it
  // claims is refused (kUnsupported) unless the question showed it. kNotFound: there is no such executable file.
  Result<PythonAnswer> Ask(const std::string& path) { return Ask(path, 0); }

 private:
  // `depth`: shims and environments that led to this path.
  Result<PythonAnswer> Ask(const std::string& path, int depth);
  Result<PythonAnswer> AskInterpreter(const std::string& path);
  Result<PythonAnswer> AskShim(const std::string& path, int depth);
  Result<PythonAnswer> DescribeVenv(const std::string& path, const std::string& dir, int depth);

  const HostEnv& host_;
  ToolAnswers answers_;
};

}  // namespace cella::language
