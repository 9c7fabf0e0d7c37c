#include "os/directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "os/io.h"
#include "os/pending_file.h"
#include "os/test_directory.h"
#include "os/tree_walk.h"

namespace cella::os {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using IfExists = Directory::IfExists;

std::vector<std::string> Names(const ChildPage& page) {
  std::vector<std::string> names;
  for (const ChildEntry& entry : page.entries) names.push_back(entry.name);
  return names;
}

std::string Content(const TempDirectory& temp, const std::string& name) {
  return ReadFile(temp.path(name), 1000).value_or("(unreadable)");
}

TEST(PendingFileTest, FileIsInvisibleUntilComplete) {
  TempDirectory temp;
  Directory directory = temp.Open();
  ASSERT_TRUE(directory.WriteFile("d/f", "old", IfExists::kRefuse));
  auto pending = directory.CreatePending("d/f");
  ASSERT_TRUE(pending);
  ASSERT_TRUE(pending->Write("ne"));
  EXPECT_EQ(Content(temp, "d/f"), "old");
  EXPECT_EQ(directory.List(10).files.size(), 1u) << "a part is not listed";
  EXPECT_THAT(Names(directory.ListChildren("d", "", 10).value()), ElementsAre("f"));
  ASSERT_TRUE(pending->Write("w"));
  ASSERT_TRUE(pending->Commit(IfExists::kReplace));
  EXPECT_EQ(Content(temp, "d/f"), "new");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(temp.path("d")), {}), 1);
}

TEST(PendingFileTest, AbandonedFileIsRemoved) {
  TempDirectory temp;
  Directory directory = temp.Open();
  {
    auto pending = directory.CreatePending("f");
    ASSERT_TRUE(pending->Write("half"));
    ASSERT_FALSE(std::filesystem::is_empty(temp.path()));
  }
  EXPECT_TRUE(std::filesystem::is_empty(temp.path()));
}

TEST(PendingFileTest, RejectsExistingFileIfRequested) {
  TempDirectory temp;
  Directory directory = temp.Open();
  auto pending = directory.CreatePending("f");
  ASSERT_TRUE(directory.WriteFile("f", "first", IfExists::kRefuse));
  auto committed = pending->Commit(IfExists::kRefuse);
  ASSERT_FALSE(committed);
  EXPECT_EQ(committed.error().code, ErrorCode::kInvalid);
  EXPECT_EQ(Content(temp, "f"), "first");
}

TEST(PendingFileTest, ReplacesALinkWithoutFollowingIt) {
  TempDirectory temp, outside;
  ASSERT_TRUE(outside.Open().WriteFile("secret", "s", IfExists::kRefuse));
  std::filesystem::create_symlink(outside.path("secret"), temp.path("file"));
  std::filesystem::create_symlink(outside.path(), temp.path("dir"));
  Directory directory = temp.Open();
  for (const char* path : {"dir/x", "../x", "/etc/x", "dir/../../x", "", "a/.."}) {
    EXPECT_FALSE(directory.CreatePending(path)) << path;
  }
  auto pending = directory.CreatePending("file");
  ASSERT_TRUE(pending->Write("mine"));
  ASSERT_TRUE(pending->Commit(IfExists::kReplace));
  EXPECT_EQ(Content(outside, "secret"), "s");
  EXPECT_EQ(Content(temp, "file"), "mine");
  EXPECT_FALSE(std::filesystem::is_symlink(temp.path("file")));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(outside.path()), {}), 1);
}

TEST(PendingFileTest, DoesNotReplaceADirectory) {
  TempDirectory temp;
  Directory directory = temp.Open();
  auto early = directory.CreatePending("d");
  ASSERT_TRUE(directory.MakeDirectories("d"));
  auto late = directory.CreatePending("d");
  ASSERT_FALSE(late);
  EXPECT_THAT(late.error().message, HasSubstr("is a directory"));
  EXPECT_EQ(early->Commit(IfExists::kReplace).error().code, ErrorCode::kInvalid);
}

