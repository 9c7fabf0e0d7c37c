#include "language/filename.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cella::language {
namespace {

using ::testing::MatchesRegex;

class FilenameTest : public ::testing::Test {
 protected:
  std::optional<std::string> Named(std::string_view language, std::string_view code) {
    return FilenameComment(*table_->Find(language), code);
  }
  Result<LanguageTable> table_ = LanguageTable::Load(CELLA_LANGUAGES_TOML);
};

TEST_F(FilenameTest, FirstLineCommentSetsTheName) {
  EXPECT_EQ(Named("python", "# filename: a/b.py\nprint(1)"), "a/b.py");
  EXPECT_EQ(Named("python", "#filename:b.py\r\n"), "b.py");
  EXPECT_EQ(Named("python", "  # Filename:  two words.py  "), "two words.py");
  EXPECT_EQ(Named("python", "# filename: a:b.py"), "a:b.py");
  EXPECT_EQ(Named("javascript", "// filename: a.js"), "a.js");
  EXPECT_EQ(Named("css", "/* filename: a.css */ body {}"), "a.css");
  EXPECT_EQ(Named("c", "/* filename: a.c\n */"), "a.c");
  EXPECT_EQ(Named("html", "<!-- filename: a.html -->\n<p>"), "a.html");
  EXPECT_EQ(Named("lua", "-- filename: a.lua"), "a.lua");
  EXPECT_EQ(Named("python", "\xef\xbb\xbf# filename: a.py"), "a.py");
}

TEST_F(FilenameTest, ShebangAndPhpTagMayPrecedeTheComment) {
  EXPECT_EQ(Named("bash", "#!/bin/bash\n# filename: a.sh\n"), "a.sh");
  EXPECT_EQ(Named("php", "<?php\n// filename: a.php\n"), "a.php");
}

TEST_F(FilenameTest, OtherLinesDoNotSetTheName) {
  EXPECT_EQ(Named("python", "print(1)\n# filename: a.py"), std::nullopt);
  EXPECT_EQ(Named("python", "// filename: a.py"), std::nullopt);
  EXPECT_EQ(Named("python", "# the filename: a.py"), std::nullopt);
  EXPECT_EQ(Named("python", "# file"), std::nullopt);
  EXPECT_EQ(Named("python", ""), std::nullopt);
}

TEST_F(FilenameTest, EmptyNameIsReturned) { EXPECT_EQ(Named("python", "# filename:\n"), ""); }

TEST(CheckFileNameTest, NormalizesNamesInTheWorkspace) {
  EXPECT_EQ(CheckFileName("a.py").value(), "a.py");
  EXPECT_EQ(CheckFileName("./a//b/./c.py").value(), "a/b/c.py");
  EXPECT_EQ(CheckFileName("..a/b..").value(), "..a/b..");
  EXPECT_EQ(CheckFileName(std::string(255, 'x')).value().size(), 255u);
}

TEST(CheckFileNameTest, RejectsNamesOutsideTheWorkspace) {
  std::string deep;
  while (deep.size() < 4096) deep += "d/";
  deep += "x";
  for (const std::string& bad :
       {std::string(), std::string("/etc/passwd"), std::string("../x"), std::string("a/../../x"), std::string("a/.."),
        std::string("a/"), std::string("."), std::string("./."), std::string("a/."), std::string("a\0b", 3),
        std::string(256, 'x'), deep}) {
    auto checked = CheckFileName(bad);
    ASSERT_FALSE(checked.has_value()) << bad;
    EXPECT_EQ(checked.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(checked.error().message, testing::EndsWith("' is not in the workspace"));
  }
  EXPECT_EQ(CheckFileName("../x").error().message, "file name '../x' is not in the workspace");
}

TEST_F(FilenameTest, GeneratedNamesContainTheHashAndAreUnique) {
  std::string one = GeneratedFileName(*table_->Find("python"), "abc");
  std::string two = GeneratedFileName(*table_->Find("python"), "abc");
  EXPECT_THAT(one, MatchesRegex("tmp_code_ba7816bf[0-9a-f]{56}_[0-9a-f]{8}\\.py"));
  EXPECT_NE(one, two);
}

TEST_F(FilenameTest, GeneratedNamesHaveTheLanguagesExtension) {
  EXPECT_EQ(GeneratedFileName(*table_->Find("java"), "public class Hello {}"), "Hello.java");
  EXPECT_EQ(GeneratedFileName(*table_->Find("java"), "// nothing"), "Main.java");
  const Language& js = *table_->Find("js");
  EXPECT_TRUE(GeneratedFileName(js, "import fs from 'fs'\n").ends_with(".mjs"));
  EXPECT_TRUE(GeneratedFileName(js, "const a = 1\nexport default a").ends_with(".mjs"));
  EXPECT_TRUE(GeneratedFileName(js, "import('x').then(y)").ends_with(".js"));
  EXPECT_TRUE(GeneratedFileName(js, "const important = 1").ends_with(".js"));
}

}  // namespace
}  // namespace cella::language
