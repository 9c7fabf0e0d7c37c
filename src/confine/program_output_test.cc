#include "confine/program_output.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <string>

#include "os/io.h"

namespace cella::confine {
namespace {

class Events : public run::Output {
 public:
  void Push(Event event) override {
    const auto& output = std::get<OutputEvent>(event);
    (output.stream == Stream::kStdout ? out : err) += output.bytes;
  }
  bool full(Stream stream) const override { return stream == Stream::kStdout ? out_full : false; }
  void Call(run::HostCall) override {}

  std::string out, err;
  bool out_full = false;
};

class ProgramOutputTest : public testing::Test {
 protected:
  void SetUp() override {
    auto out = os::MakeOutputPipe();
    auto err = os::MakeOutputPipe();
    ASSERT_TRUE(out && err);
    write_out_ = std::move(out->write);
    write_err_ = std::move(err->write);
    ASSERT_TRUE(output_.Open(std::move(out->read), std::move(err->read)));
  }

  static void Write(const UniqueFd& to, std::string_view text) {
    ASSERT_EQ(write(to.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  // One turn of an execution's loop.
  void Turn() {
    auto main = [&]() -> async::Task<void> {
      ready_.SetDeadline(async::Clock::now());
      auto keys = co_await ready_.Wait();
      for (int key : keys) output_.Read(key, events_);
    };
    loop_.Run(main());
  }

  async::Loop loop_;
  async::ReadySet ready_ = std::move(*async::ReadySet::Create(loop_));
  ProgramOutput output_{ready_, {}};
  UniqueFd write_out_, write_err_;
  Events events_;
};

TEST_F(ProgramOutputTest, EachPipeIsAStreamOfEvents) {
  Write(write_out_, "out");
  Write(write_err_, "err");
  Turn();
  EXPECT_EQ(events_.out, "out");
  EXPECT_EQ(events_.err, "err");
}

TEST_F(ProgramOutputTest, AFullStreamStaysInItsPipeUntilThereIsRoom) {
  events_.out_full = true;
  output_.HoldFull(events_);
  Write(write_out_, "later");
  Write(write_err_, "now");
  Turn();
  EXPECT_EQ(events_.out, "");
  EXPECT_EQ(events_.err, "now");
  events_.out_full = false;
  output_.HoldFull(events_);
  Turn();
  EXPECT_EQ(events_.out, "later");
}

TEST_F(ProgramOutputTest, TheRestIsReadAlthoughAProcessHoldsThePipeOpen) {
  Write(write_out_, std::string(3 * 16384, 'x'));
  output_.ReadRest(events_);
  EXPECT_EQ(events_.out.size(), 3u * 16384);
}

TEST_F(ProgramOutputTest, AHeldPipeIsReadToItsEndToo) {
  events_.out_full = true;
  output_.HoldFull(events_);
  Write(write_out_, "held");
  output_.ReadRest(events_);
  EXPECT_EQ(events_.out, "held");
}

TEST_F(ProgramOutputTest, AClosedStreamGivesTheProgramAClosedPipe) {
  output_.Close(Stream::kStdout);
  const auto before = signal(SIGPIPE, SIG_IGN);
  EXPECT_EQ(write(write_out_.get(), "x", 1), -1);
  EXPECT_EQ(errno, EPIPE);
  (void)signal(SIGPIPE, before);
  Write(write_err_, "still here");
  Turn();
  EXPECT_EQ(events_.err, "still here");
}

}  // namespace
}  // namespace cella::confine
