#include "executor/container/bridged_program.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "async/deadline.h"
#include "os/io.h"

namespace cella::executor {
namespace {

using namespace std::chrono_literals;
using agent::Port;
using async::Task;

struct Sender : FrameSender {
  void Post(agent::Kind, uint32_t, std::string_view, std::string_view) override {}
  void ReportToJail(const jail::Report&) override {}
  void CallEnded() override {}
};

class BridgedCallTest : public testing::Test {
 protected:
  // Whether a call's tasks end after `prepare` has left them about to be resumed.
  bool EndsAfterCancel(const std::function<void(BridgedProgram&)>& prepare) {
    bool ended = false;
    auto main = [&]() -> Task<void> {
      auto sockets = os::MakeStreamSockets();
      EXPECT_TRUE(sockets);
      if (!sockets) co_return;
      BridgedProgram::Fds fds;
      fds.session = std::move(sockets->ours);
      BridgedProgram call(loop_, sender_, agent::kFirstCallTag, std::move(fds));
      (void)co_await async::SleepUntil(async::Clock::now() + 1ms);
      prepare(call);
      call.Cancel();
      auto joined = co_await async::WithDeadline(Joined(call), async::Clock::now() + 2s);
      ended = joined.has_value();
    };
    loop_.Run(main());
    return ended;
  }

 private:
  static Task<bool> Joined(BridgedProgram& call) {
    co_await call.Join();
    co_return true;
  }

  async::Loop loop_;
  Sender sender_;
};

TEST_F(BridgedCallTest, CancelEndsTasksThatWereJustNotified) {
  EXPECT_TRUE(EndsAfterCancel([](BridgedProgram& call) { ASSERT_TRUE(call.Take(Port::kSession, "frame")); }));
}

TEST_F(BridgedCallTest, CancelEndsTasksWhosePeerTakesNothing) {
  EXPECT_TRUE(EndsAfterCancel([](BridgedProgram& call) {
    const std::string frame(agent::kWindow, 'x');
    ASSERT_TRUE(call.Take(Port::kSession, frame));
  }));
}

}  // namespace
}  // namespace cella::executor
