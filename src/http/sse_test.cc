#include "http/sse.h"

#include <gtest/gtest.h>

namespace cella::http {
namespace {

std::string Encode(const ServerSentEvent& event) {
  std::string out;
  AppendEvent(event, out);
  return out;
}

TEST(SseTest, WritesFieldsAndBlankLine) {
  EXPECT_EQ(Encode({.id = "7", .event = "stdout", .data = "{}"}), "id: 7\nevent: stdout\ndata: {}\n\n");
  EXPECT_EQ(Encode({.id = "", .event = "", .data = ""}), "data: \n\n");
}

TEST(SseTest, WritesEveryDataLineAsAField) {
  EXPECT_EQ(Encode({.id = "", .event = "", .data = "a\nb\r\nc\rd\n"}),
            "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n");
}

TEST(SseTest, LineBreakInAnIdStartsNoField) {
  EXPECT_EQ(Encode({.id = "1\ndata: x", .event = "a\r\n\r\nb", .data = ""}),
            "id: 1 data: x\nevent: a    b\ndata: \n\n");
}

TEST(NdjsonTest, IsOneLine) {
  std::string out = "{}\n";
  AppendNdjson("{\"a\":1}", out);
  EXPECT_EQ(out, "{}\n{\"a\":1}\n");
}

}  // namespace
}  // namespace cella::http
