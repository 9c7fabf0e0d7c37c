// Shows code that has no name of its own as "<code>" in what a program writes to standard error: in tracebacks,
// warnings and messages of compilers. The file keeps its generated name, which is unique, so that nothing else matches.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "language/plan.h"

namespace cella::language {

class CodeName {
 public:
  // Replaces nothing.
  CodeName() = default;
  // `cwd`: the directory of the plan's commands, as the program sees it.
  CodeName(const Plan& plan, std::string_view cwd);

  // The text to show. `more`: further bytes wait in the pipe, so a name may be cut at the end; what could be its
  // beginning is held back for the next call.
  std::string Show(std::string bytes, bool more);
  // At the end of the stream: what is held back.
  std::string Rest() { return std::exchange(held_, {}); }

 private:
  std::vector<std::string> paths_;  // longest first; the last one is the bare name
  std::string held_;
};

}  // namespace cella::language
