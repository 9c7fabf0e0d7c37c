// One block in a kernel: an execute_request, and everything that comes back until its reply and its idle status.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "async/descriptor.h"
#include "async/task_group.h"
#include "confine/block_usage.h"
#include "executor/subprocess/kernel_messages.h"
#include "executor/subprocess/kernel_process.h"
#include "run/executor.h"

namespace cella::executor {

class KernelExecution : public run::Execution {
 public:
  // All of it outlives the execution.
  KernelExecution(async::Loop& loop, KernelProcess& kernel, async::BlockingPool& pool,
                  const confine::LimitPlan& limits);
  KernelExecution(const KernelExecution&) = delete;
  KernelExecution& operator=(const KernelExecution&) = delete;

  // An Error: nothing was sent.
  Status Begin(const run::BlockTurn& turn);

  async::Task<run::Progress> Advance(async::TimePoint until, run::Output& out) override;
  void Wake() override { kernel_.Wake(); }
  void Send(run::StopStep step) override;
  void Answer(run::HostReply reply) override;
  bool HasStarted() override { return started_; }
  std::optional<std::chrono::nanoseconds> CpuUsed() const override;
  async::Task<Result<run::RunFacts>> Finish(run::Output& out) override;

 private:
  async::Task<std::optional<jupyter::Json>> Parse(const jupyter::Message& message);
  async::Task<void> TakeOutput(run::Output& out, int at_most);
  async::Task<void> TakeReply(run::Output& out);
  async::Task<void> TakeQuestion(run::Output& out);
  void Probe();
  void Note(run::Output& out, std::string text);
  void AnswerInput(std::optional<std::string> line);
  std::optional<std::string> NextLine();
  async::Task<void> AnswerFromFile();
  bool HasEnded();
  bool MayOweValue() const;
  bool IsDone() const { return reply_ && (idle_ || probed_) && (probed_ || !MayOweValue()); }

  async::Loop& loop_;
  KernelProcess& kernel_;
  async::BlockingPool& pool_;
  const confine::LimitPlan& limits_;
  const confine::MeteredUsage used_;
  std::string request_;  // the id of the execute_request
  std::optional<std::string> stdin_text_;
  size_t stdin_at_ = 0;
  bool answers_input_ = false;
  std::optional<async::Descriptor> stdin_;  // of a one-shot run: lines are read as the code asks for them
  std::string stdin_rest_;
  async::TaskGroup reading_;
  std::optional<jupyter::Message> question_;  // an input_request that waits for the caller's answer
  uint64_t calls_ = 0;

  std::optional<ReplyAnswer> reply_;
  std::optional<RunError> error_;  // as iopub reported it
  bool started_ = false, started_told_ = false;
  bool idle_ = false;
  bool showed_ = false;     // a value, a display or an error
  bool idle_lost_ = false;  // the idle of a later request came first
  std::string probe_;       // the later request
  bool probed_ = false;     // its idle has come, or does not come
  bool probe_answered_ = false;
  async::TimePoint probe_at_ = async::TimePoint::max();
  async::TimePoint heard_at_;  // when iopub's last message was taken
  bool refused_ = false;
  async::TimePoint ended_by_ = async::TimePoint::max();
  bool clears_next_ = false;  // the next output withdraws the displays before it
  bool more_ = false;         // iopub may have more than was taken
  bool interrupted_ = false, killed_ = false;
  jail::KillReason breach_ = jail::KillReason::kNone;
  bool breach_told_ = false;
};

}  // namespace cella::executor
