// A session of the inprocess executor: a runner in an unconfined process tree, and programs of the same Python beside
// it. When the interpreter ends, its variables are lost with the whole tree, and the next run starts another one.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "executor/inprocess/plain_runner.h"
#include "executor/local/local_guest.h"

namespace cella::executor {

// kInvalid: the code is not Python, the only language of this executor.
Status CheckIsPython(const language::LanguageTable& table, const std::string& asked);

class PlainGuest : public LocalGuest, public run::Assistant, public run::Resettable {
 public:
  // `only`: for this one program; null: for a session, whose interpreter is started.
  static async::Task<Result<std::unique_ptr<run::Guest>>> Open(confine::LaunchContext& context, const LocalHost& host,
                                                               LocalScratch scratch, run::GuestSpec spec,
                                                               const RunSpec* only);

  const run::Traits& traits(std::string_view language) const override;
  std::string LanguageOf(const RunSpec& run, const Block& block) const override;
  bool takes_values(std::string_view language) const override;
  async::Task<Result<std::unique_ptr<run::Execution>>> Begin(const run::BlockTurn& turn, run::StopToken stop) override;
  async::Task<Result<run::StateReport>> AfterBlock(const run::RunFacts& facts, run::EventSink& sink) override;
  async::Task<void> Close() override;
  async::Task<run::GuestUsage> MeasureUsage() override;

  run::Assistant* assistant() override { return this; }
  async::Task<Result<std::string>> Ask(const std::string& language, CodeQuestion question, std::string code,
                                       size_t cursor) override;
  run::Resettable* resettable() override { return this; }
  async::Task<Status> Reset() override;
  run::Packages* packages() override { return alone_ || context_.layers.empty() ? nullptr : this; }
  async::Task<Result<std::string>> Use(std::string directory) override;

 private:
  PlainGuest(confine::LaunchContext& context, const LocalHost& host, LocalScratch scratch, run::GuestSpec spec,
             bool alone)
      : LocalGuest(context, host, std::move(scratch), std::move(spec)), alone_(alone) {}

  bool SharesTree() const override { return !alone_; }
  async::Task<Status> Prepare(const run::BlockTurn& turn) override;
  async::Task<Result<language::Plan>> PlanFor(const run::BlockTurn& turn) override;
  void AddToVariables(confine::EnvVars* variables) const override;

  bool CanAddPackages() const;
  Status CheckLanguage(const std::string& asked) const { return CheckIsPython(context_.table, asked); }
  async::Task<Result<language::Plan>> PlanInterpreter();
  async::Task<Status> EnsureTree();
  async::Task<Status> EnsureRunner();
  async::Task<void> EndTree();

  const bool alone_;
  std::unique_ptr<PlainRunner> runner_;  // in the tree; null: none was started there
  bool tree_ended_ = false;
  bool is_cell_ = false;                  // the block that is on
  std::string packages_;                  // directory of what the session added; empty: there is none
  std::vector<std::string> value_files_;  // of the variables of the run that is on
};

}  // namespace cella::executor
