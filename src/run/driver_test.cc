// The driver with a sixth executor: a guest of a few lines, whose code is a script of progress.
#include "run/driver.h"

#include <gtest/gtest.h>

#include "async/deadline.h"
#include "run/capability.h"

namespace cella::run {
namespace {

using namespace std::chrono_literals;

// "throw" and "late throw" leave with an exception, as libraries do where memory or the kernel's watches are exhausted.
// Runs until a step that its code obeys arrives: "ok", "error", "sleep" (obeys an interrupt), "deaf" (obeys a kill),
// "stone" (obeys nothing).
class ScriptExecution : public Execution {
 public:
  ScriptExecution(async::Loop& loop, std::string code, std::vector<StopStep>& steps)
      : loop_(loop), code_(std::move(code)), steps_(steps), woken_(std::make_unique<async::Event>(loop)) {}

  async::Task<Progress> Advance(TimePoint until, Output& out) override {
    if (code_ == "ok" || code_ == "error") {
      out.Push(OutputEvent{Stream::kStdout, code_});
      co_return Progress::kAnswered;
    }
    if (code_ == "throw") throw std::runtime_error("no space left");
    if (code_ == "late throw") co_return Progress::kAnswered;
    if (!std::exchange(started_, true)) co_return Progress::kStarted;
    (void)co_await async::WithDeadline(woken_->Wait(), until);
    if (woken_->is_set()) woken_ = std::make_unique<async::Event>(loop_);
    co_return stopped_ ? Progress::kGone : Progress::kNothing;
  }
  void Wake() override { woken_->Set(); }
  void Send(StopStep step) override {
    steps_.push_back(step);
    stopped_ =
        stopped_ || (code_ == "sleep" && step == StopStep::kInterrupt) || (code_ == "deaf" && step == StopStep::kKill);
    if (stopped_) Wake();
  }
  async::Task<Result<RunFacts>> Finish(Output&) override {
    RunFacts facts;
    if (code_ == "late throw") throw std::runtime_error("no space left");
    if (code_ == "ok") facts.answer = GuestAnswer{};
    if (code_ == "error") facts.answer = GuestAnswer{GuestAnswer::Status::kError, 1, 0};
    if (stopped_) facts.wait_status = SIGINT;
    co_return facts;
  }

 private:
  async::Loop& loop_;
  std::string code_;
  std::vector<StopStep>& steps_;
  std::unique_ptr<async::Event> woken_;
  bool started_ = false;
  bool stopped_ = false;
};

class ScriptGuest : public Guest {
 public:
  explicit ScriptGuest(async::Loop& loop, Traits traits = kCells) : loop_(loop), traits_(traits) {}
  const Traits& traits(std::string_view) const override { return traits_; }
  const Isolation& isolation() const override { return described; }
  async::Task<Result<std::unique_ptr<Execution>>> Begin(const BlockTurn& turn, StopToken) override {
    if (turn.block.code == "early throw") throw std::runtime_error("no space left");
    if (turn.block.code == "unknown") co_return Err(ErrorCode::kInvalid, "no such language");
    co_return std::make_unique<ScriptExecution>(loop_, turn.block.code, steps);
  }
  async::Task<Result<StateReport>> AfterBlock(const RunFacts& facts, EventSink&) override {
    co_return StateReport{facts.answer ? StateAfter::kKept : StateAfter::kRolledBack, "off"};
  }
  async::Task<void> Close() override { co_return; }
  async::Task<GuestUsage> MeasureUsage() override { co_return GuestUsage{}; }

  std::vector<StopStep> steps;
  Isolation described;

 private:
  async::Loop& loop_;
  Traits traits_;
};

class Text : public EventSink {
 public:
  async::Task<bool> Emit(Event event) override {
    if (auto* output = std::get_if<OutputEvent>(&event)) text += output->bytes;
    // Not at once: the driver has turned to the guest again.
    if (throws) (void)co_await async::SleepUntil(async::Clock::now() + 1ms);
    if (throws) throw std::runtime_error("no space left");
    co_return true;
  }
  std::string text;
  bool throws = false;
};

class DriverTest : public testing::Test {
 protected:
  Result<BlockEnd> Drive(ScriptGuest& guest, std::string code, std::chrono::nanoseconds timeout = 60s,
                         std::function<async::Task<void>(StopSource&)> meanwhile = nullptr) {
    Result<BlockEnd> end = Err(ErrorCode::kInternal, "nothing");
    auto main = [&]() -> async::Task<void> {
      StopSource stop(loop_);
      HostCalls calls(loop_);
      RunDriver driver(loop_, guest, stop, calls, sink_);
      RunSpec run;
      run.blocks = {{"", std::move(code)}};
      BlockTurn turn{.run = run, .block = run.blocks.front(), .number = 1, .limits = {}, .stdin_text = {}};
      turn.limits.timeout.value = timeout;
      async::TaskGroup beside(loop_);
      if (meanwhile) beside.Add(meanwhile(stop));
      end = co_await driver.Drive(turn);
      co_await beside.Join();
      if (end) EXPECT_EQ(driver.state(), RunState::kSettling);
    };
    loop_.Run(main());
    return end;
  }

