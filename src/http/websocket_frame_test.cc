#include "http/websocket_frame.h"

#include <gtest/gtest.h>

namespace cella::http {
namespace {

using namespace std::string_literals;

TEST(WebSocketFrameTest, ComputesTheAcceptKeyOfTheStandard) {
  EXPECT_EQ(AcceptKey("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
  for (const char* bad : {"", "dGhlIHNhbXBsZSBub25jZQ=", "!!!!!!!!!!!!!!!!!!!!!!==", "dGhlIHNhbXBsZSBub25jZSE="}) {
    EXPECT_EQ(AcceptKey(bad), std::nullopt) << bad;
  }
}

TEST(WebSocketFrameTest, EncodesLengthsInTheirShortestForm) {
  EXPECT_EQ(EncodeFrameHeader(Opcode::kText, 125).view(), "\x81\x7d"s);
  EXPECT_EQ(EncodeFrameHeader(Opcode::kBinary, 126).view(), "\x82\x7e\x00\x7e"s);
  EXPECT_EQ(EncodeFrameHeader(Opcode::kText, 65536).view(), "\x81\x7f\x00\x00\x00\x00\x00\x01\x00\x00"s);
}

TEST(WebSocketFrameTest, WaitsForTheCompleteHeader) {
  const std::string header = "\x81\xfe\x01\x00mask"s;
  for (size_t i = 0; i < header.size(); ++i) {
    auto parsed = ParseFrameHeader(header.substr(0, i));
    ASSERT_TRUE(parsed);
    EXPECT_FALSE(*parsed) << i;
  }
  auto parsed = ParseFrameHeader(header);
  ASSERT_TRUE(parsed && *parsed);
  EXPECT_EQ((*parsed)->length, 256u);
  EXPECT_EQ((*parsed)->size, 8u);
  EXPECT_TRUE((*parsed)->is_final);
}

TEST(WebSocketFrameTest, RejectsProtocolErrors) {
  const std::string bad[] = {
      "\x81\x05hello"s,                                 // no mask
      "\xc1\x80mask"s,                                  // a reserved bit
      "\x83\x80mask"s,                                  // opcode 3
      "\x8b\x80mask"s,                                  // opcode 11
      "\x09\x80mask"s,                                  // a ping in pieces
      "\x89\xfe\x00\x7emask"s,                          // a long ping
      "\x81\xfe\x00\x7dmask"s,                          // 125 in two bytes
      "\x81\xff\x00\x00\x00\x00\x00\x00\xff\xffmask"s,  // 65535 in eight
      "\x81\xff\x80\x00\x00\x00\x00\x00\x00\x00mask"s,  // 2^63
  };
  for (const std::string& bytes : bad) EXPECT_FALSE(ParseFrameHeader(bytes)) << testing::PrintToString(bytes);
}

TEST(WebSocketFrameTest, UnmasksInPieces) {
  std::string text = "hello, world";
  const std::array<char, 4> mask = {1, 2, 3, 4};
  Unmask(text, mask, 0);
  Unmask(std::span(text).first(5), mask, 0);
  Unmask(std::span(text).subspan(5), mask, 5);
  EXPECT_EQ(text, "hello, world");
}

TEST(WebSocketFrameTest, ChecksCloseCodes) {
  EXPECT_EQ(ParseClose(""), 1005);
  EXPECT_EQ(ParseClose(EncodeClose(1000, "bye")), 1000);
  EXPECT_EQ(ParseClose(EncodeClose(4321, "")), 4321);
  for (uint16_t code : {0, 999, 1004, 1005, 1006, 1015, 2999, 5000}) EXPECT_FALSE(ParseClose(EncodeClose(code, "")));
  EXPECT_FALSE(ParseClose("\x03"s));
  EXPECT_FALSE(ParseClose(EncodeClose(1000, "\xff")));
}

TEST(WebSocketFrameTest, CutsALongReasonBetweenCharacters) {
  std::string payload = EncodeClose(1000, std::string(122, 'a') + "é");
  EXPECT_EQ(payload.size(), 124u);
  EXPECT_TRUE(ParseClose(payload));
}

}  // namespace
}  // namespace cella::http
