#include "executor/container/bridged_program.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "async/deadline.h"
#include "os/io.h"
#include "os/pidfd.h"

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

// A checkpoint of a program, which writes to its pipe.
class BridgedCopyTest : public testing::Test {
 protected:
  static constexpr size_t kMore = size_t{128} << 10;  // than a pipe holds

  void SetUp() override {
    auto out = os::MakePipe();
    auto session = os::MakeStreamSockets();
    auto life = os::MakeStreamSockets();
    ASSERT_TRUE(out && session && life);
    out_ = std::move(out->read);
    session_ = std::move(session->theirs);
    life_ = std::move(life->theirs);
    BridgedProgram::Fds fds;
    fds.output = std::move(out->write);
    program_.emplace(loop_, sender_, 1, std::move(fds));
    copy_.emplace(loop_, sender_, agent::kFirstCallTag, std::move(session->ours), std::move(life->ours), 7, *program_);
  }

  static Task<void> Pause() { (void)co_await async::SleepUntil(async::Clock::now() + 5ms); }

  Task<void> ReadOutput(size_t bytes) {
    std::string buffer(bytes, '\0');
    for (size_t have = 0; have < bytes;) {
      const ssize_t n = read(out_.get(), buffer.data(), bytes - have);
      if (n <= 0) co_return;
      have += static_cast<size_t>(n);
      co_await Pause();
    }
  }

  Task<void> End() {
    for (auto* each : {&*copy_, &*program_}) {
      each->Cancel();
      co_await each->Join();
    }
  }

  os::Received Receive() {
    std::string buffer(64, '\0');
    auto received = os::ReceiveMessage(session_.get(), std::as_writable_bytes(std::span(buffer)));
    return received ? std::move(*received) : os::Received{};
  }

  async::Loop loop_;
  Sender sender_;
  UniqueFd out_, session_, life_;
  std::optional<BridgedProgram> program_, copy_;
};

TEST_F(BridgedCopyTest, HandsOnFramesAndTheEndAfterTheOutputBefore) {
  auto main = [&]() -> Task<void> {
    const std::string output(kMore, 'x');
    EXPECT_TRUE(program_->Take(Port::kOutput, output));
    EXPECT_TRUE(copy_->Take(Port::kSession, "frame"));
    copy_->TakeEndOfCopy();
    co_await Pause();
    EXPECT_EQ(Receive().size, 0u);
    EXPECT_FALSE(os::HasEnded(life_.get()));
    EXPECT_FALSE(copy_->is_idle());
    co_await ReadOutput(kMore);
    co_await Pause();
    EXPECT_EQ(Receive().size, 5u);
    EXPECT_TRUE(os::HasEnded(life_.get()));
    EXPECT_TRUE(copy_->is_idle() && copy_->has_ended());
    EXPECT_FALSE(program_->has_ended());
    co_await End();
  };
  loop_.Run(main());
}

TEST_F(BridgedCopyTest, PassesDescriptorsBesideTheNextBytes) {
  auto main = [&]() -> Task<void> {
    std::vector<UniqueFd> fds;
    fds.emplace_back(dup(out_.get()));
    fds.emplace_back(dup(out_.get()));
    copy_->AddDescriptors(std::move(fds));
    EXPECT_TRUE(copy_->Take(Port::kSession, "with"));
    EXPECT_TRUE(copy_->Take(Port::kSession, "out"));
    co_await Pause();
    EXPECT_EQ(Receive().fds.size(), 2u);
    EXPECT_EQ(Receive().fds.size(), 0u);
    co_await End();
  };
  loop_.Run(main());
}

}  // namespace
}  // namespace cella::executor
