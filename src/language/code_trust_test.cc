#include "language/code_trust.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

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
    files_.Write("env/packages/package/below/module.py", "");
    ::umask(umask_);
  }

  std::string Why() const {
    return WhyUntrusted({.places = {files_ / "env/bin/python"}, .directories = {files_ / "env/packages"}},
                        guests_.Take());
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
  EXPECT_EQ(WhyUntrusted({.places = {"/usr/bin/env"}, .directories = {"/usr/lib"}}, guests_.Take()), "");
}

TEST_F(CodeTrustTest, RejectsDirectoriesOfGuestsAroundBesideAndInside) {
  for (const char* place : {"env", "env/bin", "env/packages", "env/packages/package", "."}) {
    GuestDirectories guests;
    const std::vector<std::string> paths = {std::filesystem::path(files_ / place).lexically_normal()};
    guests.Add(paths);
    EXPECT_EQ(
        WhyUntrusted({.places = {files_ / "env/bin/python"}, .directories = {files_ / "env/packages"}}, guests.Take()),
        kByGuests)
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
       {"env", "env/bin", "env/bin/python", "env/packages", "env/packages/module.py", "env/packages/package",
        "env/packages/package/__init__.py", "env/packages/package/below", "env/packages/package/below/module.py"}) {
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

TEST_F(CodeTrustTest, RejectsFilesBelowLinkedPackages) {
  files_.Write("shared/package/module.py", "");
  files_.Link("env/packages/linked", files_ / "shared/package");
  files_.Link("shared/package/loop", files_ / "shared");
  EXPECT_EQ(Why(), "");
  Mode("shared/package/module.py", 0666);
  EXPECT_EQ(Why(), kByUsers);
}

TEST_F(CodeTrustTest, ReadsEntriesOfLibrariesAloneAndOfKnownDirectories) {
  Mode("env/packages/package/__init__.py", 0666);
  const CodePlaces code = {.directories = {files_ / "env/packages"}};
  EXPECT_EQ(WhyUntrusted(code, guests_.Take()), kByUsers);
  EXPECT_EQ(WhyUntrusted(code, guests_.Take(), Below::kIsKnown), "");
  EXPECT_EQ(WhyUntrusted({.libraries = {files_ / "env/packages"}}, guests_.Take()), "");
}

TEST_F(CodeTrustTest, RejectsLinkThatOthersMayExchange) {
  files_.Link("shared/link", files_ / "env");
  files_.Link("env2", files_ / "shared/link");
  auto why = [&] { return WhyUntrusted({.directories = {files_ / "env2/packages"}}, guests_.Take()); };
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
  EXPECT_EQ(WhyUntrusted({.places = {"/usr/bin/env"}}, guests_.Take()), "");
}

TEST_F(CodeTrustTest, VersionGrowsOnlyWithNewDirectories) {
  EXPECT_EQ(guests_.version(), 0u);
  EXPECT_EQ(WhyGiven("/nowhere"), "");
  EXPECT_EQ(guests_.version(), 1u);
  EXPECT_EQ(WhyGiven("/nowhere"), "");
  EXPECT_EQ(guests_.version(), 1u);
}

// The record of directories, for the processes of the caller that come later.

class GuestRecordTest : public ::testing::Test {
 protected:
  GuestRecordTest() {
    files_.Write("given/file", "");
    ::umask(umask_);
  }

  void Give(const std::string& path) const {
    const std::vector<std::string> paths = {path};
    GuestDirectories(Record()).Add(paths);
  }
  // Why a later process would not trust the file in the directory that was given.
  std::string WhyLater(std::string_view name = "given/file") const {
    return WhyUntrusted({.places = {files_ / name}}, GuestDirectories(Record()).TakeAll());
  }
  std::string Record() const { return files_ / "cache/cella"; }
  std::string File() const { return Record() + "/guest-directories"; }

  mode_t umask_ = ::umask(022);
  TempDir files_;
};

TEST_F(GuestRecordTest, RemembersDirectoriesOfEarlierProcesses) {
  EXPECT_EQ(WhyLater(), "");
  Give(files_ / "given");
  EXPECT_EQ(WhyLater(), kByGuests);
  EXPECT_TRUE(GuestDirectories(Record()).Take().entries.empty()) << "zygotes ask about this process alone";
}

TEST_F(GuestRecordTest, RemembersADirectoryThatWasRenamed) {
  Give(files_ / "given");
  std::filesystem::rename(files_ / "given", files_ / "renamed");
  EXPECT_EQ(WhyLater("renamed/file"), kByGuests);
}

TEST_F(GuestRecordTest, TrustsADirectoryWithTheNumberOfARemovedOne) {
  Give(files_ / "given");
  std::filesystem::remove_all(files_ / "given");
  files_.Write("next/file", "");  // most file systems give it the number at once
  EXPECT_EQ(WhyLater("next/file"), "");
}

TEST_F(GuestRecordTest, KeepsPathsWithEveryByte) {
  const std::string name = "given/a\nb \\ n\\n";
  std::filesystem::create_directories(files_ / name);
  Give(files_ / name);
  const auto entries = GuestDirectories(Record()).TakeAll().entries;
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].path, files_ / name);
}

TEST_F(GuestRecordTest, TrustsOnlyTheSystemWithoutARecord) {
  EXPECT_FALSE(GuestDirectories().TakeAll().is_complete);
  files_.Write("cache/cella", "a file is in the way of the directory");
  EXPECT_EQ(WhyLater(), kByGuests);
}

TEST_F(GuestRecordTest, TrustsOnlyTheSystemWithABrokenOrForeignRecord) {
  Give(files_ / "given");
  const auto is_complete = [&] { return GuestDirectories(Record()).TakeAll().is_complete; };
  EXPECT_TRUE(is_complete());
  ASSERT_EQ(::chmod(File().c_str(), 0644), 0);
  EXPECT_FALSE(is_complete()) << "others might write next time";
  ASSERT_EQ(::chmod(File().c_str(), 0600), 0);
  for (const char* text : {"1 2 3 /x\n3 4", "nonsense\n", "1 2 3 relative\n"}) {
    std::ofstream(File()) << text;
    EXPECT_FALSE(is_complete()) << text;
  }
  std::filesystem::remove(File());
  ASSERT_EQ(::mkfifo(File().c_str(), 0600), 0);
  EXPECT_FALSE(is_complete());
}

TEST_F(GuestRecordTest, LosesOnlyDirectoriesThatAreGoneWhenItIsFull) {
  Give(files_ / "given");
  {
    std::ofstream more(File(), std::ios::app);
    for (int i = 0; i < 30'000; ++i) more << "1 2 3 /nowhere/at/all/" << i << "\n";
  }
  EXPECT_EQ(WhyLater(), kByGuests);
  Give(files_ / "cache");
  EXPECT_LT(std::filesystem::file_size(File()), 4096U);
  EXPECT_EQ(WhyLater(), kByGuests);
  EXPECT_EQ(GuestDirectories(Record()).TakeAll().entries.size(), 2U);
}

}  // namespace
}  // namespace cella::language
