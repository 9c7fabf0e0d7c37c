#include "workspace/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "os/io.h"
#include "os/test_directory.h"
#include "workspace/client_path.h"
#include "workspace/media_type.h"

namespace cella::workspace {
namespace {

using os::TempDirectory;
using testing::ElementsAre;
using testing::HasSubstr;

struct Fixture {
  TempDirectory temp;
  WorkspaceFiles files{temp.Open()};

  std::string Content(const std::string& name) const {
    return os::ReadFile(temp.path(name), 1 << 20).value_or("(unreadable)");
  }
  void Put(const std::string& path, const std::string& content) const {
    auto upload = files.StartUpload(path, {});
    ASSERT_TRUE(upload) << upload.error().message;
    ASSERT_TRUE(upload->Write(content));
    ASSERT_TRUE(upload->Commit());
  }
  Status Remove(const std::string& path, WorkspaceFiles::Recursive recursive) const {
    async::Loop loop;
    return loop.Run(files.Remove(path, recursive));
  }
};

std::string ReadAll(Download& download, size_t piece = 7) {
  std::string all, buffer(piece, '\0');
  for (;;) {
    auto n = download.Read(buffer);
    if (!n) return all + "!" + n.error().message;
    if (*n == 0) return all;
    all.append(buffer, 0, *n);
  }
}

TEST(ClientPathTest, AcceptsOnlyUnambiguousPaths) {
  for (const char* good : {"a", "a/b.txt", "...", ".hidden", "a b/\xc3\xbc", "-rf", "a\\b"}) {
    EXPECT_TRUE(CheckClientPath(good)) << good;
  }
  for (const char* bad : {"", "/", "/a", "a/", "a//b", ".", "..", "a/./b", "a/../b", "../a", "a/.."}) {
    auto checked = CheckClientPath(bad);
    ASSERT_FALSE(checked) << bad;
    EXPECT_EQ(checked.error().code, ErrorCode::kInvalid);
  }
  EXPECT_FALSE(CheckClientPath(std::string_view("a\0b", 3)));
  EXPECT_FALSE(CheckClientPath(std::string(256, 'a')));
  EXPECT_TRUE(CheckClientPath(std::string(255, 'a')));
  std::string deep = "d";
  for (int i = 1; i < 64; ++i) deep += "/d";
  EXPECT_TRUE(CheckClientPath(deep));
  EXPECT_FALSE(CheckClientPath(deep + "/d"));
  EXPECT_EQ(ShownName("a\x1b[31m\xff"), "a?[31m\xef\xbf\xbd");
}

TEST(MediaTypeTest, IsDerivedFromTheExtension) {
  EXPECT_EQ(MediaTypeOf("a/plot.PNG"), "image/png");
  EXPECT_EQ(MediaTypeOf("data.tar.gz"), "application/gzip");
  EXPECT_EQ(MediaTypeOf("a.png/file"), "application/octet-stream");
  EXPECT_EQ(MediaTypeOf(".json"), "application/octet-stream");
  EXPECT_EQ(MediaTypeOf("x."), "application/octet-stream");
}

TEST(UploadTest, AppearsCompletelyOrNotAtAll) {
  Fixture f;
  f.Put("d/x", "old");
  {
    auto upload = f.files.StartUpload("d/x", {});
    ASSERT_TRUE(upload->Write("half of it"));
  }
  EXPECT_EQ(f.Content("d/x"), "old");
  f.Put("d/x", "new");
  EXPECT_EQ(f.Content("d/x"), "new");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(f.temp.path("d")), {}), 1) << "no parts are left";
}

