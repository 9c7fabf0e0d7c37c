#include "registry/stored_result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "registry/test_fixture.h"

namespace cella::registry {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(StoredResultTest, SmallResultIsStoredCompletely) {
  auto json = nlohmann::json::parse(StoredResult(SomeResult("run_1"), 1 << 20));
  EXPECT_EQ(json["stdout"], "hello\n");
  EXPECT_EQ(json["truncated"]["stdout"], 0);
}

TEST(StoredResultTest, LargeResultIsTruncatedButValid) {
  RunResult result = SomeResult("run_1");
  // Each of these takes six bytes of JSON.
  result.stdout_text = "begin" + std::string(1 << 20, '\x01') + "end";
  result.stderr_text = "short";
  result.outputs.push_back({{{"text/plain", std::string(100000, 'x')}}, "{}"});
  result.outcome.error = RunError{"E", std::string(1 << 20, 'm'), ""};
  const std::string stored = StoredResult(result, 64 << 10);
  EXPECT_LE(stored.size(), size_t{64} << 10);
  auto json = nlohmann::json::parse(stored);
  EXPECT_EQ(json["stderr"], "short");
  EXPECT_THAT(json["stdout"].get<std::string>(), HasSubstr("begin"));
  EXPECT_THAT(json["stdout"].get<std::string>(), HasSubstr("bytes dropped"));
  EXPECT_TRUE(json["stdout"].get<std::string>().ends_with("end"));
  EXPECT_GT(json["truncated"]["stdout"], 1 << 19);
  EXPECT_EQ(json["truncated"]["outputs"], 1);
  EXPECT_THAT(json["outputs"], IsEmpty());
}

TEST(StoredResultTest, LargeOutputsAreNamedWithTheirSizes) {
  RunResult result = SomeResult("run_1");
  result.outputs.push_back({{{"image/png", std::string(100000, 'x')}, {"text/plain", "<Figure>"}}, "{}"});
  result.outputs.push_back({{{"text/plain", "42"}}, "{}"});
  result.items = {
      {ResultItem::Kind::kStdout, 0, 6}, {ResultItem::Kind::kOutput, 0, 0}, {ResultItem::Kind::kOutput, 1, 0}};
  auto json = nlohmann::json::parse(StoredResult(result, 64 << 10));
  EXPECT_EQ(json["stdout"], "hello\n");
  EXPECT_EQ(json["outputs"][0]["mime"], (nlohmann::json{{"text/plain", "<Figure>"}}));
  EXPECT_EQ(json["outputs"][0]["left_out"], (nlohmann::json{{"image/png", 100000}}));
  EXPECT_EQ(json["outputs"][1]["mime"], (nlohmann::json{{"text/plain", "42"}}));
  EXPECT_FALSE(json["outputs"][1].contains("left_out"));
  EXPECT_EQ(json["items"].size(), 3u);
  EXPECT_EQ(json["truncated"]["outputs"], 1);
}

}  // namespace
}  // namespace cella::registry
