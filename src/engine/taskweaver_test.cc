#include "engine/taskweaver.h"

#include <gtest/gtest.h>

namespace cella::engine {
namespace {

TEST(TaskWeaverTest, LocalAndAbsentModesAreKernels) {
  for (const char* text : {"{}", R"({"llm.api_key":"secret"})", R"({"execution_service.kernel_mode":"local"})",
                           R"({"execution_service.kernel_mode":"SubProcess"})"}) {
    auto found = ParseTaskWeaver(text, "");
    ASSERT_TRUE(found.has_value()) << text;
    EXPECT_EQ(found->executor, ExecutorKind::kSubprocess);
  }
}

TEST(TaskWeaverTest, ContainerModeTakesTheImageAndNeverFetchesIt) {
  auto plain = ParseTaskWeaver(R"({"execution_service.kernel_mode":"Container"})", "");
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->executor, ExecutorKind::kContainer);
  Policy policy;
  plain->Apply(&policy);
  EXPECT_TRUE(policy.values_of_assignments && policy.container.pull);
  EXPECT_EQ(policy.container.image, "executor_container");
  auto custom = ParseTaskWeaver(R"({"execution_service.custom_image":"an/image:1"})", "container");
  ASSERT_TRUE(custom.has_value());
  custom->Apply(&policy);
  EXPECT_EQ(policy.container.image, "an/image:1");
  EXPECT_FALSE(policy.container.pull);
  ParseTaskWeaver(R"({"execution_service.custom_image":"executor_container"})", "container")->Apply(&policy);
  EXPECT_EQ(policy.container.image, "executor_container:latest");
}

TEST(TaskWeaverTest, RefusesUnknownModesAndOtherTypesByName) {
  auto unknown = ParseTaskWeaver(R"({"execution_service.kernel_mode":"remote"})", "");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_NE(unknown.error().message.find("'remote'"), std::string::npos);
  for (const char* text : {"", "[]", R"({"execution_service.kernel_mode":1})",
                           R"({"execution_service.kernel_mode":"container","execution_service.custom_image":1})"}) {
    EXPECT_FALSE(ParseTaskWeaver(text, "").has_value()) << text;
  }
}

TEST(TaskWeaverTest, TheVariableWinsOverTheFile) {
  EXPECT_EQ(ParseTaskWeaver(R"({"execution_service.kernel_mode":"container"})", "local")->executor,
            ExecutorKind::kSubprocess);
  EXPECT_EQ(ParseTaskWeaver("{}", "container")->executor, ExecutorKind::kContainer);
}

TEST(TaskWeaverTest, NeverRepeatsOtherSettings) {
  auto failed = ParseTaskWeaver(R"({"llm.api_key":"secret","execution_service.kernel_mode":"x"})", "");
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().message.find("secret"), std::string::npos);
}

}  // namespace
}  // namespace cella::engine