TEST(UploadTest, RejectsUploadAboveTheQuota) {
  Fixture f;
  auto upload = f.files.StartUpload("x", {.quota = {.bytes = 10}});
  ASSERT_TRUE(upload->Write("12345678"));
  auto above = upload->Write("901");
  ASSERT_FALSE(above);
  EXPECT_EQ(above.error().code, ErrorCode::kExhausted);
  EXPECT_TRUE(upload->Write("90")) << "ten are allowed";
  auto announced = f.files.StartUpload("y", {.quota = {.bytes = 10}, .announced = 11});
  ASSERT_FALSE(announced);
  EXPECT_EQ(announced.error().code, ErrorCode::kExhausted);
  f.Put("there", "");
  EXPECT_EQ(f.files.StartUpload("one_more", {.quota = {.files = 0}}).error().code, ErrorCode::kExhausted);
  EXPECT_TRUE(f.files.StartUpload("there", {.quota = {.files = 0}})) << "replacing makes no new file";
}

TEST(UploadTest, RejectsInvalidPathsWithAMessage) {
  Fixture f;
  for (const char* path : {"", "/x", "../x", "a/../../x", "a//x", "d/"}) {
    auto upload = f.files.StartUpload(path, {});
    ASSERT_FALSE(upload) << path;
    EXPECT_EQ(upload.error().code, ErrorCode::kInvalid) << path;
  }
  std::filesystem::create_directory_symlink("/tmp", f.temp.path("link"));
  EXPECT_THAT(f.files.StartUpload("link/x", {}).error().message, HasSubstr("not in the workspace"));
}

TEST(UploadTest, ReplacedFileKeepsItsMode) {
  Fixture f;
  f.Put("tool", "old");
  for (mode_t mode : {0755, 0600, 0666, 0444}) {
    ASSERT_EQ(chmod(f.temp.path("tool").c_str(), mode), 0);
    f.Put("tool", "new");
    EXPECT_EQ(f.files.Stat("tool")->info.mode & 07777, mode);
  }
  // Set-id bits are dropped, as a write drops them.
  ASSERT_EQ(chmod(f.temp.path("tool").c_str(), 04755), 0);
  f.Put("tool", "new");
  EXPECT_EQ(f.files.Stat("tool")->info.mode & 07777, 0755u);
}

TEST(UploadTest, LinkThatStaysInsideIsWrittenThrough) {
  Fixture f;
  f.Put("data/v1.csv", "old");
  std::filesystem::create_symlink("v1.csv", f.temp.path("data/current.csv"));
  std::filesystem::create_symlink("/workspace/data/current.csv", f.temp.path("absolute.csv"));
  f.Put("absolute.csv", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(f.temp.path("data/current.csv")));
  EXPECT_TRUE(std::filesystem::is_symlink(f.temp.path("absolute.csv")));
  EXPECT_EQ(f.Content("data/v1.csv"), "new");
  for (const char* target : {"/etc/passwd", "../outside", "data/../../outside", "/workspace/../etc/passwd"}) {
    std::filesystem::remove(f.temp.path("out"));
    std::filesystem::create_symlink(target, f.temp.path("out"));
    f.Put("out", "mine");
    EXPECT_FALSE(std::filesystem::is_symlink(f.temp.path("out"))) << target;
    EXPECT_EQ(f.Content("out"), "mine");
  }
  std::filesystem::create_symlink("loop", f.temp.path("loop"));
  f.Put("loop", "mine");
  EXPECT_EQ(f.Content("loop"), "mine");
}

TEST(DownloadTest, ReadsWholeFilesAndRanges) {
  Fixture f;
  f.Put("digits.txt", "0123456789");
  auto whole = f.files.StartDownload("digits.txt");
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->size(), 10u);
  EXPECT_EQ(whole->length(), 10u);
  EXPECT_THAT(std::string(whole->media_type()), HasSubstr("text/plain"));
  EXPECT_EQ(ReadAll(*whole), "0123456789");
  auto part = f.files.StartDownload("digits.txt");
  ASSERT_TRUE(part->SetRange(8, 100));
  EXPECT_EQ(part->length(), 2u);
  EXPECT_EQ(ReadAll(*part), "89");
  ASSERT_TRUE(part->SetRange(2, 3));
  EXPECT_EQ(ReadAll(*part), "234");
  EXPECT_EQ(part->SetRange(10, std::nullopt).error().code, ErrorCode::kInvalid);
  EXPECT_FALSE(part->SetRange(UINT64_MAX, 5));
  f.Put("empty", "");
  auto empty = f.files.StartDownload("empty");
  EXPECT_TRUE(empty->SetRange(0, std::nullopt));
  EXPECT_EQ(ReadAll(*empty), "");
}

