// The table that every executor's ends are judged by.
#include "run/judge.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace cella::run {
namespace {

constexpr int Exited(int code) { return code << 8; }
constexpr int Killed(int signal) { return signal; }

RunFacts Status(int wait_status) {
  RunFacts facts;
  facts.wait_status = wait_status;
  return facts;
}

RunFacts Answered(GuestAnswer::Status status, int exit_code = 0) {
  RunFacts facts;
  facts.answer = GuestAnswer{status, exit_code, 0};
  return facts;
}

template <typename Change>
RunFacts With(RunFacts facts, Change change) {
  change(facts);
  return facts;
}

struct Case {
  const char* name;
  RunFacts facts;
  RunStatus status;
  int exit_code;
  std::optional<int> signal = std::nullopt;
};

TEST(JudgeTest, StatusAndExitCodeFollowFromTheFacts) {
  using Answer = GuestAnswer::Status;
  const auto oom_kill = [](RunFacts& facts) { facts.oom_kills = 1; };
  const auto refused_fork = [](RunFacts& facts) { facts.refused_forks = 3; };
  const Case cases[] = {
      {"exit 0", Status(Exited(0)), RunStatus::kOk, 0},
      {"exit 3", Status(Exited(3)), RunStatus::kError, 3},
      {"segmentation fault", Status(Killed(SIGSEGV)), RunStatus::kCrashed, 139, SIGSEGV},
      {"answer ok", Answered(Answer::kOk), RunStatus::kOk, 0},
      {"answer error", Answered(Answer::kError), RunStatus::kError, 1},
      {"answer exit 7", Answered(Answer::kExit, 7), RunStatus::kError, 7},
      {"answer exit 0", Answered(Answer::kExit), RunStatus::kOk, 0},
      {"interrupted", Answered(Answer::kInterrupted, 130), RunStatus::kError, 130},
      // A counter explains a failure, and is nothing but a counter where the code succeeded: in cells and in programs.
      {"exit 0 after a child's OOM kill", With(Status(Exited(0)), oom_kill), RunStatus::kOk, 0},
      {"answer ok after a child's OOM kill", With(Answered(Answer::kOk), oom_kill), RunStatus::kOk, 0},
      {"failed after an OOM kill", With(Status(Exited(1)), oom_kill), RunStatus::kOom, kExitOom},
      {"answer error after an OOM kill", With(Answered(Answer::kError), oom_kill), RunStatus::kOom, kExitOom},
      {"no answer after a refused fork", With(Status(Exited(1)), refused_fork), RunStatus::kLimit, 1},
      {"answer error after a refused fork", With(Answered(Answer::kError), refused_fork), RunStatus::kLimit, 1},
      {"refused fork, then success", With(Status(Exited(0)), refused_fork), RunStatus::kOk, 0},
      {"SIGXCPU", Status(Killed(SIGXCPU)), RunStatus::kLimit, 128 + SIGXCPU, SIGXCPU},
      {"SIGKILL at the end of the processor time",
       With(Status(Killed(SIGKILL)), [](RunFacts& facts) { facts.usage.cpu_ms = 60'000; }), RunStatus::kLimit, 137,
       SIGKILL},
      {"processor time found at the end", With(Status(Exited(0)), [](RunFacts& facts) { facts.usage.cpu_ms = 60'200; }),
       RunStatus::kLimit, 128 + SIGXCPU},
      {"within the slack", With(Status(Exited(0)), [](RunFacts& facts) { facts.usage.cpu_ms = 60'050; }),
       RunStatus::kOk, 0},
      {"SIGXFSZ", Status(Killed(SIGXFSZ)), RunStatus::kLimit, 128 + SIGXFSZ, SIGXFSZ},
      {"killed for its processes",
       With(Status(Killed(SIGXFSZ)), [](RunFacts& facts) { facts.killed_for = StopReason::kProcesses; }),
       RunStatus::kLimit, 128 + SIGXFSZ, SIGXFSZ},
      {"killed for its memory",
       With(Status(Killed(SIGKILL)), [](RunFacts& facts) { facts.killed_for = StopReason::kMemory; }), RunStatus::kOom,
       kExitOom, SIGKILL},
      {"timeout", With(Status(Killed(SIGINT)), [](RunFacts& facts) { facts.stop = StopReason::kTimeout; }),
       RunStatus::kTimeout, kExitTimeout, SIGINT},
      {"timeout that the code answered",
       With(Answered(Answer::kOk), [](RunFacts& facts) { facts.stop = StopReason::kTimeout; }), RunStatus::kTimeout,
       kExitTimeout},
      {"cancel wins over memory",
       With(With(Status(Killed(SIGKILL)), oom_kill), [](RunFacts& facts) { facts.stop = StopReason::kCancel; }),
       RunStatus::kCancelled, kExitCancelled, SIGKILL},
      {"closing", With(Status(Killed(SIGKILL)), [](RunFacts& facts) { facts.stop = StopReason::kClosing; }),
       RunStatus::kCancelled, kExitCancelled, SIGKILL},
      {"an interrupt is no end", With(Status(Exited(0)), [](RunFacts& facts) { facts.stop = StopReason::kInterrupt; }),
       RunStatus::kOk, 0},
      {"the place is gone", With(RunFacts{}, [](RunFacts& facts) { facts.place_gone = true; }), RunStatus::kCrashed,
       137, SIGKILL},
  };
  for (const Case& each : cases) {
    const Outcome outcome = Judge(each.facts, Limits{});
    EXPECT_EQ(outcome.status, each.status) << each.name;
    EXPECT_EQ(outcome.exit_code, each.exit_code) << each.name;
    EXPECT_EQ(outcome.signal, each.signal) << each.name;
  }
}

TEST(JudgeTest, UnexplainedEndsAreExplained) {
  RunFacts gone;
  gone.place_gone = true;
  EXPECT_EQ(Judge(gone, Limits{}).error->name, "JailEnded");
  RunFacts forged;
  forged.broke_protocol = true;
  EXPECT_EQ(Judge(forged, Limits{}).error->name, "RunnerLost");
  EXPECT_EQ(Judge(RunFacts{}, Limits{}).error->name, "RunnerLost");
  EXPECT_FALSE(Judge(Status(Killed(SIGSEGV)), Limits{}).error);
}

TEST(JudgeTest, RunnerThatEndsWithoutAnAnswerIsNeverOk) {
  RunFacts facts = Status(Exited(0));
  EXPECT_EQ(Judge(facts, Limits{}).status, RunStatus::kOk) << "a program owes none";
  facts.owes_answer = true;
  const Outcome outcome = Judge(facts, Limits{});
  EXPECT_EQ(outcome.status, RunStatus::kError);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.error->name, "RunnerLost");
  facts.wait_status = Exited(3);
  EXPECT_EQ(Judge(facts, Limits{}).exit_code, 3);
  facts.stop = StopReason::kTimeout;
  EXPECT_EQ(Judge(facts, Limits{}).status, RunStatus::kTimeout);
}

TEST(JudgeTest, ACauseReplacesTheErrorOfTheCodeAndNamesTheLimit) {
  RunFacts facts = Answered(GuestAnswer::Status::kError);
  facts.error = RunError{"KeyboardInterrupt", "", ""};
  EXPECT_EQ(Judge(facts, Limits{}).error->name, "KeyboardInterrupt");
  facts.stop = StopReason::kTimeout;
  EXPECT_EQ(Judge(facts, Limits{}).error->message, "stopped after 60s (--timeout)");
}

}  // namespace
}  // namespace cella::run
