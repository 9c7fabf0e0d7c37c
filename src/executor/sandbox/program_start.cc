#include "executor/sandbox/program_start.h"

#include <fmt/format.h>

#include <algorithm>

namespace cella::executor {
namespace {

// Read when an interpreter, its loader or its C library starts, which is over in a zygote.
bool ActsAtStart(std::string_view name) {
  for (std::string_view prefix : {"PYTHON", "LC_", "LD_", "MALLOC_", "GLIBC_"}) {
    if (name.starts_with(prefix)) return true;
  }
  return name == "LANG" || name == "LANGUAGE";
}

}  // namespace

std::string WhyExec(const Policy& policy, const RunSpec& run) {
  if (!policy.rootfs.empty()) return "another root tree";
  if (run.stdin_fd >= 0 && !run.stdin_text) return "standard input is a descriptor";
  for (const auto& [name, value] : policy.env) {
    if (ActsAtStart(name)) return fmt::format("{} acts at the start of an interpreter", name);
  }
  return "";
}

std::string WhyExec(const Policy& policy, const RunSpec& run, const language::Plan& plan, const WarmEnvironment& warm) {
  if (plan.language != "python") return "not Python";
  if (std::string why = WhyExec(policy, run); !why.empty()) return why;
  if (!warm.forks()) return warm.plan().no_fork;
  const auto zygote = warm.plan().interpreters.find("python");
  const bool same = zygote != warm.plan().interpreters.end() && !plan.commands.empty() &&
                    zygote->second.argv.front() == plan.commands.back().argv.front();
  // The file follows the interpreter: no options are between them.
  const bool plain = same && plan.commands.size() == 1 && plan.commands.back().argv.size() == run.args.size() + 2;
  return plain ? "" : "another interpreter";
}

}  // namespace cella::executor
