#include "environment/script_block.h"

#include <gtest/gtest.h>

#include <chrono>

namespace cella::environment {
namespace {

TEST(ScriptBlockTest, ReadsPackagesAndPython) {
  auto read = ReadScriptBlock(
      "#!/usr/bin/env python3\n# /// script\n# requires-python = '>=3.9'\n# dependencies = [\n#   'Rich',\n#   "
      "\"six>=1\",\n# "
      "]\n# ///\nimport six\n");
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_TRUE(read->block);
  EXPECT_EQ(read->block->requires_python, ">=3.9");
  ASSERT_EQ(read->block->packages.size(), 2u);
  EXPECT_EQ(read->block->packages[0].text, "rich");
}

TEST(ScriptBlockTest, AcceptsWindowsLineEndsAndByteOrderMark) {
  auto read = ReadScriptBlock("\xEF\xBB\xBF# /// script\r\n# dependencies = ['six']\r\n# ///\r\n");
  ASSERT_TRUE(read && read->block);
  EXPECT_EQ(read->block->packages.size(), 1u);
}

TEST(ScriptBlockTest, TheLastClosingLineOfTheRunCloses) {
  auto read = ReadScriptBlock("# /// script\n# x = '''\n# ///\n# '''\n# dependencies = ['six']\n# ///\n");
  ASSERT_TRUE(read && read->block) << (read ? read->warning : read.error().message);
  EXPECT_EQ(read->block->packages.size(), 1u);
}

TEST(ScriptBlockTest, ScriptsWithoutOneHaveNone) {
  for (const char* code :
       {"", "print(1)", "  # /// script\n  # ///\n", "# /// Script \n# ///\n", "# /// other\n# a\n# ///\n"}) {
    auto read = ReadScriptBlock(code);
    ASSERT_TRUE(read) << code;
    EXPECT_FALSE(read->block) << code;
  }
}

TEST(ScriptBlockTest, WarnsOfABlockThatIsNotClosed) {
  auto read = ReadScriptBlock("# /// script\n# dependencies = ['six']\nprint(1)\n");
  ASSERT_TRUE(read);
  EXPECT_FALSE(read->block);
  EXPECT_NE(read->warning, "");
}

// Each line was read once for every line before it that opens a block: of 64 MiB, as a request may have, for minutes.
TEST(ScriptBlockTest, WorkIsLinearInBlocksThatAreNotClosed) {
  auto seconds = [](size_t comments) {
    std::string comment;
    for (int i = 0; i < 6000; ++i) comment += "# /// a\n";
    std::string code = "# /// script\n# ///\n\n";
    for (size_t i = 0; i < comments; ++i) code += comment + "\n";
    const auto start = std::chrono::steady_clock::now();
    EXPECT_TRUE(ReadScriptBlock(code));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  EXPECT_LT(seconds(40), 2.0);
}

TEST(ScriptBlockTest, WarnsOfABlockThatOpensInACommentOfAnother) {
  auto read = ReadScriptBlock("# /// other\n# /// script\n# dependencies = ['six']\nprint(1)\n");
  ASSERT_TRUE(read);
  EXPECT_FALSE(read->block);
  EXPECT_NE(read->warning, "");
}

TEST(ScriptBlockTest, IgnoresToolTables) {
  auto read = ReadScriptBlock("# /// script\n# dependencies = []\n# [tool.uv]\n# index-url = 'http://evil'\n# ///\n");
  ASSERT_TRUE(read && read->block);
  EXPECT_TRUE(read->block->packages.empty());
}

TEST(ScriptBlockTest, RefusesWhatItDoesNotUnderstand) {
  for (const char* content : {"dependencies = 'six'", "dependencies = [1]", "dependencies = ['x @ file:///x']", "x = ",
                              "requires-python = 3", "requires-python = 'new'", "dependencies = ['--index-url=x']"}) {
    EXPECT_FALSE(ReadScriptBlock(std::string("# /// script\n# ") + content + "\n# ///\n")) << content;
  }
  EXPECT_FALSE(ReadScriptBlock("# /// script\n# a = 1\n# ///\n\n# /// script\n# a = 1\n# ///\n"));
  std::string large = "# /// script\n";
  while (large.size() < 80'000) large += "# # padding padding padding\n";
  EXPECT_FALSE(ReadScriptBlock(large + "# ///\n"));
}

}  // namespace
}  // namespace cella::environment
