// A guest in a container in command mode: each block is a file and a process of its own, and no state stays but files.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "confine/jail.h"
#include "confine/launch_context.h"
#include "confine/limits.h"
#include "confine/program_execution.h"
#include "executor/container/container.h"
#include "executor/container/container_files.h"
#include "run/executor.h"

namespace cella::executor {

class ContainerGuest : public run::Guest, public run::CallSocket {
 public:
  ContainerGuest(confine::LaunchContext& context, run::GuestSpec spec, std::unique_ptr<Container> container,
                 confine::LimitPlan limits, Isolation isolation);

  // Before the first block. After an Error there is still Close.
  async::Task<Status> Prepare(run::StopToken stop);

  const run::Traits& traits(std::string_view) const override { return run::kPrograms; }
  const Isolation& isolation() const override { return isolation_; }
  std::string LanguageOf(const RunSpec& run, const Block& block) const override;
  async::Task<Result<std::unique_ptr<run::Execution>>> Begin(const run::BlockTurn& turn, run::StopToken stop) override;
  async::Task<Result<run::StateReport>> AfterBlock(const run::RunFacts& facts, run::EventSink& sink) override;
  async::Task<void> Close() override;
  std::optional<uint64_t> MemoryUsed() const override;
  async::Task<run::GuestUsage> MeasureUsage() override;

  const os::Directory* workspace() const override { return workdir_ ? &*workdir_ : nullptr; }
  run::CallSocket* call_socket() override { return this; }
  async::Task<Result<UniqueFd>> Listen() override { return jail_.Listen(); }

 private:
  async::Task<Result<language::Plan>> MakeBlockPlan(const run::BlockTurn& turn);
  confine::ProgramPlace Place();

  confine::LaunchContext& context_;
  run::GuestSpec spec_;
  std::unique_ptr<Container> container_;
  confine::Jail jail_;
  confine::LimitPlan limits_;
  Isolation isolation_;
  ContainerFiles files_;
  std::optional<os::Directory> workdir_;
  bool reports_files_ = true;
};

}  // namespace cella::executor
