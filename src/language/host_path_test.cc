#include "language/host_path.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/scope_exit.h"
#include "language/test_files.h"

namespace cella::language {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uid_t kStranger = 12345;

class HostPathTest : public ::testing::Test {
 protected:
  void SetUp() override {
    (void)dir_.Write("private/secret", "x");
    (void)dir_.Write("work/sub/file", "x");
    guests_ = {dir_ / "work"};
  }
  Result<std::string> Resolve(const std::string& path) { return ResolveHostPath(path, guests_); }
  Result<std::string> Create(const std::string& path) { return ResolveHostDirectoryForCreation(path, guests_); }

  // kInvalid, and the message names it.
  void ExpectRefused(const Result<std::string>& result, const std::string& link, std::string_view why) {
    ASSERT_FALSE(result.has_value()) << *result;
    EXPECT_EQ(result.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(result.error().message, AllOf(HasSubstr("'" + link + "'"), HasSubstr(why)));
  }

  TempDir dir_;
  std::vector<std::string> guests_;
};

TEST_F(HostPathTest, PathsWithoutLinksAreUnchanged) {
  EXPECT_EQ(Resolve(dir_ / "work/sub/file").value(), dir_ / "work/sub/file");
  EXPECT_EQ(Resolve(dir_ / "work").value(), dir_ / "work");
  EXPECT_EQ(Resolve("/").value(), "/");
  EXPECT_EQ(Resolve("/..").value(), "/");
  EXPECT_EQ(Resolve(dir_ / "work//./sub///").value(), dir_ / "work/sub");
  EXPECT_EQ(Resolve(dir_ / "work/sub/../../private/.").value(), dir_ / "private");
}

TEST_F(HostPathTest, RelativePathsResolveFromTheCurrentDirectory) {
  int before = ::open(".", O_PATH | O_CLOEXEC);
  ScopeExit back([&] {
    (void)!::fchdir(before);
    ::close(before);
  });
  ASSERT_EQ(::chdir((dir_ / "work").c_str()), 0);
  EXPECT_EQ(Resolve(".").value(), dir_ / "work");
  EXPECT_EQ(Resolve("./").value(), dir_ / "work");
  EXPECT_EQ(Resolve("sub/file").value(), dir_ / "work/sub/file");
  EXPECT_EQ(Resolve("../private").value(), dir_ / "private");
  EXPECT_EQ(Create("new/er").value(), dir_ / "work/new/er");
  EXPECT_EQ(Create(".").value(), dir_ / "work");
}

TEST_F(HostPathTest, RejectsEmptyAndInvalidPaths) {
  EXPECT_EQ(Resolve("").error().code, ErrorCode::kInvalid);
  EXPECT_EQ(Create("").error().code, ErrorCode::kInvalid);
  EXPECT_EQ(Resolve(std::string("/a\0b", 4)).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(Resolve(dir_ / "nope").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Resolve(dir_ / "nope/..").error().sys_errno, ENOENT);
  for (const char* path : {"private/secret/", "private/secret/.", "private/secret/..", "private/secret/x"}) {
    EXPECT_EQ(Resolve(dir_ / path).error().sys_errno, ENOTDIR) << path;
  }
  EXPECT_EQ(Resolve("/" + std::string(300, 'x')).error().sys_errno, ENAMETOOLONG);
}

TEST_F(HostPathTest, FollowsOwnLinksOutsideGuestDirectories) {
  (void)dir_.Link("absolute", dir_ / "private");
  (void)dir_.Link("relative", "work/sub/../../private/secret");
  (void)dir_.Link("twice", "absolute/secret");
  (void)dir_.Link("into", "work/sub");
  (void)dir_.Link("slashed", "private/");
  EXPECT_EQ(Resolve(dir_ / "absolute").value(), dir_ / "private");
  EXPECT_EQ(Resolve(dir_ / "absolute/../work").value(), dir_ / "work") << "'..' is that of the target";
  EXPECT_EQ(Resolve(dir_ / "relative").value(), dir_ / "private/secret");
  EXPECT_EQ(Resolve(dir_ / "twice").value(), dir_ / "private/secret");
  EXPECT_EQ(Resolve(dir_ / "into/file").value(), dir_ / "work/sub/file");
  EXPECT_EQ(Resolve(dir_ / "slashed/secret").value(), dir_ / "private/secret");
}

TEST_F(HostPathTest, RejectsLinksInGuestDirectories) {
  std::string direct = dir_.Link("work/cache", "../private");
  std::string deep = dir_.Link("work/sub/cache", dir_ / "private");
  std::string harmless = dir_.Link("work/inside", "sub");
  for (const std::string& link : {direct, deep, harmless}) {
    ExpectRefused(Resolve(link), link, "guests can write to");
    ExpectRefused(Resolve(link + "/"), link, "guests can write to");
    ExpectRefused(Resolve(link + "/secret"), link, "guests can write to");
    ExpectRefused(Create(link), link, "guests can write to");
    ExpectRefused(Create(link + "/new"), link, "guests can write to");
  }
  (void)dir_.Link("outside", "work/cache/secret");
  ExpectRefused(Resolve(dir_ / "outside"), direct, "guests can write to");
  EXPECT_TRUE(ResolveHostPath(direct, {}).has_value()) << "without guests it is an ordinary link";
}

TEST_F(HostPathTest, RecognisesGuestDirectoryByAnyName) {
  (void)dir_.Link("alias", "work");
  std::string link = dir_.Link("work/cache", "../private");
  ExpectRefused(Resolve(dir_ / "alias/cache"), link, "guests can write to");
  ExpectRefused(Resolve(dir_ / "private/../work/sub/../cache"), link, "guests can write to");
  // As a bind mount would have it: the same directory, whose real path is another.
  guests_ = {dir_ / "alias"};
  ExpectRefused(Resolve(link), link, "guests can write to");
}

TEST_F(HostPathTest, FollowsLinkBesideAGuestDirectory) {
  (void)dir_.Write("work-2/file", "");
  (void)dir_.Link("work-2/link", "file");
  EXPECT_EQ(Resolve(dir_ / "work-2/link").value(), dir_ / "work-2/file");
}

TEST_F(HostPathTest, RejectsLinksOfOtherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a link away";
  std::string link = dir_.Link("swapped", "private");
  ASSERT_EQ(::lchown(link.c_str(), kStranger, kStranger), 0);
  ExpectRefused(Resolve(link), link, "uid 12345");
  ExpectRefused(Resolve(link + "/secret"), link, "uid 12345");
  ExpectRefused(Create(link + "/new"), link, "uid 12345");
  // A directory of theirs is no link: who named it wanted it.
  ASSERT_EQ(::chown((dir_ / "private").c_str(), kStranger, kStranger), 0);
  EXPECT_TRUE(Resolve(dir_ / "private/secret").has_value());
}

TEST_F(HostPathTest, RejectsMagicLinks) {
  for (const char* path : {"/proc/self", "/proc/self/fd/0", "/proc/thread-self/cwd", "/dev/fd/0"}) {
    auto result = Resolve(path);
    ASSERT_FALSE(result.has_value()) << path;
    EXPECT_EQ(result.error().code, ErrorCode::kInvalid) << path;
  }
  std::string cwd = fmt::format("/proc/{}/cwd", ::getpid());
  ExpectRefused(Resolve(cwd), cwd, "kernel");
  EXPECT_EQ(Resolve("/proc/version").value(), "/proc/version");
}

TEST_F(HostPathTest, RejectsLoops) {
  (void)dir_.Link("a", "b");
  (void)dir_.Link("b", "a");
  EXPECT_EQ(Resolve(dir_ / "a").error().sys_errno, ELOOP);
  (void)dir_.Link("l0", "private");
  for (int i = 1; i <= 40; ++i) (void)dir_.Link(fmt::format("l{}", i), fmt::format("l{}", i - 1));
  EXPECT_EQ(Resolve(dir_ / "l39").value(), dir_ / "private");
  EXPECT_EQ(Resolve(dir_ / "l40").error().sys_errno, ELOOP);
}

TEST_F(HostPathTest, MissingEndIsAppendedForCreation) {
  EXPECT_EQ(Create(dir_ / "private").value(), dir_ / "private");
  EXPECT_EQ(Create(dir_ / "new").value(), dir_ / "new");
  EXPECT_EQ(Create(dir_ / "new/./a//b/").value(), dir_ / "new/a/b");
  EXPECT_EQ(Create("/cella-nonexistent").value(), "/cella-nonexistent");
  (void)dir_.Link("link", "private");
  EXPECT_EQ(Create(dir_ / "link/new").value(), dir_ / "private/new");
  EXPECT_EQ(Create(dir_ / "link/../new").value(), dir_ / "new");
  EXPECT_THAT(Create(dir_ / "new/../private").error().message, HasSubstr("'..'"));
  EXPECT_EQ(Create(dir_ / "private/secret").error().code, ErrorCode::kInvalid);
  EXPECT_EQ(Create(dir_ / "private/secret/new").error().sys_errno, ENOTDIR);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "new")) << "nothing is created";
}

TEST_F(HostPathTest, SwappingALinkNeverYieldsItsTarget) {
  std::filesystem::create_directories(dir_ / "work/cache");
  (void)dir_.Link("work/other", "../private");
  std::string cache = dir_ / "work/cache";
  std::string other = dir_ / "work/other";
  std::atomic<bool> stop = false;
  std::jthread guest([&] {
    while (!stop) (void)::renameat2(AT_FDCWD, cache.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE);
  });
  for (int i = 0; i < 2000; ++i) {
    auto result = Resolve(cache);
    if (result) {
      ASSERT_EQ(*result, cache);
    } else {
      ASSERT_THAT(result.error().message, HasSubstr("guests can write to"));
    }
  }
  stop = true;
}

TEST_F(HostPathTest, LiesBelowComparesBothNames) {
  (void)dir_.Link("alias", "work");
  EXPECT_TRUE(LiesBelowAny(dir_ / "work/sub/file", guests_));
  EXPECT_TRUE(LiesBelowAny(dir_ / "work/not/there", guests_));
  EXPECT_TRUE(LiesBelowAny(dir_ / "alias/sub", guests_));
  EXPECT_FALSE(LiesBelowAny(dir_ / "work/../private", guests_));
  EXPECT_FALSE(LiesBelowAny(dir_ / "private", guests_));
  EXPECT_FALSE(LiesBelowAny(dir_ / "work", {}));
}

}  // namespace
}  // namespace cella::language
