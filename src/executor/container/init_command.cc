#include "executor/container/init_command.h"

#include <algorithm>
#include <chrono>

#include "base/text.h"
#include "base/units.h"
#include "executor/container/inside.h"
#include "executor/container/program_to_end.h"

namespace cella::executor {
namespace {

using namespace std::chrono_literals;
using async::Task;

// A client waits for the session meanwhile.
constexpr std::chrono::nanoseconds kMostTime = 10min;
constexpr size_t kKeptOutput = 2000;

// In one line: it becomes part of a message, on terminals too.
std::string OneLine(std::string_view text) {
  std::string line = ToUtf8Lossy(text);
  while (!line.empty() && line.back() == '\n') line.pop_back();
  std::ranges::replace_if(line, [](char c) { return (c >= 0 && c < ' ') || c == 0x7f; }, ' ');
  return line.empty() ? "it wrote nothing" : line;
}

}  // namespace

Task<Status> RunInitCommand(confine::ProgramPlace place, const Policy& policy, run::StopToken stop) {
  const std::string& command = policy.container.init_command;
  if (command.empty()) co_return Status{};
  const std::chrono::nanoseconds most = std::min(policy.limits.timeout.value, kMostTime);
  confine::Program program;
  program.plan.commands.push_back({language::Purpose::kRun, {"sh", "-c", command}, {}});
  const confine::EnvVars variables = confine::GuestEnvVars(VariablesInside(), program.plan, policy);
  program.env = variables.Encode();
  program.search_path = *variables.Find("PATH");
  program.cwd = kWorkspaceInside;
  ProgramBounds bounds{most, kKeptOutput, policy.limits};
  auto ended = co_await RunToEnd(place, std::move(program), bounds, stop);
  if (!ended) co_return std::unexpected(std::move(ended.error()).WithContext("init_command failed"));
  if (ended->timed_out) {
    co_return Err(ErrorCode::kInvalid, "init_command failed: it did not end within {}: {}", FormatDuration(most),
                  OneLine(ended->tail));
  }
  const Outcome& outcome = ended->outcome;
  if (outcome.status == RunStatus::kOk) co_return Status{};
  co_return Err(ErrorCode::kInvalid, "init_command failed ({}, exit code {}): {}", ToString(outcome.status),
                outcome.exit_code, OneLine(ended->tail));
}

}  // namespace cella::executor
