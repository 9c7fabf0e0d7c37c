#include "http/parser.h"

#include <gtest/gtest.h>

#include <string>

namespace cella::http {
namespace {

TEST(FindHeadTest, FindsTheBlankLineInPiecesOfAnySize) {
  const std::string head = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  const std::string bytes = head + "body\n";
  size_t looked_at = 0;
  for (size_t i = 0; i < head.size(); ++i) EXPECT_EQ(FindHead(bytes.substr(0, i), looked_at), 0u) << i;
  EXPECT_EQ(FindHead(bytes, looked_at), head.size());
}

TEST(FindHeadTest, RejectsBareLineFeedsAndFoldedLinesEarly) {
  for (const char* bytes : {"GET / HTTP/1.1\n", "\nGET", "GET / HTTP/1.1\r\nA: b\n", "GET / HTTP/1.1\r\nA: b\r\n c",
                            "GET / HTTP/1.1\r\nA: b\r\n\tc", "GET / HTTP/1.1\r\n A: b"}) {
    size_t looked_at = 0;
    EXPECT_FALSE(FindHead(bytes, looked_at)) << bytes;
  }
}

Result<std::string> ParseChunks(std::string_view chunks, size_t step) {
  Parser parser(Parser::Kind::kRequest);
  TRY_VOID(parser.ParseHead("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"));
  std::string body, pending;
  for (size_t at = 0; at < chunks.size(); at += step) {
    pending += chunks.substr(at, step);
    for (;;) {
      TRY(Parser::Piece piece, parser.ParseBody(pending));
      body += piece.body;
      pending.erase(0, piece.consumed);
      if (piece.consumed == 0 || parser.is_done()) break;
    }
  }
  if (!parser.is_done()) return Err(ErrorCode::kClosed, "incomplete");
  return body + "|" + pending;
}

TEST(ParserTest, JoinsChunksInPiecesOfAnySize) {
  for (size_t step : {1, 2, 3, 7, 100}) {
    EXPECT_EQ(ParseChunks("5\r\nhello\r\nA;x=\"y\"\r\n, world!!!\r\n0\r\nTrailer: t\r\n\r\n", step), "hello, world!!!|")
        << step;
  }
  EXPECT_EQ(ParseChunks("1\r\na\r\n0\r\n\r\nGET", 100), "a|GET");
}

TEST(ParserTest, RejectsMalformedChunks) {
  for (const char* chunks :
       {"x\r\n", "-1\r\n", "5\r\nhelloX\r\n0\r\n\r\n", "5\nhello\r\n0\r\n\r\n", "10000000000000000\r\n", "\r\n",
        "1 2\r\n", "0\r\nA: b\r\nContent-Length: 5\r\n\r\n", "0\r\nno colon\r\n\r\n"}) {
    auto parsed = ParseChunks(chunks, 100);
    ASSERT_FALSE(parsed) << chunks;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalid) << chunks;
  }
}

TEST(ParserTest, ResponseToHeadHasNoBody) {
  Parser parser(Parser::Kind::kResponse);
  ASSERT_TRUE(parser.ParseHead("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", Parser::Body::kNone));
  EXPECT_TRUE(parser.is_done());
  ASSERT_TRUE(parser.ParseHead("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"));
  EXPECT_FALSE(parser.is_done());
  EXPECT_FALSE(parser.FinishAtEnd());
  ASSERT_TRUE(parser.ParseHead("HTTP/1.0 200 OK\r\n\r\n"));
  EXPECT_FALSE(parser.is_done());
  EXPECT_TRUE(parser.FinishAtEnd());
}

}  // namespace
}  // namespace cella::http
