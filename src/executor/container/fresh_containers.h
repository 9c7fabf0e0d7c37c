// A session whose runs have a container each (`fresh: run`): before every run but the first, the container of the last
// one is ended and another is opened. Nothing stays but directories of the host and the packages that the session
// added. Lives on the loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "executor/container/bridge.h"
#include "os/directory.h"
#include "run/executor.h"

namespace cella::executor {

class FreshContainers : public run::Guest, public run::CallSocket, public run::Packages {
 public:
  using Opener = std::function<async::Task<Result<std::unique_ptr<run::Guest>>>(run::StopToken stop)>;
  // With the first container, which shows that they can be had. What `open` refers to outlives the guest.
  FreshContainers(const Policy& policy, Opener open, std::unique_ptr<run::Guest> first);

  const run::Traits& traits(std::string_view language) const override;
  const Isolation& isolation() const override { return isolation_; }
  std::string LanguageOf(const RunSpec& run, const Block& block) const override {
    return guest_->LanguageOf(run, block);
  }
  bool takes_values(std::string_view language) const override { return guest_->takes_values(language); }
  async::Task<Result<std::unique_ptr<run::Execution>>> Begin(const run::BlockTurn& turn, run::StopToken stop) override;
  async::Task<Result<run::StateReport>> AfterBlock(const run::RunFacts& facts, run::EventSink& sink) override;
  async::Task<void> Close() override;
  std::optional<uint64_t> MemoryUsed() const override { return guest_->MemoryUsed(); }
  async::Task<run::GuestUsage> MeasureUsage() override;

  run::Packages* packages() override { return guest_->packages() == nullptr ? nullptr : this; }
  async::Task<Result<std::string>> Use(std::string directory) override;
  std::optional<Result<run::GuestPython>> python() const override { return guest_->packages()->python(); }
  async::Task<void> AskPython(run::StopToken stop) override;

  const os::Directory* workspace() const override { return workdir_ ? &*workdir_ : nullptr; }
  run::CallSocket* call_socket() override { return this; }
  async::Task<Result<UniqueFd>> Listen() override;

 private:
  async::Task<Status> Replace(run::StopToken stop);

  Opener open_;
  std::shared_ptr<run::Guest> guest_;  // of the run that is on, or comes next; shared with what measures it
  Isolation isolation_;
  std::optional<os::Directory> workdir_;
  std::string packages_;  // the directory that the session uses
  bool is_used_ = false;  // a run has begun in it
  bool is_open_ = true;
  bool listens_ = false;
};

}  // namespace cella::executor
