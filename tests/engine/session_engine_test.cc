// Sessions through the C++ class that every surface shares, in real jails: what needs several sessions of one engine.
#include <dirent.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "async/deadline.h"
#include "async/task_group.h"
#include "engine/engine.h"
#include "session/session.h"

namespace cella {
namespace {

using namespace std::chrono_literals;
using session::Session;

constexpr const char* kPython = "/usr/bin/python3";

class SessionEngineTest : public testing::Test {
 protected:
  void Start(executor::PoolLimits pool = {}) {
    auto engine = engine::MakeEngine(loop_, ExecutorKind::kSandbox, {.pool = pool});
    ASSERT_TRUE(engine) << engine.error().message;
    engine_ = std::move(*engine);
  }

  static session::SessionOptions Options() {
    session::SessionOptions options;
    options.guest.policy.python = kPython;
    return options;
  }

  async::Task<std::unique_ptr<Session>> Open(session::SessionOptions options = Options()) {
    auto session = co_await Session::Open(loop_, *engine_->executor, std::move(options));
    EXPECT_TRUE(session) << session.error().message;
    co_return session ? std::move(*session) : nullptr;
  }

  static async::Task<RunResult> Run(Session& session, std::string code) {
    RunSpec input;
    input.blocks = {{"python", std::move(code)}};
    auto result = co_await session.RunToEnd(std::move(input));
    EXPECT_TRUE(result) << result.error().message;
    co_return result ? std::move(*result) : RunResult{};
  }

  // Runs the test's coroutine, then closes the engine.
  template <typename Body>
  void Do(Body body) {
    auto all = [&]() -> async::Task<void> {
      co_await body();
      co_await engine_->executor->Close();
    };
    loop_.Run(all());
  }

