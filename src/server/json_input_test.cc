#include "server/json_input.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "async/blocking_pool.h"
#include "async/task_group.h"

namespace cella::server {
namespace {

std::string Repeat(std::string_view part, size_t times) {
  std::string text;
  for (size_t i = 0; i < times; ++i) text += part;
  return text;
}

TEST(JsonInputTest, ReadsOneObject) {
  EXPECT_EQ(ParseJsonObject(" ")->size(), 0u);
  EXPECT_EQ((*ParseJsonObject(R"({"a":[1]})"))["a"][0], 1);
}

TEST(JsonInputTest, RejectsWhatIsSlowToRead) {
  for (const std::string& body :
       {std::string("[]"), std::string("{"), std::string(R"({"a":1,"a":2})"), Repeat("[", 1'000'000),
        "[" + Repeat("{},", 300'000) + "{}]", R"({"a":)" + Repeat("[", 17) + Repeat("]", 17) + "}"}) {
    auto parsed = ParseJsonObject(body);
    ASSERT_FALSE(parsed.has_value()) << body.substr(0, 20);
    EXPECT_EQ(parsed.error().status, 400);
  }
}

TEST(JsonInputTest, KeepsTheOrderOfKeysInVariables) {
  auto parsed = ParseJsonObject(R"({"code": "1", "blocks": [{"variables": {"x": {"b": 1, "a": 2}}}], "variables": {
    "nested": {"z": [1, -2, 3.10, {"y": null, "b": true}, [], {}], "a\"\u00e4": "t\n", "c": {}},
    "list": [[{"b": 1, "a": 123456789012345678901234567890}]], "text": "t", "number": 1,
    "bytes": {"$bytes": "eA=="}, "json": {"$json": "{}"}}})");
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(
      (*parsed)["variables"],
      nlohmann::json({{"nested", {{"$json", R"({"z":[1,-2,3.10,{"y":null,"b":true},[],{}],"a\"ä":"t\n","c":{}})"}}},
                      {"list", {{"$json", R"([[{"b":1,"a":123456789012345678901234567890}]])"}}},
                      {"text", "t"},
                      {"number", 1},
                      {"bytes", {{"$bytes", "eA=="}}},
                      {"json", {{"$json", "{}"}}}}));
  EXPECT_EQ((*parsed)["blocks"][0]["variables"]["x"].dump(), R"({"a":2,"b":1})");
}

TEST(JsonInputTest, LargeBodyIsReadOnThePool) {
  async::Loop loop;
  async::BlockingPool pool(loop, {.threads = 1, .queue = 1});
  const std::string large = R"({"code":")" + std::string(1'000'000, '#') + "\"}";
  bool other_ran = false;
  auto main = [&]() -> async::Task<void> {
    async::TaskGroup group(loop);
    bool done = false;
    auto other = [&]() -> async::Task<void> {
      other_ran = !done;
      co_return;
    };
    group.Add(other());
    auto parsed = co_await ParseJsonObject(pool, large);
    done = true;
    EXPECT_EQ((*parsed)["code"].get_ref<const std::string&>().size(), 1'000'000u);
    co_await group.Join();
  };
  loop.Run(main());
  EXPECT_TRUE(other_ran);
}

TEST(MustBeTest, NamesTheKeyWhatItMustBeAndWhatItIs) {
  const nlohmann::json values = nlohmann::json::parse(R"([[], {}, "a", 1, true, null])");
  std::vector<std::string> got;
  for (const nlohmann::json& value : values) got.push_back(MustBe("key", "a string", value).error().message);
  EXPECT_EQ(got, (std::vector<std::string>{"key: must be a string, got a list", "key: must be a string, got an object",
                                           "key: must be a string, got a string", "key: must be a string, got a number",
                                           "key: must be a string, got true", "key: must be a string, got null"}));
}

}  // namespace
}  // namespace cella::server