TEST(DownloadTest, SendsAtMostTheAnnouncedSizeAndReportsLess) {
  Fixture f;
  f.Put("x", "0123456789");
  auto grows = f.files.StartDownload("x");
  auto shrinks = f.files.StartDownload("x");
  ASSERT_EQ(truncate(f.temp.path("x").c_str(), 1000), 0);
  EXPECT_EQ(ReadAll(*grows), "0123456789");
  ASSERT_EQ(truncate(f.temp.path("x").c_str(), 4), 0);
  EXPECT_THAT(ReadAll(*shrinks), HasSubstr("0123!'x' became shorter"));
}

TEST(DownloadTest, OnlyRegularFilesAreRead) {
  Fixture f;
  ASSERT_EQ(mkfifo(f.temp.path("pipe").c_str(), 0666), 0);
  std::filesystem::create_symlink("/etc/passwd", f.temp.path("link"));
  ASSERT_TRUE(f.files.MakeDirectories("d"));
  for (const char* path : {"pipe", "link", "d"}) {
    auto download = f.files.StartDownload(path);
    ASSERT_FALSE(download) << path;
    EXPECT_EQ(download.error().code, ErrorCode::kInvalid) << path;
  }
  EXPECT_EQ(f.files.StartDownload("absent").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(f.files.StartDownload("../../etc/passwd").error().code, ErrorCode::kInvalid);
}

TEST(WorkspaceFilesTest, ListsInPages) {
  Fixture f;
  for (const char* name : {"c.csv", "a.png", "b"}) f.Put(name, name);
  ASSERT_TRUE(f.files.MakeDirectories("d"));
  std::vector<std::string> names;
  std::string after;
  for (;;) {
    FilePage page = f.files.List("", after, 3).value();
    for (const FileEntry& entry : page.entries) names.push_back(entry.name);
    if (!page.next) break;
    after = *page.next;
  }
  EXPECT_THAT(names, ElementsAre("a.png", "b", "c.csv", "d"));
  FilePage page = f.files.List("", "", 100).value();
  EXPECT_EQ(page.entries[0].media_type, "image/png");
  EXPECT_EQ(page.entries[3].media_type, "");
  EXPECT_EQ(ToString(page.entries[3].info.type), "directory");
  EXPECT_FALSE(f.files.List("", "", 0));
  EXPECT_EQ(f.files.List("..", "", 10).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(f.files.List("none", "", 10).error().code, ErrorCode::kNotFound);
}

TEST(WorkspaceFilesTest, RemovesTreesOnlyIfRequested) {
  Fixture f;
  for (int i = 0; i < 1500; ++i) f.Put(fmt::format("t/{}/f{}", i % 5, i), "");
  using Recursive = WorkspaceFiles::Recursive;
  EXPECT_THAT(f.Remove("t", Recursive::kNo).error().message, HasSubstr("not empty"));
  EXPECT_TRUE(f.Remove("t", Recursive::kYes));
  EXPECT_TRUE(std::filesystem::is_empty(f.temp.path()));
  EXPECT_EQ(f.Remove("t", Recursive::kYes).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(f.Remove("t", Recursive::kNo).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(f.Remove("..", Recursive::kYes).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(f.Remove("", Recursive::kYes).error().code, ErrorCode::kInvalid);
}

}  // namespace
}  // namespace cella::workspace
