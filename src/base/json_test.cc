#include "base/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace cella {
namespace {

using Json = nlohmann::json;

std::string Repeat(std::string_view part, size_t times) {
  std::string text;
  for (size_t i = 0; i < times; ++i) text += part;
  return text;
}

TEST(JsonTest, ReadsWhatTheLibraryReads) {
  for (const char* text :
       {"{}", "[]", "null", "true", "-7", "18446744073709551615", "1.5e3", R"("a\u00e9\n")", R"([[],{},[{}]])",
        R"({"a":[1,{"b":[2,3]},"c"],"d":{"e":{"f":null}},"g":[[1],[2]]})", R"({"a":1,"a":{"b":2}})", " [1 , 2 ] "}) {
    auto read = ReadJson(text, {});
    ASSERT_TRUE(read.has_value()) << text;
    EXPECT_EQ(*read, Json::parse(text)) << text;
  }
}

TEST(JsonTest, RejectsWhatIsNotJson) {
  for (const char* text : {"", " ", "{", "[1,]", "{\"a\"}", "nul", "[1] 2", "\"\xff\"", "1e999", "{\"a\":1,}", "'a'"}) {
    auto read = ReadJson(text, {});
    ASSERT_FALSE(read.has_value()) << text;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalid) << text;
  }
}

TEST(JsonTest, RejectsMoreThanEachBound) {
  EXPECT_TRUE(ReadJson("[1,2]", {.bytes = 5, .depth = 1, .nodes = 3}).has_value());
  for (const JsonLimits& limits : {JsonLimits{.bytes = 4}, JsonLimits{.depth = 0}, JsonLimits{.nodes = 2}}) {
    auto read = ReadJson("[1,2]", limits);
    ASSERT_FALSE(read.has_value());
    EXPECT_EQ(read.error().code, ErrorCode::kExhausted);
  }
  EXPECT_TRUE(ReadJson(R"({"a":{"b":1}})", {.nodes = 5}).has_value());
  EXPECT_FALSE(ReadJson(R"({"a":{"b":1}})", {.nodes = 4}).has_value());
}

TEST(JsonTest, RejectsAKeyThatIsThereTwiceWhereAsked) {
  EXPECT_TRUE(ReadJson(R"({"a":{"a":1},"b":{"a":1}})", {.unique_keys = true}).has_value());
  auto twice = ReadJson(R"({"b":[{"a":1,"a":2}]})", {.unique_keys = true});
  ASSERT_FALSE(twice.has_value());
  EXPECT_EQ(twice.error().message, "the key 'a' is there twice");
}

// The bound is on the work, so that no text makes its reader slow: a refused text is read no further than its bound.
TEST(JsonTest, StopsAtItsBoundHoweverLongTheTextIs) {
  const JsonLimits limits{.bytes = size_t{64} << 20, .depth = 64, .nodes = 1000};
  for (const std::string& text :
       {Repeat("[", 4'000'000), Repeat("{\"a\":", 1'000'000), "[" + Repeat("{},", 1'000'000) + "{}]",
        "[" + Repeat("0,", 2'000'000) + "0]", "{" + Repeat("\"k\":0,", 1'000'000) + "\"k\":0}"}) {
    JsonWork work;
    auto read = ReadJson(text, limits, &work);
    ASSERT_FALSE(read.has_value());
    EXPECT_EQ(read.error().code, ErrorCode::kExhausted);
    EXPECT_LE(work.nodes, limits.nodes + 1);
  }
}

}  // namespace
}  // namespace cella
