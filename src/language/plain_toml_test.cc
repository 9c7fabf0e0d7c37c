#include "language/plain_toml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cella::language {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(PlainTomlTest, ReadsStringsListsAndInlineTables) {
  auto tables = ParsePlainToml(R"(
# comment
[one]   # behind it
text = "a \"b\" \\ # no comment"
raw = 'c\d'
list = ["x",   # first
        "y",
]
env = { A = "1", B_2 = "two" }
empty = []
none = {}

[[one.more]]
k = "v"
[[one.more]]
)",
                               "t");
  ASSERT_TRUE(tables.has_value()) << tables.error().message;
  ASSERT_EQ(tables->size(), 3u);
  const auto& entries = (*tables)[0].entries;
  ASSERT_EQ(entries.size(), 6u);
  EXPECT_EQ(std::get<std::string>(entries[0].value), "a \"b\" \\ # no comment");
  EXPECT_EQ(std::get<std::string>(entries[1].value), "c\\d");
  EXPECT_THAT(std::get<std::vector<std::string>>(entries[2].value), ElementsAre("x", "y"));
  EXPECT_THAT((std::get<std::vector<std::pair<std::string, std::string>>>(entries[3].value)),
              ElementsAre(Pair("A", "1"), Pair("B_2", "two")));
  EXPECT_EQ(entries[3].line, 9);
  EXPECT_EQ((*tables)[1].name, "one.more");
  EXPECT_TRUE((*tables)[1].array_element);
}

TEST(PlainTomlTest, RejectsUnsupportedSyntaxAndNamesTheLine) {
  for (std::string_view bad : {"a = \"x\"",
                               "[t]\na = 1",
                               "[t]\na = \"x",
                               "[t]\na = \"x\ny\"",
                               "[t]\na = [\"x\" \"y\"]",
                               "[t]\na = [\"x\"",
                               "[t]\na = {b = \"x\"",
                               "[t]\na = {b = \"x\",}",
                               "[t]\na",
                               "[t]\n = \"x\"",
                               "[t",
                               "[]",
                               "[t]\na = \"x\" b",
                               "[[t]",
                               "[t]\na = \"\\q\"",
                               "[t]\na = \"\"\"x\"\"\"",
                               "[t]\na = \"1\"\na = \"2\"",
                               "[t]\n[t]",
                               "[t]\na = \"\\",
                               "[t]\na =",
                               "[t]\na = [",
                               "[t]\na = {"}) {
    auto tables = ParsePlainToml(bad, "file");
    ASSERT_FALSE(tables.has_value()) << bad;
    EXPECT_THAT(tables.error().message, HasSubstr("file:")) << bad;
  }
  EXPECT_THAT(ParsePlainToml("[t]\n\na = 1", "file").error().message, HasSubstr("file:3:"));
}

TEST(PlainTomlTest, EmptyTextHasNoTables) { EXPECT_TRUE(ParsePlainToml("\n# nothing\n", "t")->empty()); }

}  // namespace
}  // namespace cella::language
