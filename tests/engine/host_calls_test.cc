// Calls from real guests to the host through the socket of their session, with a namespace of the test.
#include <gtest/gtest.h>

#include "async/deadline.h"
#include "calls/arguments.h"
#include "engine/engine.h"
#include "os/io.h"
#include "session/session.h"

namespace cella {
namespace {

using namespace std::chrono_literals;
using session::Session;

// "echo" answers with its arguments, "sleep" with nothing until it is cancelled, "fail" with an error.
class TestSpace : public run::HostCallHandler {
 public:
  explicit TestSpace(async::Loop& loop) : never_(loop) {}
  async::Task<run::HostReply> Serve(run::HostCall call) override {
    ++served;
    run::HostReply reply;
    auto arguments = calls::ParseArguments(call.arguments);
    if (!arguments) {
      reply.error = run::HostError{"Invalid", arguments.error().message};
      co_return reply;
    }
    if (call.operation == "echo") {
      calls::Value names = calls::Value::array();
      for (const auto& [name, value] : arguments->named) names.push_back(name);
      reply.value = calls::Value{{"args", arguments->positional}, {"names", std::move(names)}}.dump();
    }
    if (call.operation == "fail") reply.error = run::HostError{"TestError", "as asked"};
    if (call.operation == "sleep") cancelled += co_await never_.Wait() ? 0 : 1;
    co_return reply;
  }
  int served = 0;
  int cancelled = 0;

 private:
  async::Event never_;
};

class HostCallsTest : public testing::Test {
 protected:
  void Start(ExecutorKind kind = ExecutorKind::kSandbox) {
    auto engine = engine::MakeEngine(loop_, kind, {});
    ASSERT_TRUE(engine) << engine.error().message;
    engine_ = std::move(*engine);
  }

  async::Task<std::unique_ptr<Session>> Open() {
    session::SessionOptions options;
    options.guest.policy.python = "/usr/bin/python3";
    options.guest.checkpoint = CheckpointMode::kAlways;
    options.spaces["test"] = space_;
    auto session = co_await Session::Open(loop_, *engine_->executor, std::move(options));
    EXPECT_TRUE(session) << session.error().message;
    co_return session ? std::move(*session) : nullptr;
  }

  static async::Task<RunResult> Run(Session& session, std::string code, std::string language = "python") {
    RunSpec spec;
    spec.blocks = {{std::move(language), std::move(code)}};
    spec.timeout = 20s;
    auto result = co_await session.RunToEnd(std::move(spec));
    EXPECT_TRUE(result) << result.error().message;
    co_return result ? std::move(*result) : RunResult{};
  }

  template <typename Body>
  void Do(Body body) {
    auto all = [&]() -> async::Task<void> {
      if (auto session = co_await Open()) {
        co_await body(*session);
        co_await session->Close();
      }
      co_await engine_->executor->Close();
    };
    loop_.Run(all());
  }

