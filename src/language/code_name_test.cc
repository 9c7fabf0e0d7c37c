#include "language/code_name.h"

#include <gtest/gtest.h>

namespace cella::language {
namespace {

CodeName NameOf(std::string file, std::string_view cwd = "/workspace") {
  Plan plan;
  plan.generated_file = std::move(file);
  return {plan, cwd};
}

TEST(CodeNameTest, GeneratedPathsAreShownAsCode) {
  CodeName name = NameOf("tmp_code_ab_12.py");
  EXPECT_EQ(name.Show("  File \"/workspace/tmp_code_ab_12.py\", line 1\n", false), "  File \"<code>\", line 1\n");
  EXPECT_EQ(name.Show("at file:///workspace/tmp_code_ab_12.py:1:7\n", false), "at <code>:1:7\n");
  EXPECT_EQ(name.Show("./tmp_code_ab_12.py:3: tmp_code_ab_12.py:4:", false), "<code>:3: <code>:4:");
  EXPECT_EQ(name.Show("/other/tmp_code_ab_12.py", false), "/other/<code>");
}

TEST(CodeNameTest, DirectoryOfTheCommandsFileIsLeftOut) {
  CodeName name = NameOf("/workspace/tmp_code_ab_12.py", "/workspace/sub");
  EXPECT_EQ(name.Show("\"/workspace/tmp_code_ab_12.py\"", false), "\"<code>\"");
}

TEST(CodeNameTest, ShortenedPathIsShownAsCode) {
  CodeName name = NameOf("tmp_code_0123456789012345_12345678.lua");
  EXPECT_EQ(name.Show("lua: ...3456789012345_12345678.lua:1: x", false), "lua: <code>:1: x");
  EXPECT_EQ(name.Show("3456789012345_12345678.lua:1: x", false), "3456789012345_12345678.lua:1: x");
  EXPECT_EQ(name.Show("..._12345678.lua", false), "..._12345678.lua");
}

TEST(CodeNameTest, WithoutGeneratedFileNothingChanges) {
  CodeName name = NameOf("");
  EXPECT_EQ(name.Show("tmp_code_ab_12.py", false), "tmp_code_ab_12.py");
  EXPECT_EQ(CodeName().Show("tmp_code_ab_12.py", true), "tmp_code_ab_12.py");
}

TEST(CodeNameTest, NameCutBetweenReadsIsFound) {
  const std::string text = "a\n/workspace/tmp_code_ab_12.py:1 tmp_code_ab_12.p b";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    CodeName name = NameOf("tmp_code_ab_12.py");
    std::string shown = name.Show(text.substr(0, cut), true);
    shown += name.Show(text.substr(cut), false);
    shown += name.Rest();
    EXPECT_EQ(shown, "a\n<code>:1 tmp_code_ab_12.p b") << cut;
  }
}

TEST(CodeNameTest, WhatIsHeldBackComesAtTheEnd) {
  CodeName name = NameOf("tmp_code_ab_12.py");
  EXPECT_EQ(name.Show("x /workspace/tmp", true), "x ");
  EXPECT_EQ(name.Rest(), "/workspace/tmp");
  EXPECT_EQ(name.Rest(), "");
}

TEST(CodeNameTest, TailIsNotHeldBackWhereThePipeIsEmpty) {
  CodeName name = NameOf("tmp_code_ab_12.py");
  EXPECT_EQ(name.Show("Wait", false), "Wait");
}

}  // namespace
}  // namespace cella::language