  async::Loop loop_;
  Text sink_;
};

async::Task<void> RequestSoon(StopSource& stop, StopReason reason) {
  (void)co_await async::SleepUntil(async::Clock::now() + 5ms);
  EXPECT_TRUE(stop.Request(reason));
}

TEST_F(DriverTest, AnAnswerIsJudgedAndItsOutputHandedOn) {
  ScriptGuest guest(loop_);
  auto end = Drive(guest, "ok");
  ASSERT_TRUE(end);
  EXPECT_EQ(end->outcome.status, RunStatus::kOk);
  EXPECT_EQ(end->state.state, StateAfter::kKept);
  EXPECT_EQ(sink_.text, "ok");
  EXPECT_EQ(Drive(guest, "error")->outcome.status, RunStatus::kError);
}

TEST_F(DriverTest, ABlockThatCannotBeginIsAnError) {
  ScriptGuest guest(loop_);
  auto end = Drive(guest, "unknown");
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, ErrorCode::kInvalid);
}

TEST_F(DriverTest, TheTimeoutInterruptsAndThenKills) {
  ScriptGuest guest(loop_);
  EXPECT_EQ(Drive(guest, "sleep", 10ms)->outcome.status, RunStatus::kTimeout);
  EXPECT_EQ(guest.steps.front(), StopStep::kInterrupt);
  guest.steps.clear();
  auto end = Drive(guest, "deaf", 10ms);
  EXPECT_EQ(end->outcome.status, RunStatus::kTimeout);
  EXPECT_EQ(end->outcome.exit_code, kExitTimeout);
  EXPECT_EQ(guest.steps.back(), StopStep::kKill);
}

TEST_F(DriverTest, CancelEndsARunAndAnInterruptIsTheCodesOwnEnd) {
  ScriptGuest guest(loop_);
  auto cancel = [](StopSource& stop) { return RequestSoon(stop, StopReason::kCancel); };
  EXPECT_EQ(Drive(guest, "sleep", 60s, cancel)->outcome.status, RunStatus::kCancelled);
  auto interrupt = [](StopSource& stop) { return RequestSoon(stop, StopReason::kInterrupt); };
  EXPECT_EQ(Drive(guest, "sleep", 60s, interrupt)->outcome.status, RunStatus::kCrashed);
}

TEST_F(DriverTest, AnInterruptCancelsCodeThatCannotCatchIt) {
  ScriptGuest guest(loop_, kPrograms);
  auto interrupt = [](StopSource& stop) { return RequestSoon(stop, StopReason::kInterrupt); };
  EXPECT_EQ(Drive(guest, "sleep", 60s, interrupt)->outcome.status, RunStatus::kCancelled);
}

TEST_F(DriverTest, CodeThatObeysNothingIsLeftBehindInBoundedTime) {
  ScriptGuest guest(loop_);
  auto end = Drive(guest, "stone", 10ms);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->outcome.status, RunStatus::kTimeout);
  EXPECT_TRUE(std::ranges::find(guest.steps, StopStep::kDestroy) != guest.steps.end());
}

// Each left a task group with tasks behind once, which ends the program.
TEST_F(DriverTest, AnExceptionEndsTheRunWithItsCause) {
  ScriptGuest guest(loop_);
  for (const char* code : {"early throw", "throw", "late throw"}) {
    auto end = Drive(guest, code);
    ASSERT_FALSE(end) << code;
    EXPECT_NE(end.error().message.find("no space left"), std::string::npos) << end.error().message;
  }
  EXPECT_EQ(guest.steps, std::vector{StopStep::kKill});
  sink_.throws = true;
  EXPECT_FALSE(Drive(guest, "ok"));
  sink_.throws = false;
  EXPECT_TRUE(Drive(guest, "ok"));
}

TEST_F(DriverTest, CapabilitiesFollowFromTraitsAndInterfaces) {
  ScriptGuest cells(loop_);
  EXPECT_TRUE(Supports(cells, "", "state"));
  EXPECT_FALSE(Supports(cells, "", "checkpoints"));
  EXPECT_FALSE(Supports(cells, "", "flying"));
  ScriptGuest programs(loop_, kPrograms);
  EXPECT_EQ(Capabilities(programs, ""), (std::vector<std::string_view>{"process_isolation", "timeout"}));
}

TEST_F(DriverTest, CapabilitiesNameWhatTheIsolationEnforces) {
  ScriptGuest guest(loop_);
  guest.described.namespaces = {"mount"};
  guest.described.network = "none";
  guest.described.limits["memory"] = {};
  guest.described.limits["cpus"] = {};
  for (const char* word :
       {"cpu_limit", "filesystem_isolation", "jail", "memory_limit", "network_isolation", "process_isolation"}) {
    EXPECT_TRUE(Supports(guest, "", word)) << word;
  }
  EXPECT_TRUE(std::ranges::is_sorted(Capabilities(guest, "")));
  guest.described.details["runs_as"] = kRunsInThisProcess;
  EXPECT_FALSE(Supports(guest, "", "process_isolation"));
}

}  // namespace
}  // namespace cella::run