  async::Loop loop_;
  std::unique_ptr<engine::Engine> engine_;
};

// Processes whose command line holds `text`, found in /proc.
pid_t ParentOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t name_end = line.rfind(')');  // the name may contain anything
  return name_end == std::string::npos ? 0 : atoi(line.c_str() + name_end + 4);
}

bool IsDescendant(pid_t pid) {
  for (; pid > 1; pid = ParentOf(pid)) {
    if (pid == getpid()) return true;
  }
  return false;
}

// Of this test: other tests run at the same time.
std::set<pid_t> ProcessesWith(const std::string& text) {
  std::set<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    pid_t pid = atoi(entry.path().filename().c_str());
    if (pid <= 0) continue;
    std::ifstream file(entry.path() / "cmdline");
    std::string line((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (line.find(text) != std::string::npos && IsDescendant(pid)) found.insert(pid);
  }
  return found;
}

TEST_F(SessionEngineTest, SessionsOfOneZygoteDrawDifferentRandomNumbers) {
  Start();
  Do([&]() -> async::Task<void> {
    std::set<std::string> drawn;
    for (int i = 0; i < 6; ++i) {
      session::SessionOptions options = Options();
      options.guest.preload = {"numpy", "uuid"};
      auto session = co_await Open(std::move(options));
      if (!session) co_return;
      for (const char* code : {"import random; random.random()", "import numpy; numpy.random.random()",
                               "import uuid; str(uuid.uuid4())", "import os; os.urandom(8).hex()"}) {
        RunResult result = co_await Run(*session, code);
        EXPECT_TRUE(result.value) << code;
        drawn.insert(result.value.value_or(""));
      }
      co_await session->Close();
    }
    EXPECT_EQ(drawn.size(), 6u * 4u);
  });
}

TEST_F(SessionEngineTest, SessionsDoNotShareState) {
  Start();
  Do([&]() -> async::Task<void> {
    auto first = co_await Open();
    auto second = co_await Open();
    if (!first || !second) co_return;
    (void)co_await Run(*first, "secret = 1; import os; os.environ['A'] = 'b'; open('f', 'w').write('x')");
    RunResult seen =
        co_await Run(*second, "import os; ('secret' in globals(), 'A' in os.environ, os.path.exists('f'))");
    EXPECT_EQ(seen.value, "(False, False, False)");
    co_await first->Close();
    co_await second->Close();
  });
}

// It dies before its answer, behind it, or when the checkpoint is there already: what is told fits what is left.
TEST_F(SessionEngineTest, InterpreterThatDiesAfterItsAnswerIsReportedAsRolledBack) {
  Start();
  Do([&]() -> async::Task<void> {
    auto session = co_await Open();
    if (!session) co_return;
    for (int microseconds = 100; microseconds < 3000; microseconds += 100) {
      (void)co_await Run(*session, "import signal; x = 1");
      RunResult dying =
          co_await Run(*session, fmt::format("x = 2; signal.setitimer(signal.ITIMER_REAL, {})", microseconds / 1e6));
      (void)co_await async::SleepUntil(async::Clock::now() + 10ms);
      RunResult after = co_await Run(*session, "x");
      const bool told = dying.state == StateAfter::kRolledBack || after.state == StateAfter::kRolledBack;
      // On a busy machine the timer may end the run that looks, which says so.
      if (after.outcome.status == RunStatus::kCrashed && told) continue;
      EXPECT_EQ(after.value, told ? "1" : "2") << microseconds << " us";
    }
    co_await session->Close();
  });
}

size_t OpenDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

// A server holds a thousand sessions with an ordinary limit of open files.
TEST_F(SessionEngineTest, SessionHoldsFewDescriptorsAfterItsInterpreterWasReplaced) {
  // 15, and two for each checkpoint: two of this session, and the first session's, which a busy machine takes only
  // after `before` was counted. A session that kept what it can ask init for would hold eleven more.
  constexpr size_t kEach = 22;
  Start();
  Do([&]() -> async::Task<void> {
    auto first = co_await Open();
    if (!first) co_return;
    (void)co_await Run(*first, "x = 1");
    const size_t before = OpenDescriptors();
    auto second = co_await Open();
    if (!second) co_return;
    RunResult result = co_await Run(*second, "x = 1");
    EXPECT_LE(OpenDescriptors(), before + kEach);
    Status reset = co_await second->Reset();
    EXPECT_TRUE(reset);
    result = co_await Run(*second, "x");
    EXPECT_EQ(result.outcome.status, RunStatus::kError);
    result = co_await Run(*second, "'new'");
    EXPECT_EQ(result.value, "'new'");
    for (int look = 0; look < 100 && OpenDescriptors() > before + kEach; ++look) {
      (void)co_await async::SleepUntil(async::Clock::now() + 20ms);  // what was replaced may not be gone yet
    }
    EXPECT_LE(OpenDescriptors(), before + kEach);
    co_await first->Close();
    co_await second->Close();
  });
}

TEST_F(SessionEngineTest, KilledZygoteIsReplacedAndItsSessionsContinue) {
  Start();
  Do([&]() -> async::Task<void> {
    auto old = co_await Open();
    if (!old) co_return;
    (void)co_await Run(*old, "x = 41");
    RunResult parent = co_await Run(*old, "import os; os.getppid()");
    EXPECT_EQ(parent.value, "0");
    // Runners have the zygote's command line. The zygote is the first of them: it was there before any session.
    std::set<pid_t> now = ProcessesWith("--zygote");
    if (now.empty()) {
      ADD_FAILURE() << "no zygote";
      co_return;
    }
    EXPECT_EQ(kill(*now.begin(), SIGKILL), 0);
    (void)co_await async::SleepUntil(async::Clock::now() + 50ms);
    auto fresh = co_await Open();
    if (!fresh) co_return;
    RunResult works = co_await Run(*fresh, "6 * 7");
    EXPECT_EQ(works.value, "42");
    RunResult kept = co_await Run(*old, "x + 1");
    EXPECT_EQ(kept.value, "42");
    // It still rolls back, though the exit status of the process is unknown.
    RunResult crashed = co_await Run(*old, "import os; os.kill(os.getpid(), 11)");
    EXPECT_EQ(crashed.outcome.status, RunStatus::kCrashed);
    EXPECT_EQ(crashed.state, StateAfter::kRolledBack);
    RunResult again = co_await Run(*old, "x + 2");
    EXPECT_EQ(again.value, "43");
    co_await old->Close();
    co_await fresh->Close();
  });
}

TEST_F(SessionEngineTest, PooledSessionsAreFreshAndUsedOnce) {
  Start({2, 2});
  Do([&]() -> async::Task<void> {
    for (int i = 0; i < 12; ++i) {
      auto session = co_await Open();
      if (!session) co_return;
      RunResult seen = co_await Run(*session, "('mine' in globals(), __import__('os').listdir('.'))");
      EXPECT_EQ(seen.value, "(False, [])") << i;
      EXPECT_EQ(seen.checkpoint, "taken");
      (void)co_await Run(*session, "mine = 1; open('left', 'w').write('x')");
      co_await session->Close();
      (void)co_await async::SleepUntil(async::Clock::now() + 15ms);
    }
  });
}

TEST_F(SessionEngineTest, RunsAreQueuedAndRejectedBeyondTheLimit) {
  Start();
  Do([&]() -> async::Task<void> {
    session::SessionOptions options = Options();
    options.queue = 2;
    auto session = co_await Open(std::move(options));
    if (!session) co_return;
    std::vector<std::string> order;
    int refused = 0;
    async::TaskGroup group(loop_);
    auto client = [&](std::string name) -> async::Task<void> {
      RunSpec input;
      input.blocks = {{"python", "import time; time.sleep(0.05); '" + name + "'"}};
      auto result = co_await session->RunToEnd(std::move(input));
      if (result) {
        order.push_back(result->value.value_or("?"));
      } else {
        EXPECT_EQ(result.error().code, ErrorCode::kExhausted);
        ++refused;
      }
    };
    for (const char* name : {"a", "b", "c", "d", "e"}) group.Add(client(name));
    co_await group.Join();
    EXPECT_EQ(order, (std::vector<std::string>{"'a'", "'b'", "'c'"}));
    EXPECT_EQ(refused, 2);
    co_await session->Close();
  });
}

TEST_F(SessionEngineTest, IdleSessionEndsWithAReason) {
  Start();
  Do([&]() -> async::Task<void> {
    session::SessionOptions options = Options();
    options.guest.idle_timeout = 300ms;
    auto session = co_await Open(std::move(options));
    if (!session) co_return;
    // A run is not idleness.
    RunResult long_run = co_await Run(*session, "import time; time.sleep(0.5); 1");
    EXPECT_EQ(long_run.value, "1");
    EXPECT_TRUE(session->is_open());
    const auto limit = async::Clock::now() + 20s;
    while (session->is_open() && async::Clock::now() < limit) {
      (void)co_await async::SleepUntil(async::Clock::now() + 10ms);
    }
    EXPECT_FALSE(session->is_open());
    auto refused = co_await session->RunToEnd({});
    EXPECT_FALSE(refused);
    if (!refused) EXPECT_NE(refused.error().message.find("idle"), std::string::npos) << refused.error().message;
    co_await session->Close();
  });
}

TEST_F(SessionEngineTest, LifetimeEndsASessionDuringARun) {
  Start();
  Do([&]() -> async::Task<void> {
    session::SessionOptions options = Options();
    options.guest.max_lifetime = 2s;
    auto session = co_await Open(std::move(options));
    if (!session) co_return;
    RunResult cut = co_await Run(*session, "import time; time.sleep(30)");
    EXPECT_EQ(cut.outcome.status, RunStatus::kCancelled);
    auto refused = co_await session->RunToEnd({});
    EXPECT_FALSE(refused);
    co_await session->Close();
  });
}

TEST_F(SessionEngineTest, SlowReaderBlocksTheGuestWithoutKeepingItAlive) {
  // Takes 50 ms for each event.
  class Slow : public run::EventSink {
   public:
    async::Task<bool> Emit(Event) override {
      (void)co_await async::SleepUntil(async::Clock::now() + 50ms);
      co_return true;
    }
  };
  Start();
  Do([&]() -> async::Task<void> {
    session::SessionOptions options = Options();
    options.guest.policy.limits.output.value = uint64_t{1} << 30;
    auto session = co_await Open(std::move(options));
    if (!session) co_return;
    Slow slow;
    RunSpec input;
    input.blocks = {{"python", "while True: print('x' * 1000)"}};
    input.timeout = 1s;
    const auto start = async::Clock::now();
    auto result = co_await session->RunToEnd(std::move(input), &slow);
    EXPECT_TRUE(result);
    if (result) {
      EXPECT_EQ(result->outcome.status, RunStatus::kTimeout);
      // What one second of unbounded printing would be is far more.
      EXPECT_LT(result->stdout_text.size(), size_t{16} << 20);
    }
    EXPECT_LT(async::Clock::now() - start, 20s);
    co_await session->Close();
  });
}

TEST_F(SessionEngineTest, InterruptBetweenBlocksEndsTheRun) {
  // Interrupts 20 ms after it got an event of that kind.
  class Interrupting : public run::EventSink {
   public:
    Interrupting(Session& session, size_t kind) : session_(session), kind_(kind) {}
    async::Task<bool> Emit(Event event) override {
      if (event.index() == kind_) {
        (void)co_await async::SleepUntil(async::Clock::now() + 20ms);
        EXPECT_TRUE(session_.current()->Stop(StopReason::kInterrupt));
      }
      co_return true;
    }

   private:
    Session& session_;
    const size_t kind_;
  };
  Start();
  Do([&]() -> async::Task<void> {
    auto session = co_await Open();
    if (!session) co_return;
    // Before the first block; and behind it, when it has ended and its reader is slow.
    for (size_t kind : {Event(StartedEvent{}).index(), Event(ValueEvent{}).index()}) {
      Interrupting sink(*session, kind);
      RunSpec input;
      input.blocks = {{"python", "'first'"}, {"python", "second = True"}};
      auto result = co_await session->RunToEnd(std::move(input), &sink);
      EXPECT_TRUE(result);
      if (!result) break;
      EXPECT_EQ(result->outcome.status, RunStatus::kError);
      EXPECT_EQ(result->outcome.exit_code, kExitInterrupted);
      EXPECT_EQ(result->outcome.error ? result->outcome.error->name : "none", "KeyboardInterrupt");
      EXPECT_EQ((co_await Run(*session, "'second' in globals()")).value, "False");
    }
    EXPECT_EQ(session->current(), nullptr) << "no run is on, so there is nothing to interrupt";
    EXPECT_EQ((co_await Run(*session, "'on'")).value, "'on'");
    co_await session->Close();
  });
}

TEST_F(SessionEngineTest, UnreadRunEndsOnCancelAndOnTimeout) {
  Start();
  Do([&]() -> async::Task<void> {
    for (bool cancels : {true, false}) {
      auto session = co_await Open();
      if (!session) co_return;
      (void)co_await Run(*session, "import os, subprocess; x = 1");
      // Not before it has answered, or that run would not end.
      (void)co_await Run(*session,
                         "subprocess.Popen(['sh', '-c', 'until [ -e go ]; do sleep 0.01; done; kill -STOP $0;'\n"
                         "  'until grep -q State:.T /proc/$0/status; do :; done; : > stopped', str(os.getpid())])\n"
                         "None");
      EXPECT_TRUE(session->workspace()->WriteFile("go", "", os::Directory::IfExists::kRefuse));
      const auto limit = async::Clock::now() + 20s;
      while (!session->workspace()->Stat("stopped") && async::Clock::now() < limit) {
        (void)co_await async::SleepUntil(async::Clock::now() + 10ms);
      }
      EXPECT_TRUE(session->workspace()->Stat("stopped"));
      RunSpec input;
      input.blocks = {{"python", "#" + std::string(size_t{8} << 20, 'x')}};  // more than the socket holds
      if (!cancels) input.timeout = 300ms;
      async::TaskGroup others(loop_);
      auto cancel = [&]() -> async::Task<void> {
        (void)co_await async::SleepUntil(async::Clock::now() + 300ms);
        EXPECT_TRUE(session->current()->Stop(StopReason::kCancel));
      };
      if (cancels) others.Add(cancel());
      const auto start = async::Clock::now();
      auto result = co_await session->RunToEnd(std::move(input));
      co_await others.Join();
      EXPECT_LT(async::Clock::now() - start, 20s);
      EXPECT_TRUE(result);
      if (result) EXPECT_EQ(result->outcome.status, cancels ? RunStatus::kCancelled : RunStatus::kTimeout);
      EXPECT_EQ((co_await Run(*session, "x")).value, "1");
      co_await session->Close();
    }
  });
}

TEST_F(SessionEngineTest, ChangedEnvironmentGetsANewZygote) {
  char name[] = "/tmp/cella-venv-XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);
  const std::string venv = std::string(name) + "/venv";
  ASSERT_EQ(system(fmt::format("{} -m venv --without-pip {}", kPython, venv).c_str()), 0);
  std::string packages;
  for (const auto& entry : std::filesystem::directory_iterator(venv + "/lib")) {
    packages = entry.path().string() + "/site-packages";
  }
  Start();
  Do([&]() -> async::Task<void> {
    session::SessionOptions options = Options();
    options.guest.policy.python = "";
    options.guest.policy.venv = venv;
    auto session = co_await Open(options);
    if (!session) co_return;
    RunResult missing = co_await Run(*session, "import late_package");
    EXPECT_EQ(missing.outcome.status, RunStatus::kError);
    co_await session->Close();
    std::ofstream(packages + "/late_package.py") << "answer = 42\n";
    options.guest.preload = {"late_package"};
    auto fresh = co_await Open(options);
    if (!fresh) co_return;
    RunResult found =
        co_await Run(*fresh, "import sys; ('late_package' in sys.modules, sys.modules['late_package'].answer)");
    EXPECT_EQ(found.value, "(True, 42)");
    co_await fresh->Close();
  });
  std::filesystem::remove_all(name);
}

}  // namespace
}  // namespace cella
