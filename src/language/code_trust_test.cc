#include "language/code_trust.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "language/test_files.h"

namespace cella::language {
namespace {

constexpr char kByGuests[] = "guests may write to its environment";
constexpr char kByUsers[] = "other users may write to its environment";

// An environment in a directory that only the caller may write to.
class CodeTrustTest : public ::testing::Test {
 protected:
  CodeTrustTest() {
    files_.Write("env/bin/python", "", 0755);
    files_.Write("env/packages/module.py", "");
    files_.Write("env/packages/package/__init__.py", "");
    ::umask(umask_);
  }

  std::string Why() const {
    return WhyUntrusted({{files_ / "env/bin/python"}, {files_ / "env/packages"}}, guests_.Take());
  }
  std::string WhyGiven(const std::string& path) {
    const std::vector<std::string> paths = {path};
    guests_.Add(paths);
    return Why();
  }
  void Mode(std::string_view name, mode_t mode) const { ASSERT_EQ(::chmod((files_ / name).c_str(), mode), 0); }

  mode_t umask_ = ::umask(022);
  TempDir files_;
  GuestDirectories guests_;
};

TEST_F(CodeTrustTest, TrustsFilesOfTheCaller) { EXPECT_EQ(Why(), ""); }

TEST_F(CodeTrustTest, TrustsTheSystem) {
  EXPECT_EQ(WhyUntrusted({{"/usr/bin/env"}, {"/usr/lib"}}, guests_.Take()), "");
}

TEST_F(CodeTrustTest, RejectsDirectoriesOfGuestsAroundBesideAndInside) {
  for (const char* place : {"env", "env/bin", "env/packages", "env/packages/package", "."}) {
    GuestDirectories guests;
    const std::vector<std::string> paths = {std::filesystem::path(files_ / place).lexically_normal()};
    guests.Add(paths);
    EXPECT_EQ(WhyUntrusted({{files_ / "env/bin/python"}, {files_ / "env/packages"}}, guests.Take()), kByGuests)
        << place;
  }
  files_.Write("other/file", "");
  EXPECT_EQ(WhyGiven(files_ / "other"), "");
}

TEST_F(CodeTrustTest, RejectsDirectoryOfGuestsUnderAnotherPath) {
  files_.Link("link", files_ / "env/packages");
  EXPECT_EQ(WhyGiven(files_ / "link"), kByGuests);
}

TEST_F(CodeTrustTest, RejectsDirectoryOfGuestsThatWasRenamed) {
  files_.Write("given/file", "");
  EXPECT_EQ(WhyGiven(files_ / "given"), "");
  std::filesystem::rename(files_ / "given", files_ / "env/packages/given");
  EXPECT_EQ(Why(), kByGuests);
}

TEST_F(CodeTrustTest, RejectsDirectoryOfGuestsThatAppearsLater) {
  std::filesystem::remove_all(files_ / "env");
  EXPECT_EQ(WhyGiven(files_ / "env"), "");
  files_.Write("env/packages/module.py", "");
  EXPECT_EQ(Why(), kByGuests);
}

TEST_F(CodeTrustTest, RejectsWhatOthersMayWrite) {
  for (const char* name :
       {"env", "env/bin", "env/bin/python", "env/packages", "env/packages/module.py", "env/packages/package"}) {
    struct stat info;
    ASSERT_EQ(::stat((files_ / name).c_str(), &info), 0);
    Mode(name, info.st_mode | 0002);
    EXPECT_EQ(Why(), kByUsers) << name;
    Mode(name, info.st_mode);
  }
  EXPECT_EQ(Why(), "");
}

TEST_F(CodeTrustTest, TrustsStickyDirectoriesOnlyOnTheWay) {
  Mode("env", 01777);
  EXPECT_EQ(Why(), "");
  Mode("env/packages", 01777);
  EXPECT_EQ(Why(), kByUsers);
}

TEST_F(CodeTrustTest, RejectsLinksToWhatOthersMayWrite) {
  files_.Write("shared/module.py", "");
  files_.Link("env/packages/linked.py", files_ / "shared/module.py");
  EXPECT_EQ(Why(), "");
  Mode("shared", 0777);
  EXPECT_EQ(Why(), kByUsers);
}

TEST_F(CodeTrustTest, RejectsLinkThatOthersMayExchange) {
  files_.Link("shared/link", files_ / "env");
  files_.Link("env2", files_ / "shared/link");
  auto why = [&] { return WhyUntrusted({{}, {files_ / "env2/packages"}}, guests_.Take()); };
  EXPECT_EQ(why(), "");
  Mode("shared", 0777);
  EXPECT_EQ(why(), kByUsers);
}

TEST_F(CodeTrustTest, RejectsFilesOfOtherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files to other users";
  for (const char* name : {"env", "env/bin/python", "env/packages/module.py"}) {
    ASSERT_EQ(::chown((files_ / name).c_str(), 12345, 0), 0);
    EXPECT_EQ(Why(), kByUsers) << name;
    ASSERT_EQ(::chown((files_ / name).c_str(), 0, 0), 0);
  }
}

TEST_F(CodeTrustTest, TrustsGroupsWithoutOtherMembers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files to other groups";
  Mode("env/packages", 02775);
  EXPECT_EQ(Why(), "") << "root's own group";
  ASSERT_EQ(::chown((files_ / "env/packages").c_str(), 0, 65534), 0);
  EXPECT_EQ(Why(), kByUsers) << "the user nobody has this group";
  ASSERT_EQ(::chown((files_ / "env/packages").c_str(), 0, 54321), 0);
  EXPECT_EQ(Why(), kByUsers) << "no such group is known";
}

TEST_F(CodeTrustTest, TrustsOnlyTheSystemWhenDirectoriesWereForgotten) {
  std::vector<std::string> paths;
  for (int i = 0; i < 5000; ++i) paths.push_back(fmt::format("/nowhere/{}", i));
  guests_.Add(paths);
  EXPECT_FALSE(guests_.Take().is_complete);
  EXPECT_EQ(Why(), kByGuests);
  EXPECT_EQ(WhyUntrusted({{"/usr/bin/env"}, {}}, guests_.Take()), "");
}

TEST_F(CodeTrustTest, VersionGrowsOnlyWithNewDirectories) {
  EXPECT_EQ(guests_.version(), 0u);
  EXPECT_EQ(WhyGiven("/nowhere"), "");
  EXPECT_EQ(guests_.version(), 1u);
  EXPECT_EQ(WhyGiven("/nowhere"), "");
  EXPECT_EQ(guests_.version(), 1u);
}

}  // namespace
}  // namespace cella::language
