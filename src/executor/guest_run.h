// Runs the commands of a plan in a built jail (or tree): output pumped to the sink, limits of time watched, the end
// classified. The part that all executors with processes share.
#pragma once

#include <string>
#include <vector>

#include "async/descriptor.h"
#include "async/event.h"
#include "async/task.h"
#include "executor/executor.h"
#include "executor/launch.h"
#include "executor/limits.h"
#include "os/cgroup.h"

namespace cella::executor {

struct GuestRunOptions {
  const language::Plan* plan = nullptr;
  const Limits* limits = nullptr;
  const LimitPlan* limit_plan = nullptr;
  std::vector<std::string> env;
  std::string search_path;
  std::string cwd;
  UniqueFd standard_input;
  bool in_session = false;  // others live in the jail: only the program and its group are ended, usage counts from here
};

class GuestRun {
 public:
  // All references outlive the run. `cgroup` may be empty.
  GuestRun(async::Loop& loop, Launch& launch, const os::Cgroup& cgroup, EventSink& sink, async::Event& cancel)
      : loop_(loop), launch_(launch), cgroup_(cgroup), sink_(sink), cancel_(cancel) {}

  async::Task<Result<Outcome>> Run(GuestRunOptions options);

 private:
  // How one command ended, before it is judged.
  struct End {
    std::optional<jail::Report> report;  // nothing: the jail died without one
    bool timed_out = false;
    bool cancelled = false;
    bool out_of_cpu_time = false;
  };

  async::Task<Result<Outcome>> RunCommands(GuestRunOptions& options, const std::vector<language::Command>& commands);
  async::Task<Result<End>> RunCommand(GuestRunOptions& options, const language::Command& command);
  async::Task<Result<End>> Watch(async::Event& program_started);
  async::Task<void> PumpOutput(UniqueFd pipe, Stream stream, async::Event& ended);
  async::Task<void> PumpInput(async::Opened input, UniqueFd pipe, async::Event& program_started);
  async::TimePoint NextCpuCheck();
  Outcome Judge(const End& end);

  async::Loop& loop_;
  Launch& launch_;
  const os::Cgroup& cgroup_;
  EventSink& sink_;
  async::Event& cancel_;

  uint32_t tag_ = 0;  // of the command that runs
  int group_ = 0;     // whom signals are for; 0: everybody inside
  bool in_session_ = false;
  std::chrono::nanoseconds cpu_before_{};
  const Limits* limits_ = nullptr;
  const LimitPlan* limit_plan_ = nullptr;
  async::TimePoint started_;
  async::TimePoint deadline_;
  double cpu_ms_ = 0;
  uint64_t peak_memory_ = 0;
  uint64_t oom_kills_before_ = 0;
  uint64_t pids_refused_before_ = 0;
  bool abandoned_ = false;  // nobody waits for the rest of the output
};

}  // namespace cella::executor
