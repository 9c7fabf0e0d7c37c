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
  EXPECT_EQ(ExpandVariables(spec->env[0].second, {{"HOME", "/root"}}), "/root/x");
  EXPECT_EQ(ExpandArguments(*spec, "/tmp/c.json", "/usr"), (std::vector<std::string>{"R", "--args", "/tmp/c.json"}));
}

TEST(KernelspecTest, RejectsAFileWithoutArgv) {
  for (const char* text : {"", "[]", "{}", R"({"argv":[]})", R"({"argv":["a",1]})", R"({"argv":"sh"})"}) {
    EXPECT_FALSE(ParseKernelspec("x", "/x", text).has_value()) << text;
  }
}

TEST(KernelspecTest, ExpandsVariablesAndKeepsUnknownOnes) {
  EXPECT_EQ(ExpandVariables("${A}:${NO}:${A}", {{"A", "1"}}), "1:${NO}:1");
  EXPECT_EQ(ExpandVariables("${", {}), "${");
  EXPECT_EQ(ExpandVariables("$A ${A", {{"A", "1"}}), "$A ${A");
}

TEST(KernelspecTest, LooksInTheUsualDirectoriesInOrder) {
  EXPECT_EQ(DataDirectories({.jupyter_path = "/a:/b:relative", .jupyter_data_dir = "", .home = "/home/u"}, "/venv"),
            (std::vector<std::string>{"/a", "/b", "/home/u/.local/share/jupyter", "/venv/share/jupyter",
                                      "/usr/local/share/jupyter", "/usr/share/jupyter"}));
}

}  // namespace
}  // namespace cella::jupyter
