#include "zmtp/frame.h"

#include <gtest/gtest.h>

namespace cella::zmtp {
namespace {

std::vector<Frame> ReadAll(FrameReader& reader, std::string_view bytes) {
  std::vector<Frame> frames;
  Frame frame;
  for (;;) {
    auto complete = reader.Read(bytes, frame);
    EXPECT_TRUE(complete.has_value());
    if (!complete || !*complete) return frames;
    frames.push_back(std::move(frame));
  }
}

TEST(FrameTest, WritesShortAndLongFrames) {
  std::string out;
  AppendFrame(out, "ab", true);
  EXPECT_EQ(out, std::string("\x01\x02"
                             "ab"));
  out.clear();
  AppendFrame(out, std::string(256, 'x'), false);
  EXPECT_EQ(out.substr(0, 9), std::string("\x02\0\0\0\0\0\0\x01\0", 9));
  EXPECT_EQ(out.size(), 9U + 256U);
}

TEST(FrameTest, ReadsFramesThatComeByteByByte) {
  std::string bytes;
  AppendFrame(bytes, "first", true);
  AppendFrame(bytes, std::string(300, 'y'), false);
  AppendFrame(bytes, "", false);
  FrameReader reader({});
  std::vector<Frame> frames;
  for (char c : bytes) {
    for (Frame& frame : ReadAll(reader, {&c, 1})) frames.push_back(std::move(frame));
  }
  ASSERT_EQ(frames.size(), 3U);
  EXPECT_EQ(frames[0].body, "first");
  EXPECT_TRUE(frames[0].more);
  EXPECT_EQ(frames[1].body, std::string(300, 'y'));
  EXPECT_FALSE(frames[1].more);
  EXPECT_EQ(frames[2].body, "");
}

TEST(FrameTest, SkipsAPartBeyondTheBoundAndKeepsTheRest) {
  FrameReader reader({.message_bytes = 100, .parts = 8, .command_bytes = 10});
  std::string bytes;
  AppendFrame(bytes, "head", true);
  AppendFrame(bytes, std::string(200, 'x'), true);
  AppendFrame(bytes, "tail", false);
  AppendFrame(bytes, std::string(100, 'n'), false);
  auto frames = ReadAll(reader, bytes);
  ASSERT_EQ(frames.size(), 4U);
  EXPECT_EQ(frames[0].body, "head");
  EXPECT_EQ(frames[1].body, "");
  EXPECT_EQ(frames[1].skipped, 200U);
  EXPECT_EQ(frames[2].body, "tail");
  EXPECT_EQ(frames[3].body.size(), 100U);  // the bound is per message
}

TEST(FrameTest, AnAnnouncedSizeCostsNoMemoryBeforeItsBytesCome) {
  FrameReader reader({.message_bytes = size_t{1} << 40, .parts = 8, .command_bytes = 10});
  std::string bytes("\x02\0\0\0\xff\0\0\0\0", 9);
  EXPECT_TRUE(ReadAll(reader, bytes).empty());
}

TEST(FrameTest, RefusesTooManyPartsLargeCommandsAndReservedFlags) {
  const Bounds bounds{.message_bytes = 100, .parts = 2, .command_bytes = 10};
  Frame frame;
  {
    FrameReader reader(bounds);
    std::string bytes;
    for (int i = 0; i < 3; ++i) AppendFrame(bytes, "p", true);
    std::string_view view = bytes;
    EXPECT_TRUE(reader.Read(view, frame).value_or(false));
    EXPECT_TRUE(reader.Read(view, frame).value_or(false));
    EXPECT_FALSE(reader.Read(view, frame).has_value());
  }
  for (const std::string& bad :
       {std::string("\x04\x0b", 2), std::string("\x05\x01", 2), std::string("\x08", 1), std::string("\xff", 1)}) {
    FrameReader reader(bounds);
    std::string_view view = bad;
    EXPECT_FALSE(reader.Read(view, frame).has_value());
  }
}

}  // namespace
}  // namespace cella::zmtp