  async::Loop loop_;
  std::shared_ptr<TestSpace> space_ = std::make_shared<TestSpace>(loop_);
  std::unique_ptr<engine::Engine> engine_;
};

// Without the runner's client, as any program can do it.
constexpr const char* kProgram = R"(
import json, os, socket, struct
def call(operation, *args, space="test"):
    head = json.dumps({"space": space, "operation": operation}).encode()
    body = json.dumps({"args": args}).encode()
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(os.environ["CELLA_CALLS"])
        try: s.sendall(struct.pack("<II", len(head), len(body)) + head + body)
        except BrokenPipeError: pass  # refused before all was sent
        f = s.makefile("rb")
        a, b = struct.unpack("<II", f.read(8))
        return json.loads(f.read(a)), f.read(b).decode()
)";

TEST_F(HostCallsTest, PythonCallsFromCellsThreadsAndProcesses) {
  Start();
  Do([&](Session& session) -> async::Task<void> {
    RunResult result = co_await Run(session, "test.echo(1, 'two', z=1, a=2)");
    EXPECT_EQ(result.value, "{'args': [1, 'two'], 'names': ['z', 'a']}") << result.stderr_text;
    result = co_await Run(session,
                          "import threading, multiprocessing, os\n"
                          "def work(n): return test.echo(n)['args'][0]\n"
                          "t = threading.Thread(target=work, args=(1,)); t.start(); t.join()\n"
                          "with multiprocessing.get_context('fork').Pool(2) as pool: print(pool.map(work, [2, 3]))\n"
                          "if os.fork() == 0:\n    print(work(4), flush=True); os._exit(0)\nos.wait()\n");
    EXPECT_EQ(result.stdout_text, "[2, 3]\n4\n") << result.stderr_text;
    EXPECT_EQ(space_->served, 5);
    result = co_await Run(session, "test.fail()");
    EXPECT_TRUE(result.outcome.error);
    if (result.outcome.error) EXPECT_EQ(result.outcome.error->message, "as asked");
  });
}

TEST_F(HostCallsTest, ProgramsAndBashCallOverTheSocket) {
  Start();
  Do([&](Session& session) -> async::Task<void> {
    const std::string script = std::string(kProgram) + "print(call('echo', 7))\nprint(call('line', space='input'))";
    RunResult result =
        co_await Run(session, "open('program.py', 'w').write(" + calls::Value(script).dump() + "); None");
    for (const char* language : {"bash", "sh"}) {
      result = co_await Run(session, "/usr/bin/python3 program.py", language);
      EXPECT_NE(result.stdout_text.find("({}, '{\"args\":[7],\"names\":[]}')"), std::string::npos)
          << result.stdout_text << result.stderr_text;
      EXPECT_NE(result.stdout_text.find("CallRefused"), std::string::npos) << result.stdout_text;
    }
  });
}

TEST_F(HostCallsTest, StateAndCheckpointsStayAndResetKeepsTheName) {
  Start();
  Do([&](Session& session) -> async::Task<void> {
    for (int i = 0; i < 3; ++i) {
      const RunResult result = co_await Run(session, "x = " + std::to_string(i) + "; test.echo(x); None");
      EXPECT_EQ(result.outcome.status, RunStatus::kOk);
    }
    RunResult result = co_await Run(session, "import os; os.abort()");
    EXPECT_EQ(result.state, StateAfter::kRolledBack);
    result = co_await Run(session, "test.echo(x)['args']");
    EXPECT_EQ(result.value, "[2]");
    EXPECT_TRUE(co_await session.Reset());
    result = co_await Run(session, "test.echo('x' in globals())['args']");
    EXPECT_EQ(result.value, "[False]");
  });
}

TEST_F(HostCallsTest, CallsEndWithTheirRun) {
  Start();
  Do([&](Session& session) -> async::Task<void> {
    RunSpec spec;
    spec.blocks = {{"python", "test.sleep()"}};
    spec.timeout = 300ms;
    auto ended = co_await session.RunToEnd(std::move(spec));
    EXPECT_EQ(ended->outcome.status, RunStatus::kTimeout);
    EXPECT_EQ(space_->cancelled, 1);
    // A process that stays behind is refused until the next run.
    const std::string code = std::string(kProgram) +
                             "import subprocess, sys, time\n"
                             "if os.fork() == 0:\n"
                             "    os.setsid()\n"
                             "    while not os.path.exists('go'): time.sleep(0.01)\n"
                             "    said = str(call('echo'))\n"
                             "    open('told', 'w').write(said)\n"
                             "    os._exit(0)\n";
    (void)co_await Run(session, code);
    const int served = space_->served;
    const os::Directory* files = session.workspace();
    EXPECT_TRUE(files->WriteFile("go", "", os::Directory::IfExists::kReplace));
    Result<std::string> told = Err(ErrorCode::kInternal, "");
    for (int i = 0; i < 500 && (!told || told->empty()); ++i) {
      (void)co_await async::SleepUntil(async::Clock::now() + 20ms);
      if (auto file = files->OpenFile("told")) told = os::ReadFd(file->get(), 1000);
    }
    EXPECT_TRUE(told && told->contains("no run is on")) << (told ? *told : told.error().message);
    EXPECT_EQ(space_->served, served);
  });
}

TEST_F(HostCallsTest, FloodsAndForgeriesCostTheGuestAlone) {
  Start();
  Do([&](Session& session) -> async::Task<void> {
    const RunResult result = co_await Run(
        session, std::string(kProgram) +
                     "path = os.environ['CELLA_CALLS']\n"
                     "refused = 0\n"
                     "for n in range(10000):\n"
                     "    s = socket.socket(socket.AF_UNIX); s.connect(path)\n"
                     "    s.send(b'\\xff' * (n % 9)); s.close()\n"
                     "held = []\n"
                     "for n in range(200):\n"
                     "    s = socket.socket(socket.AF_UNIX); s.connect(path); s.send(b'\\x10\\0'); held.append(s)\n"
                     "held.clear()\n"
                     "import time\n"
                     "for n in range(200):\n"
                     "    try:\n"
                     "        print(test.echo(n)['args'] == [n]); break\n"
                     "    except Exception as error: time.sleep(0.02)\n");
    EXPECT_EQ(result.stdout_text, "True\n") << result.stderr_text;
    // The guest can only take the door away from itself.
    (void)co_await Run(session, "os.unlink(path); os.mkdir(path); None");
    const RunResult after = co_await Run(session, "test.echo()");
    EXPECT_EQ(after.outcome.status, RunStatus::kError);
    EXPECT_EQ((co_await Run(session, "1 + 1")).value, "2");
  });
}

TEST_F(HostCallsTest, LocalSessionsHaveAPrivateSocket) {
  Start(ExecutorKind::kLocal);
  Do([&](Session& session) -> async::Task<void> {
    const RunResult result =
        co_await Run(session, std::string(kProgram) +
                                  "path = os.environ['CELLA_CALLS']\n"
                                  "print(call('echo', 7)[1], oct(os.stat(os.path.dirname(path)).st_mode & 0o777))\n");
    EXPECT_EQ(result.stdout_text, "{\"args\":[7],\"names\":[]} 0o700\n") << result.stderr_text;
  });
}

}  // namespace
}  // namespace cella
