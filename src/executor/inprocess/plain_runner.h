// The sandbox's Python runner as a plain program: its pipes, its socket, and the questions to it. One lives in one
// watched process tree, which its owner starts and ends. On the loop.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "async/blocking_pool.h"
#include "async/ready_set.h"
#include "confine/env_vars.h"
#include "confine/jail.h"
#include "confine/limits.h"
#include "executor/sandbox/cell_execution.h"
#include "executor/sandbox/runner.h"
#include "os/cgroup.h"
#include "os/io.h"

namespace cella::executor {

// What a runner is started with. The references outlive it.
struct PlainRunnerPlace {
  async::Loop& loop;
  async::BlockingPool& decoding;
  confine::Jail& jail;
  const os::Cgroup& cgroup;  // may be empty
  const confine::LimitPlan& limits;
  std::vector<std::string> argv;
  confine::EnvVars variables;
  std::string cwd;
  runner::Configuration configuration;
};

class PlainRunner {
 public:
  // Starts it and waits until it answers, after which an interrupt is an exception in its code.
  static async::Task<Result<std::unique_ptr<PlainRunner>>> Start(PlainRunnerPlace place);
  ~PlainRunner();
  PlainRunner(const PlainRunner&) = delete;
  PlainRunner& operator=(const PlainRunner&) = delete;

  // Whether it can run a cell. Takes what it has sent since the last one.
  bool IsReady();
  // The same without taking anything: while a cell runs.
  bool IsConnected() const { return runner_.IsConnected() && !place_.jail.HasEnd(runner_.tag); }
  // Drops what the code of earlier cells has printed since.
  void DropLateOutput() { executor::DropLateOutput(cells_); }
  std::unique_ptr<run::Execution> Run(runner::Cell cell);
  // An answer as JSON text. kClosed: it has ended, or does not answer.
  async::Task<Result<std::string>> Ask(std::string question);

 private:
  PlainRunner(PlainRunnerPlace place, async::ReadySet ready);

  async::Task<Status> Exec();
  async::Task<Status> Configure();
  async::Task<Status> AwaitStart();

  PlainRunnerPlace place_;
  os::Pipe out_, err_;
  async::ReadySet ready_;
  os::CgroupMeter meter_;
  CellContext cells_;
  Runner runner_;
};

}  // namespace cella::executor
