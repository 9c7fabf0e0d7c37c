#include "executor/sandbox/runner.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

namespace cella::executor {
namespace {

class ReadFramesTest : public testing::Test {
 protected:
  void SetUp() override {
    int fds[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    theirs_ = UniqueFd(fds[1]);
    auto opened = runner::Channel::Open(UniqueFd(fds[0]));
    ASSERT_TRUE(opened);
    channel_ = std::move(*opened);
  }

  static std::string Display(size_t bytes) {
    const std::string payload = R"({"type":"display","mime":{"text/plain":")" + std::string(bytes, 'x') + "\"}}";
    const auto size = static_cast<uint32_t>(payload.size());
    return std::string(reinterpret_cast<const char*>(&size), 4) + payload;
  }

  // A guest that sends without an end; false once the reader is gone.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      ssize_t n = send(theirs_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }

  UniqueFd theirs_;
  runner::Channel channel_;
};

// Each call is one turn of the loop: what a guest has ready bounds neither its frames nor its bytes.
TEST_F(ReadFramesTest, OneTurnTakesABoundedNumberOfFramesAndBytes) {
  for (size_t size : {size_t{10}, size_t{10'000}}) {
    const std::string frame = Display(size);
    std::jthread guest([&] {
      for (int i = 0; i < 500 && Send(frame); ++i) {
      }
    });
    int seen = 0, most = 0;
    while (seen < 500) {
      int taken = 0;
      std::string large;
      auto visit = [&](runner::Frame) { return ++taken > 0; };
      ASSERT_NE(ReadFrames(channel_, {}, &large, visit), FramesEnd::kBroken);
      most = std::max(most, taken);
      seen += taken;
    }
    const FramesPerTurn bound;
    EXPECT_LE(most, bound.frames);
    EXPECT_LE(static_cast<size_t>(most - 1) * size, bound.bytes);
  }
}

TEST_F(ReadFramesTest, LargeFrameIsLeftToThePool) {
  std::jthread guest([&] { (void)(Send(Display(1'000'000)) && Send(Display(1))); });
  std::string large;
  int visited = 0;
  auto visit = [&](runner::Frame) { return ++visited > 0; };
  FramesEnd end = FramesEnd::kDrained;
  while (end == FramesEnd::kDrained) end = ReadFrames(channel_, {}, &large, visit);
  EXPECT_EQ(end, FramesEnd::kLarge);
  EXPECT_EQ(visited, 0);
  EXPECT_TRUE(runner::DecodeFrame(large).has_value());
  guest.join();
  EXPECT_EQ(ReadFrames(channel_, {}, &large, visit), FramesEnd::kDrained);
  EXPECT_EQ(visited, 1);
}

TEST_F(ReadFramesTest, BetweenRunsAFrameLargerThanAnAnswerIsNone) {
  std::jthread guest([&] { (void)Send(Display(kLargestAnswer)); });
  auto visit = [](runner::Frame) { return true; };
  FramesEnd end = FramesEnd::kDrained;
  while (end == FramesEnd::kDrained) end = ReadFrames(channel_, {}, nullptr, visit);
  EXPECT_EQ(end, FramesEnd::kBroken);
  theirs_.Reset();
}

}  // namespace
}  // namespace cella::executor
