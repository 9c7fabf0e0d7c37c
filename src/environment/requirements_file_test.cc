#include "environment/requirements_file.h"

#include <gtest/gtest.h>

#include <map>

namespace cella::environment {
namespace {

using Files = std::map<std::string, std::string>;

Result<RequirementsFile> Parse(const Files& files) {
  auto read = [&](const std::string& name) -> Result<std::string> {
    auto found = files.find(name);
    if (found == files.end()) return Err(ErrorCode::kNotFound, "'{}': no such file", name);
    return found->second;
  };
  return ParseRequirementsFile("requirements.txt", read);
}

TEST(RequirementsFileTest, ReadsCommentsContinuedLinesAndIncludedFiles) {
  auto file = Parse({{"requirements.txt", "# all\nsix>=1 # old\nnumpy \\\n  >=2\r\n\n-r more/dev.txt\n-c limits.txt\n"},
                     {"more/dev.txt", "rich\n-r ../other.txt\n"},
                     {"other.txt", "attrs"},
                     {"limits.txt", "rich<14"}});
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(file->packages.size(), 4u);
  EXPECT_EQ(file->packages[1].text, "numpy>=2");
  ASSERT_EQ(file->constraints.size(), 1u);
  EXPECT_TRUE(file->pinned.empty());
}

TEST(RequirementsFileTest, KeepsHashes) {
  const std::string hash = "--hash=sha256:" + std::string(64, 'a');
  auto file = Parse({{"requirements.txt", "six==1.17.0 \\\n    " + hash + " \\\n    " + hash + "\n"}});
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(file->pinned.size(), 1u);
  EXPECT_TRUE(file->pinned[0].starts_with("six==1.17.0 --hash=sha256:"));
  EXPECT_FALSE(Parse({{"requirements.txt", "six==1 " + hash + "\nrich"}}));
  EXPECT_FALSE(Parse({{"requirements.txt", "six==1 --hash=md5:aa"}}));
  EXPECT_FALSE(Parse({{"requirements.txt", "six==1 --hash=sha256:zz"}}));
}

TEST(RequirementsFileTest, RefusesOptionsUrlsAndPathsWithTheLine) {
  for (const char* line : {"-i http://x", "--index-url=http://x", "--extra-index-url x", "--find-links .", "-f .",
                           "--trusted-host x", "--no-binary :all:", "--only-binary x", "--pre", "-e .", "./x", "${VAR}",
                           "x @ file:///x", "-r ../x.txt", "-r /etc/passwd", "-r http://x/y", "-r"}) {
    auto file = Parse({{"requirements.txt", std::string("six\n") + line}, {"x.txt", ""}});
    ASSERT_FALSE(file) << line;
    EXPECT_NE(file.error().message.find("line 2"), std::string::npos) << file.error().message;
  }
}

TEST(RequirementsFileTest, BoundsFilesAndRequirements) {
  EXPECT_FALSE(Parse({{"requirements.txt", "-r requirements.txt"}}));
  std::string many;
  for (int i = 0; i < 2001; ++i) many += "a" + std::to_string(i) + "\n";
  EXPECT_FALSE(Parse({{"requirements.txt", many}}));
}

}  // namespace
}  // namespace cella::environment
