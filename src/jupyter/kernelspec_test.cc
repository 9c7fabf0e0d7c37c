#include "jupyter/kernelspec.h"

#include <gtest/gtest.h>

namespace cella::jupyter {
namespace {

TEST(KernelspecTest, ReadsArgvLanguageEnvironmentAndInterruptMode) {
  auto spec = ParseKernelspec("ir", "/share/kernels/ir", R"({"argv":["R","--args","{connection_file}"],
      "display_name":"R","language":"R","env":{"A":"${HOME}/x","B":1},"interrupt_mode":"message"})");
  ASSERT_TRUE(spec.has_value());
  EXPECT_EQ(spec->language, "R");
  EXPECT_EQ(spec->interrupt_mode, InterruptMode::kMessage);
  ASSERT_EQ(spec->env.size(), 1U);
  EXPECT_EQ(ExpandVariables(spec->env[0].second, {{"HOME", "/root"}}).value(), "/root/x");
  EXPECT_EQ(ExpandArguments(*spec, "/tmp/c.json", "/usr").value(),
            (std::vector<std::string>{"R", "--args", "/tmp/c.json"}));
}

TEST(KernelspecTest, RejectsAFileWithoutArgv) {
  for (const char* text : {"", "[]", "{}", R"({"argv":[]})", R"({"argv":["a",1]})", R"({"argv":"sh"})"}) {
    EXPECT_FALSE(ParseKernelspec("x", "/x", text).has_value()) << text;
  }
}

TEST(KernelspecTest, RejectsMoreVariablesThanAnyKernelHas) {
  std::string variables;
  for (int i = 0; i < 300; ++i) variables += fmt::format("{}\"v{}\":\"x\"", i == 0 ? "" : ",", i);
  EXPECT_FALSE(ParseKernelspec("x", "/x", fmt::format(R"({{"argv":["sh"],"env":{{{}}}}})", variables)).has_value());
}

TEST(KernelspecTest, ExpandsVariablesAndKeepsUnknownOnes) {
  EXPECT_EQ(ExpandVariables("${A}:${NO}:${A}", {{"A", "1"}}).value(), "1:${NO}:1");
  EXPECT_EQ(ExpandVariables("${", {}).value(), "${");
  EXPECT_EQ(ExpandVariables("$A ${A", {{"A", "1"}}).value(), "$A ${A");
}

// A guest may have written the kernelspec.
TEST(KernelspecTest, BoundsWhatVariablesThatNameEachOtherExpandTo) {
  std::vector<std::pair<std::string, std::string>> variables = {{"v", "0123456789"}};
  size_t doubled = 0;
  for (; doubled < 40; ++doubled) {
    auto expanded = ExpandVariables("${v}${v}", variables);
    if (!expanded) break;
    variables[0].second = std::move(*expanded);
  }
  EXPECT_EQ(doubled, 13U);  // 10 * 2^13 bytes; the next doubling exceeds the bound
}

TEST(KernelspecTest, BoundsWhatPlaceholdersExpandTo) {
  std::string argument;
  for (int i = 0; i < 70'000; ++i) argument += "{resource_dir}";
  Kernelspec spec;
  spec.name = "x";
  spec.directory = "/" + std::string(4000, 'd');
  spec.argv = {argument};
  auto expanded = ExpandArguments(spec, "/tmp/c.json", "/usr");
  ASSERT_FALSE(expanded.has_value());
  EXPECT_EQ(expanded.error().code, ErrorCode::kExhausted);
  EXPECT_EQ(Substitute("a{x}b{x}", "{x}", "{x}").value(), "a{x}b{x}");
}

TEST(KernelspecTest, LooksInTheUsualDirectoriesInOrder) {
  EXPECT_EQ(DataDirectories({.jupyter_path = "/a:/b:relative", .jupyter_data_dir = "", .home = "/home/u"}, "/venv"),
            (std::vector<std::string>{"/a", "/b", "/home/u/.local/share/jupyter", "/venv/share/jupyter",
                                      "/usr/local/share/jupyter", "/usr/share/jupyter"}));
}

}  // namespace
}  // namespace cella::jupyter
