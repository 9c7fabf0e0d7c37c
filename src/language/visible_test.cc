#include "language/visible.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "language/test_files.h"

namespace cella::language {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(PathTest, NormalizesLexically) {
  EXPECT_EQ(Normalize("a/../b//c/.", "/x"), "/x/b/c");
  EXPECT_EQ(Normalize("/../..", "/x"), "/");
  EXPECT_EQ(Normalize("/a/b/../../../c", ""), "/c");
  EXPECT_EQ(Normalize("a", ""), "/a");
  EXPECT_EQ(Normalize("", "/x/y"), "/x/y");
}

TEST(PathTest, BelowComparesWholeComponents) {
  EXPECT_TRUE(IsBelow("/usr/lib", "/usr"));
  EXPECT_TRUE(IsBelow("/usr", "/usr"));
  EXPECT_FALSE(IsBelow("/usrx", "/usr"));
  EXPECT_TRUE(IsBelow("/a", "/"));
  EXPECT_TRUE(AlwaysVisible("/lib64/ld.so"));
  EXPECT_FALSE(AlwaysVisible("/library"));
  EXPECT_FALSE(AlwaysVisible("/opt/x"));
}

TEST(PathTest, LinkChainListsEveryHop) {
  TempDir dir;
  std::string real = dir.Write("c/bin/tool", "");
  std::string middle = dir.Link("b/bin/tool", "../../c/bin/tool");
  std::string first = dir.Link("a/bin/tool", middle);
  EXPECT_THAT(LinkChain(first), ElementsAre(first, middle, real));
  EXPECT_THAT(LinkChain(real), ElementsAre(real));
}

TEST(PathTest, LinkChainEndsAtALoop) {
  TempDir dir;
  std::string a = dir / "a";
  (void)dir.Link("b", a);
  (void)dir.Link("a", dir / "b");
  EXPECT_LE(LinkChain(a).size(), 50u);
}

class VisibleSetTest : public ::testing::Test {
 protected:
  VisibleSetTest() { std::filesystem::create_directories(dir_ / "home/.local/bin"); }
  TempDir dir_;
  VisibleSet set_{dir_ / "home"};
};

TEST_F(VisibleSetTest, SystemTreesNeedNoEntry) {
  for (const char* dir : {"/usr", "/usr/local/go", "/bin", "/lib64"}) EXPECT_TRUE(set_.Add(dir).has_value()) << dir;
  EXPECT_THAT(set_.Take(), IsEmpty());
}

TEST_F(VisibleSetTest, LiteralAndRealPathAreVisible) {
  std::filesystem::create_directories(dir_ / "opt/py-3.12.5");
  std::string link = dir_.Link("opt/py-3.12", "py-3.12.5");
  ASSERT_TRUE(set_.Add(link).has_value());
  EXPECT_THAT(set_.Take(), ElementsAre(link, dir_ / "opt/py-3.12.5"));
}

TEST_F(VisibleSetTest, NestedDirectoriesAreMerged) {
  std::filesystem::create_directories(dir_ / "p/q/r");
  ASSERT_TRUE(set_.Add(dir_ / "p/q/r").has_value());
  ASSERT_TRUE(set_.Add(dir_ / "p/q").has_value());
  EXPECT_TRUE(set_.Covers(dir_ / "p/q/z"));
  EXPECT_FALSE(set_.Covers(dir_ / "p"));
  EXPECT_THAT(set_.Take(), ElementsAre(dir_ / "p/q"));
}

TEST_F(VisibleSetTest, NixAndLinuxbrewAreVisibleCompletely) {
  ASSERT_TRUE(set_.Add("/nix/store/abc-python3/").has_value());
  ASSERT_TRUE(set_.Add("/home/linuxbrew/.linuxbrew/Cellar/lua/5.4").has_value());
  EXPECT_THAT(set_.Take(), ElementsAre("/home/linuxbrew/.linuxbrew", "/nix/store"));
}

TEST_F(VisibleSetTest, RejectsDirectoriesThatHoldMoreThanPrograms) {
  for (const std::string& wide :
       {std::string("/"), std::string("/home"), std::string("/root"), std::string("/home/anybody"), std::string("/tmp"),
        std::string("/opt"), std::string("/etc"), std::string("/proc/1/root"), dir_ / "home", dir_.path()}) {
    Status status = set_.Add(wide);
    ASSERT_FALSE(status.has_value()) << wide;
    EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(status.error().message, HasSubstr("install the program below /usr/local"));
  }
  EXPECT_THAT(set_.Take(), IsEmpty());
}

TEST_F(VisibleSetTest, RejectsLinkToARejectedDirectory) {
  Status status = set_.Add(dir_.Link("innocent", dir_ / "home"));
  EXPECT_FALSE(status.has_value());
  EXPECT_THAT(set_.Take(), IsEmpty());
}

TEST_F(VisibleSetTest, PrivateDataBesideLocalProgramsIsHidden) {
  std::filesystem::create_directories(dir_ / "home/.local/share/keyrings");
  ASSERT_TRUE(set_.Add(dir_ / "home/.local").has_value());
  EXPECT_THAT(set_.Take(), ElementsAre(dir_ / "home/.local/bin"));
}

}  // namespace
}  // namespace cella::language
