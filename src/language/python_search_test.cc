#include "language/python_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "language/test_files.h"

namespace cella::language {
namespace {

using ::testing::Contains;
using ::testing::Not;

TEST(PythonVersionTest, ParsesVersions) {
  EXPECT_EQ(ParsePythonVersion("3.12"), "3.12");
  EXPECT_EQ(ParsePythonVersion("3"), "3");
  EXPECT_EQ(ParsePythonVersion("3.12.1"), "3.12.1");
  EXPECT_EQ(ParsePythonVersion("python3.12"), "3.12");
  for (const char* other : {"", "python", "pypy3", "3.", ".3", "3.x", "3.12.1.2", "3.12rc1", "3 ", "9999"}) {
    EXPECT_EQ(ParsePythonVersion(other), std::nullopt) << other;
  }
}

TEST(PythonVersionTest, MatchesByWholeNumbers) {
  EXPECT_TRUE(VersionMatches("3.12.1", "3.12"));
  EXPECT_TRUE(VersionMatches("3.12.1", "3.12.1"));
  EXPECT_TRUE(VersionMatches("3.12.1", "3"));
  EXPECT_FALSE(VersionMatches("3.12.1", "3.1"));
  EXPECT_FALSE(VersionMatches("3.12.10", "3.12.1"));
}

TEST(PythonSearchTest, SearchesPathThenHighestPatchOfPyenvThenUv) {
  TempDir dir;
  HostEnv host = FakeHost(dir);
  (void)dir.Script("bin/python3.12", "");
  for (const char* version : {"3.12.1", "3.12.10", "3.12.9", "3.11.7", "3.13t-dev"}) {
    (void)dir.Script(fmt::format("home/.pyenv/versions/{}/bin/python3.12", version), "");
  }
  (void)dir.Script("home/.pyenv/versions/3.12-env/bin/python3.12", "");
  (void)dir.Write("home/.pyenv/versions/3.12-env/pyvenv.cfg", "");
  (void)dir.Script("home/.local/share/uv/python/cpython-3.12.5-linux-x86_64-gnu/bin/python3.12", "");
  (void)dir.Script("home/.local/share/uv/python/cpython-3.12.5+freethreaded-linux/bin/python3.12", "");
  (void)dir.Script("home/.local/share/uv/python/pypy-3.12.1-linux/bin/python3.12", "");
  std::vector<std::string> found = VersionCandidates("3.12", host);
  ASSERT_GE(found.size(), 5u);
  EXPECT_EQ(found[0], dir / "bin/python3.12");
  EXPECT_EQ(found[1], dir / "home/.pyenv/versions/3.12.10/bin/python3.12");
  EXPECT_EQ(found[2], dir / "home/.pyenv/versions/3.12.9/bin/python3.12");
  EXPECT_EQ(found[3], dir / "home/.pyenv/versions/3.12.1/bin/python3.12");
  EXPECT_EQ(found[4], dir / "home/.local/share/uv/python/cpython-3.12.5-linux-x86_64-gnu/bin/python3.12");
  for (const std::string& path : found) {
    EXPECT_FALSE(path.contains("freethreaded") || path.contains("pypy") || path.contains("3.12-env")) << path;
  }
  found = VersionCandidates("3.12.9", host);
  EXPECT_THAT(found, Contains(dir / "home/.pyenv/versions/3.12.9/bin/python3.12"));
  EXPECT_THAT(found, Not(Contains(dir / "home/.pyenv/versions/3.12.10/bin/python3.12")));
}

TEST(PythonSearchTest, InstalledListOmitsShims) {
  TempDir dir;
  HostEnv host = FakeHost(dir);
  host.path = (dir / "shims") + ":" + (dir / "bin");
  (void)dir.Script("shims/python3", "");
  (void)dir.Script("bin/python3.12", "");
  (void)dir.Script("bin/python3-config", "");
  std::vector<std::string> found = InstalledPythons(host);
  EXPECT_THAT(found, Contains(dir / "bin/python3.12"));
  EXPECT_THAT(found, Not(Contains(dir / "shims/python3")));
  EXPECT_THAT(found, Not(Contains(dir / "bin/python3-config")));
}

}  // namespace
}  // namespace cella::language