TEST(DirectoryTest, OpenReturnsSizeAndTime) {
  TempDirectory temp;
  Directory directory = temp.Open();
  ASSERT_TRUE(directory.WriteFile("f", "12345", IfExists::kRefuse));
  timespec times[2] = {{1, 0}, {1'700'000'000, 5}};
  ASSERT_EQ(utimensat(AT_FDCWD, temp.path("f").c_str(), times, 0), 0);
  OpenedFile file = directory.OpenWithInfo("f").value();
  EXPECT_EQ(file.info.size, 5u);
  EXPECT_EQ(file.info.modified_ns, 1'700'000'000'000'000'005);
  EXPECT_EQ(directory.OpenWithInfo("absent").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(directory.OpenWithInfo(".").error().code, ErrorCode::kInvalid);
}

TEST(DirectoryTest, StatReturnsTheTypeWithoutFollowingLinks) {
  TempDirectory temp;
  ASSERT_EQ(mkfifo(temp.path("pipe").c_str(), 0666), 0);
  std::filesystem::create_symlink("/etc", temp.path("link"));
  Directory directory = temp.Open();
  EXPECT_EQ(directory.Stat("")->type, EntryType::kDirectory);
  EXPECT_EQ(directory.Stat("pipe")->type, EntryType::kOther);
  EXPECT_EQ(directory.Stat("link")->type, EntryType::kLink);
  EXPECT_EQ(directory.Stat("link/passwd").error().code, ErrorCode::kInvalid);
}

TEST(DirectoryTest, PageIsSortedBoundedAndStartsAfterAName) {
  TempDirectory temp;
  Directory directory = temp.Open();
  for (const char* name : {"d", "a", "c", "e", "b"}) ASSERT_TRUE(directory.WriteFile(name, name, IfExists::kRefuse));
  std::filesystem::create_symlink("/etc", temp.path("link"));
  ChildPage first = directory.ListChildren("", "", 2).value();
  EXPECT_THAT(Names(first), ElementsAre("a", "b"));
  EXPECT_TRUE(first.more);
  ChildPage last = directory.ListChildren("", "b", 10).value();
  EXPECT_THAT(Names(last), ElementsAre("c", "d", "e", "link"));
  EXPECT_FALSE(last.more);
  EXPECT_EQ(last.entries[3].info.type, EntryType::kLink);
  EXPECT_EQ(last.entries[0].info.size, 1u);
  EXPECT_FALSE(directory.ListChildren("", "b", 4)->more) << "a full page that is the last one";
  EXPECT_EQ(directory.ListChildren("link", "", 10).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(directory.ListChildren("a", "", 10).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(directory.ListChildren("none", "", 10).error().code, ErrorCode::kNotFound);
}

TEST(DirectoryTest, RemovesOnlyFilesAndEmptyDirectories) {
  TempDirectory temp, outside;
  Directory directory = temp.Open();
  ASSERT_TRUE(outside.Open().WriteFile("keep", "k", IfExists::kRefuse));
  ASSERT_TRUE(directory.WriteFile("d/f", "x", IfExists::kRefuse));
  std::filesystem::create_directory_symlink(outside.path(), temp.path("link"));
  EXPECT_THAT(directory.Remove("d").error().message, HasSubstr("not empty"));
  EXPECT_EQ(directory.Remove("none").error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(directory.Remove("link/keep"));
  EXPECT_TRUE(directory.Remove("link")) << "the link itself";
  EXPECT_TRUE(directory.Remove("d/f"));
  EXPECT_TRUE(directory.Remove("d"));
  EXPECT_TRUE(std::filesystem::is_empty(temp.path()));
  EXPECT_EQ(Content(outside, "keep"), "k");
}

TEST(DirectoryTest, RemovesATreeInBoundedSteps) {
  TempDirectory temp, outside;
  Directory directory = temp.Open();
  ASSERT_TRUE(outside.Open().WriteFile("keep", "k", IfExists::kRefuse));
  for (int i = 0; i < 400; ++i) {
    ASSERT_TRUE(directory.WriteFile(fmt::format("t/d{}/f{}", i % 7, i), "", IfExists::kRefuse));
  }
  std::filesystem::create_directory_symlink(outside.path(), temp.path("t/d1/link"));
  ASSERT_EQ(mkfifo(temp.path("t/d2/pipe").c_str(), 0666), 0);
  int steps = 0;
  while (directory.RemoveTree("t", 150).value() == Directory::Removed::kPart) ASSERT_LT(++steps, 20);
  EXPECT_GE(steps, 2);
  EXPECT_TRUE(std::filesystem::is_empty(temp.path()));
  EXPECT_EQ(Content(outside, "keep"), "k");
  EXPECT_EQ(directory.RemoveTree("t", 150).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(directory.RemoveTree("..", 150));
  EXPECT_FALSE(directory.RemoveTree(".", 150));
}

TEST(DirectoryTest, TooDeepTreeIsAnErrorWithAMessage) {
  TempDirectory temp;
  Directory directory = temp.Open();
  std::string path = "t";
  for (int i = 0; i < 100; ++i) path += "/d";
  ASSERT_TRUE(directory.MakeDirectories(path));
  auto removed = directory.RemoveTree("t", 1000);
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().code, ErrorCode::kExhausted);
  EXPECT_THAT(removed.error().message, HasSubstr("deep"));
}

TEST(DirectoryTest, SwappingADirectoryForALinkRemovesOnlyTheGuestsFiles) {
  TempDirectory temp, outside;
  Directory directory = temp.Open();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(outside.Open().WriteFile(fmt::format("k{}", i), "", IfExists::kRefuse));
  std::atomic<bool> stop = false;
  std::filesystem::create_directory_symlink(outside.path(), temp.path("link"));
  std::thread guest([&] {
    while (!stop) {
      syscall(SYS_renameat2, directory.fd(), "link", directory.fd(), "t/d", RENAME_EXCHANGE);
    }
  });
  for (int round = 0; round < 300; ++round) {
    for (int i = 0; i < 10; ++i) (void)directory.WriteFile(fmt::format("t/d/f{}", i), "", IfExists::kReplace);
    for (int step = 0; step < 50; ++step) {
      auto removed = directory.RemoveTree("t", 150);
      if (!removed || *removed == Directory::Removed::kAll) break;
    }
    if (!std::filesystem::is_symlink(temp.path("link"))) {
      (void)directory.RemoveTree("link", 150);
      std::error_code ignored;
      std::filesystem::create_directory_symlink(outside.path(), temp.path("link"), ignored);
    }
  }
  stop = true;
  guest.join();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(outside.path()), {}), 20);
}

TEST(DirectoryTest, CreatesDirectoriesButNotThroughFilesOrLinks) {
  TempDirectory temp;
  Directory directory = temp.Open();
  EXPECT_TRUE(directory.MakeDirectories("a/b/c"));
  EXPECT_TRUE(directory.MakeDirectories("a/b/c"));
  EXPECT_TRUE(std::filesystem::is_directory(temp.path("a/b/c")));
  ASSERT_TRUE(directory.WriteFile("f", "", IfExists::kRefuse));
  EXPECT_EQ(directory.MakeDirectories("f/x").error().code, ErrorCode::kInvalid);
  std::filesystem::create_directory_symlink("/tmp", temp.path("link"));
  EXPECT_EQ(directory.MakeDirectories("link/x").error().code, ErrorCode::kInvalid);
  EXPECT_FALSE(directory.MakeDirectories("../x"));
}

TEST(TreeWalkTest, VisitsEveryEntryOnceInOrder) {
  TempDirectory temp;
  Directory directory = temp.Open();
  ASSERT_TRUE(directory.WriteFile("b/two", "22", IfExists::kRefuse));
  ASSERT_TRUE(directory.WriteFile("a", "1", IfExists::kRefuse));
  ASSERT_TRUE(directory.MakeDirectories("c/empty"));
  std::filesystem::create_directory_symlink("/etc", temp.path("b/link"));
  TreeWalk walk = directory.Walk("", {}).value();
  std::vector<std::string> paths;
  while (auto entry = walk.Next()) {
    paths.push_back(entry->path);
    if (entry->path == "b/two") {
      EXPECT_EQ(ReadFd(walk.Open()->fd.get(), 10).value(), "22");
    }
    if (entry->path == "b/link") {
      EXPECT_EQ(entry->info.type, EntryType::kLink);
      EXPECT_FALSE(walk.Open());
    }
  }
  EXPECT_THAT(paths, ElementsAre("a", "b", "b/link", "b/two", "c", "c/empty"));
  EXPECT_TRUE(walk.complete());
}

TEST(TreeWalkTest, IsBoundedAndReportsTheBound) {
  TempDirectory temp;
  Directory directory = temp.Open();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(directory.WriteFile(std::to_string(i), "", IfExists::kRefuse));
  TreeWalk walk = directory.Walk("", {.entries = 5}).value();
  int seen = 0;
  while (walk.Next()) ++seen;
  EXPECT_EQ(seen, 5);
  EXPECT_FALSE(walk.complete());
}

TEST(DirectoryIdentityTest, UsesTheRightsOfTheGuest) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to act as another user";
  TempDirectory temp;
  const FsIdentity nobody{65534, 65534};
  ASSERT_EQ(chown(temp.path().c_str(), nobody.uid, nobody.gid), 0);
  Directory root = temp.Open(), guest = temp.Open(nobody);
  ASSERT_TRUE(root.WriteFile("secret", "s", IfExists::kRefuse, 0600));
  EXPECT_TRUE(root.OpenWithInfo("secret"));
  EXPECT_EQ(guest.OpenWithInfo("secret").error().code, ErrorCode::kPermission);

  auto pending = guest.CreatePending("mine");
  ASSERT_TRUE(pending->Commit(IfExists::kReplace));
  struct stat info;
  ASSERT_EQ(stat(temp.path("mine").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, nobody.uid);

  ASSERT_TRUE(root.WriteFile("roots/f", "s", IfExists::kRefuse));
  EXPECT_EQ(guest.RemoveTree("roots", 100).error().code, ErrorCode::kPermission);
  EXPECT_TRUE(root.OpenWithInfo("roots/f"));
}

TEST(DirectoryIdentityTest, RemovesDirectoriesWithoutPermissions) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to act as another user";
  TempDirectory temp;
  const FsIdentity nobody{65534, 65534};
  ASSERT_EQ(chown(temp.path().c_str(), nobody.uid, nobody.gid), 0);
  Directory guest = temp.Open(nobody);
  ASSERT_TRUE(guest.WriteFile("t/closed/f", "", IfExists::kRefuse));
  ASSERT_TRUE(guest.WriteFile("t/read_only/f", "", IfExists::kRefuse));
  ASSERT_EQ(chmod(temp.path("t/closed").c_str(), 0), 0);
  ASSERT_EQ(chmod(temp.path("t/read_only").c_str(), 0500), 0);
  ASSERT_EQ(chmod(temp.path("t").c_str(), 0500), 0);
  EXPECT_EQ(guest.RemoveTree("t", 100).value(), Directory::Removed::kAll);
  EXPECT_TRUE(std::filesystem::is_empty(temp.path()));
}

}  // namespace
}  // namespace cella::os
