#include "runner/protocol.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>

#include "runner/channel.h"

namespace cella::runner {
namespace {

using nlohmann::json;

TEST(RunnerProtocolTest, RunFrameHasEveryField) {
  Cell cell;
  cell.run = "run_1";
  cell.number = 3;
  cell.code = "print('ü')";
  cell.stdin_text = "a\nb";
  cell.checkpoint = CheckpointMode::kAlways;
  json sent = json::parse(EncodeRun(cell));
  EXPECT_EQ(sent["type"], "run");
  EXPECT_EQ(sent["code"], "print('ü')");
  EXPECT_EQ(sent["stdin"], "a\nb");
  EXPECT_EQ(sent["checkpoint"], "always");
  EXPECT_TRUE(sent["file"].is_null());
}

TEST(RunnerProtocolTest, DoneFrameReducesNumbersToTheirRange) {
  auto frame = DecodeFrame(R"({"type":"done","run":"r","status":"exit","exit_code":259,"displays_dropped":-5})");
  ASSERT_TRUE(frame);
  const auto& done = std::get<DoneFrame>(*frame);
  EXPECT_EQ(done.status, DoneFrame::Status::kExit);
  EXPECT_EQ(done.exit_code, 3);
  EXPECT_EQ(done.displays_dropped, 0u);
}

TEST(RunnerProtocolTest, MimeBundleSerializesNonTextValues) {
  auto frame = DecodeFrame(
      R"({"type":"display","mime":{"text/plain":"x","application/json":{"a":1}},"metadata":{"w":2},"display_id":"i","update":true})");
  ASSERT_TRUE(frame);
  const auto& display = std::get<DisplayFrame>(*frame).display;
  EXPECT_EQ(display.display_id, "i");
  EXPECT_TRUE(display.update);
  ASSERT_EQ(display.bundle.data.size(), 2u);
  EXPECT_EQ(display.bundle.data[0].second, R"({"a":1})");
  EXPECT_EQ(display.bundle.metadata, R"({"w":2})");
}

TEST(RunnerProtocolTest, RejectsMalformedFrame) {
  for (const char* text : {"", "nonsense", "[]", "1", "\"done\"", "{", "\xff\xfe"}) {
    EXPECT_FALSE(DecodeFrame(text)) << text;
  }
}

TEST(RunnerProtocolTest, FieldsOfTheWrongTypeReadAsEmpty) {
  auto frame = DecodeFrame(R"({"type":"error","name":5,"message":null,"traceback":["x"]})");
  ASSERT_TRUE(frame);
  EXPECT_EQ(std::get<ErrorEvent>(*frame).error.name, "");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(*DecodeFrame(R"({"type":"something new"})")));
  EXPECT_TRUE(std::holds_alternative<std::monostate>(*DecodeFrame(R"({})")));
}

TEST(RunnerProtocolTest, DeepNestingDoesNotOverflowTheStack) {
  std::string deep = R"({"type":"value","metadata":)" + std::string(1 << 20, '[');
  EXPECT_FALSE(DecodeFrame(deep));
}

// Later steps cost a multiple of the types and of the values of metadata, which therefore have bounds of their own.
TEST(RunnerProtocolTest, BundleBeyondItsBoundsKeepsItsTextAlone) {
  json mime = {{"text/plain", "text"}}, metadata = json::object();
  for (int i = 0; i < 64; ++i) mime["a/" + std::to_string(i)] = "";
  for (int i = 0; i < 1000; ++i) metadata["k" + std::to_string(i)] = i;
  auto frame = DecodeFrame(json{{"type", "display"}, {"mime", mime}, {"metadata", metadata}}.dump());
  ASSERT_TRUE(frame);
  const MimeBundle& bundle = std::get<DisplayFrame>(*frame).display.bundle;
  ASSERT_EQ(bundle.data.size(), 1u);
  EXPECT_EQ(bundle.data[0].first, "text/plain");
  EXPECT_EQ(bundle.metadata, "{}");
}

TEST(RunnerProtocolTest, RejectsFrameOfManyValues) {
  json mime = json::object();
  for (int i = 0; i < 50'000; ++i) mime["a/" + std::to_string(i)] = "";
  EXPECT_FALSE(DecodeFrame(json{{"type", "display"}, {"mime", mime}}.dump()));
}

class RunnerChannelTest : public testing::Test {
 protected:
  void SetUp() override {
    int fds[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    theirs_ = UniqueFd(fds[1]);
    auto opened = Channel::Open(UniqueFd(fds[0]));
    ASSERT_TRUE(opened);
    channel_ = std::move(*opened);
  }

  void Write(std::string_view bytes) {
    ASSERT_EQ(write(theirs_.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  static std::string Frame(std::string_view payload) {
    auto size = static_cast<uint32_t>(payload.size());
    return std::string(reinterpret_cast<const char*>(&size), 4) + std::string(payload);
  }

  UniqueFd theirs_;
  Channel channel_;
};

TEST_F(RunnerChannelTest, FramesAreReassembledFromPieces) {
  std::string bytes = Frame("one") + Frame("") + Frame("three");
  std::vector<std::string> frames;
  for (char byte : bytes) {
    Write(std::string_view(&byte, 1));
    ASSERT_EQ(channel_.Receive().value(), Channel::Arrival::kSome);
    if (auto frame = channel_.Next()) frames.emplace_back(*frame);
  }
  EXPECT_EQ(frames, (std::vector<std::string>{"one", "", "three"}));
}

TEST_F(RunnerChannelTest, EndIsReportedAfterTheLastFrame) {
  Write(Frame("last"));
  theirs_.Reset();
  EXPECT_EQ(channel_.Receive().value(), Channel::Arrival::kSome);
  EXPECT_EQ(channel_.Next(), "last");
  EXPECT_EQ(channel_.Receive().value(), Channel::Arrival::kClosed);
}

TEST_F(RunnerChannelTest, RejectsTooLargeFrameByItsLength) {
  std::string header = "\xff\xff\xff\x7f";
  Write(header);
  EXPECT_FALSE(channel_.Receive());
}

TEST_F(RunnerChannelTest, ReceiveDoesNotBlock) { EXPECT_EQ(channel_.Receive().value(), Channel::Arrival::kNothing); }

TEST_F(RunnerChannelTest, SmallFrameIsSentAtOnceAndUnreadUntilReceived) {
  EXPECT_FALSE(channel_.HasUnread());
  const std::string payload = EncodeInterrupt("run_1");
  EXPECT_EQ(json::parse(payload), (json{{"type", "interrupt"}, {"run", "run_1"}}));
  ASSERT_TRUE(channel_.SendNow(payload));
  EXPECT_TRUE(channel_.HasUnread());
  std::string arrived(100, '\0');
  arrived.resize(static_cast<size_t>(read(theirs_.get(), arrived.data(), arrived.size())));
  EXPECT_EQ(arrived, Frame(payload));
  EXPECT_FALSE(channel_.HasUnread());
}

TEST_F(RunnerChannelTest, FrameThatDoesNotFitIsNotSentPartially) {
  const std::string payload(1000, 'x');
  size_t sent = 0;
  while (channel_.SendNow(payload)) ++sent;
  std::string all;
  std::array<char, 65536> part;
  for (ssize_t n; (n = recv(theirs_.get(), part.data(), part.size(), MSG_DONTWAIT)) > 0;) all.append(part.data(), n);
  EXPECT_GT(sent, 1u);
  EXPECT_EQ(all.size(), sent * Frame(payload).size());
  EXPECT_TRUE(channel_.SendNow(payload));
  theirs_.Reset();
  EXPECT_FALSE(channel_.SendNow(payload));
}

TEST_F(RunnerChannelTest, RejectsDescriptorsOtherThanStreamSockets) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  EXPECT_FALSE(Channel::Open(UniqueFd(fds[0])));
  close(fds[1]);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
  EXPECT_FALSE(Channel::Open(UniqueFd(fds[0])));
  close(fds[1]);
}

}  // namespace
}  // namespace cella::runner
