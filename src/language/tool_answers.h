// Answers of programs, and the file that remembers them: starting an interpreter only to ask costs tens of
// milliseconds, behind a pyenv shim more than a hundred. An answer is remembered for the files that decided it, by
// device, inode, change time and size. Blocks; not for use by two threads at once.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "language/host_env.h"
#include "language/tool_query.h"

namespace cella::language {

class ToolAnswers {
 public:
  explicit ToolAnswers(const HostEnv& host);

  enum class Refusals { kForget, kRemember };  // of a program that exits non-zero

  // The remembered answer, else what the program answers now. `deciding`: files whose change makes an answer old,
  // beside argv[0] and the links that it leads over. kNotFound: argv[0] is not an executable file. Else as
  // ToolAsker::AskProgram.
  Result<std::string> Ask(const ToolQuery& query, const std::vector<std::string>& deciding = {},
                          Refusals refusals = Refusals::kForget);

 private:
  void Load();
  std::optional<Result<std::string>> Recall(const std::string& key);
  void Remember(const std::string& key, const std::string& path, const Result<std::string>& answer);

  const HostEnv& host_;
  bool loaded_ = false;
  std::string text_;  // of the file
};

}  // namespace cella::language
