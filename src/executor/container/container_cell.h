// A cell in a container: as anywhere else, with the counters of the container's cgroup, which only its agent can read.
#pragma once

#include <memory>

#include "executor/container/bridge.h"
#include "run/executor.h"

namespace cella::executor {

class ContainerCell : public run::Execution {
 public:
  // The bridge outlives the execution.
  ContainerCell(std::unique_ptr<run::Execution> cell, const AgentBridge& bridge)
      : cell_(std::move(cell)), bridge_(bridge), before_(bridge.counters()) {}

  async::Task<run::Progress> Advance(async::TimePoint until, run::Output& out) override {
    return cell_->Advance(until, out);
  }
  void Wake() override { cell_->Wake(); }
  void Send(run::StopStep step) override { cell_->Send(step); }
  void Answer(run::HostReply reply) override { cell_->Answer(std::move(reply)); }
  bool HasStarted() override { return cell_->HasStarted(); }
  void CloseOutput(Stream stream) override { cell_->CloseOutput(stream); }
  async::Task<Result<run::RunFacts>> Finish(run::Output& out) override {
    auto facts = co_await cell_->Finish(out);
    if (facts && !facts->answer) {
      facts->oom_kills = bridge_.counters().oom_kills - before_.oom_kills;
      facts->refused_forks = bridge_.counters().refused_forks - before_.refused_forks;
    }
    co_return facts;
  }

 private:
  std::unique_ptr<run::Execution> cell_;
  const AgentBridge& bridge_;
  const agent::Counters before_;
};

}  // namespace cella::executor
