#include "workspace/archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>

#include "os/io.h"
#include "os/process.h"
#include "os/test_directory.h"

namespace cella::workspace {
namespace {

using os::TempDirectory;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

// The tar program itself is what archives must be understood by.
int Shell(const std::string& script) {
  os::SpawnOptions options;
  options.program = "/bin/sh";
  options.argv = {"sh", "-ec", script};
  options.env = {"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"};
  auto process = os::Process::Spawn(options);
  if (!process) return -1;
  int status = process->Wait().value();
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void Write(const TempDirectory& temp, const std::string& name, const std::string& content) {
  ASSERT_TRUE(temp.Open().WriteFile(name, content, os::Directory::IfExists::kReplace));
}

std::string Content(const TempDirectory& temp, const std::string& name) {
  return os::ReadFile(temp.path(name), 10 << 20).value_or("(unreadable)");
}

std::string Pack(const TempDirectory& temp, ArchiveNotes* notes = nullptr) {
  os::Directory directory = temp.Open();
  auto out = ArchiveOut::Start(directory, "", {});
  EXPECT_TRUE(out);
  std::string archive;
  while (auto piece = out->Read()) archive += *piece;
  if (notes != nullptr) *notes = out->notes();
  return archive;
}

Status Unpack(const TempDirectory& temp, const std::string& archive, ArchiveIn::Options options = {},
              size_t piece = 10'000) {
  os::Directory directory = temp.Open();
  TRY(ArchiveIn in, ArchiveIn::Start(directory, std::move(options)));
  for (size_t at = 0; at < archive.size(); at += piece) TRY_VOID(in.Feed(std::string_view(archive).substr(at, piece)));
  return in.Finish();
}

// A ustar header has room for 100 bytes of name, and 155 of directories.
const std::string kLongForUstar = std::string(90, 'd') + "/" + std::string(90, 'f');
const std::string kLong = std::string(120, 'd') + "/" + std::string(150, 'f');

void Populate(const TempDirectory& temp, const std::string& long_name = kLong) {
  Write(temp, "small.txt", "hello");
  Write(temp, "empty", "");
  Write(temp, "d/e/large.bin", std::string(300'000, 'x') + "end");
  Write(temp, long_name, "long");
  Write(temp, "\xc3\xbc ml\xc3\xa4ut.txt", "utf-8");
  std::filesystem::create_directories(temp.path("empty_dir"));
  ASSERT_EQ(chmod(temp.path("small.txt").c_str(), 0755), 0);
  timespec times[2] = {{1, 0}, {1'600'000'000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, temp.path("empty").c_str(), times, 0), 0);
}

void ExpectPopulated(const TempDirectory& temp, const std::string& long_name = kLong) {
  EXPECT_EQ(Content(temp, "small.txt"), "hello");
  EXPECT_EQ(Content(temp, "empty"), "");
  EXPECT_EQ(Content(temp, "d/e/large.bin"), std::string(300'000, 'x') + "end");
  EXPECT_EQ(Content(temp, long_name), "long");
  EXPECT_EQ(Content(temp, "\xc3\xbc ml\xc3\xa4ut.txt"), "utf-8");
  EXPECT_TRUE(std::filesystem::is_directory(temp.path("empty_dir")));
  struct stat info;
  ASSERT_EQ(stat(temp.path("small.txt").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0755u);
  ASSERT_EQ(stat(temp.path("empty").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0644u);
  EXPECT_EQ(info.st_mtime, 1'600'000'000);
}

class TarProgramTest : public testing::TestWithParam<const char*> {};

TEST_P(TarProgramTest, ArchivesOfTarAreUnpacked) {
  TempDirectory from, to, scratch;
  std::string long_name = std::string_view(GetParam()) == "ustar" ? kLongForUstar : kLong;
  Populate(from, long_name);
  ASSERT_EQ(Shell(fmt::format("tar --format={} -C {} -cf {} .", GetParam(), from.path(), scratch.path("a.tar"))), 0);
  auto unpacked = Unpack(to, Content(scratch, "a.tar"));
  ASSERT_TRUE(unpacked) << unpacked.error().message;
  ExpectPopulated(to, long_name);
}

INSTANTIATE_TEST_SUITE_P(Formats, TarProgramTest, testing::Values("ustar", "pax", "gnu"));

TEST(ArchiveOutTest, TarUnpacksTheArchive) {
  TempDirectory from, to, scratch;
  Populate(from);
  std::string archive = Pack(from);
  std::ofstream(scratch.path("a.tar"), std::ios::binary) << archive;
  ASSERT_EQ(Shell(fmt::format("tar -C {} -xf {} 2>{}", to.path(), scratch.path("a.tar"), scratch.path("stderr"))), 0);
  EXPECT_EQ(Content(scratch, "stderr"), "");
  ExpectPopulated(to);
  TempDirectory again;
  ASSERT_TRUE(Unpack(again, archive, {}, 1));
  ExpectPopulated(again);
}

TEST(ArchiveOutTest, OmitsLinksAndSpecialFilesWithANote) {
  TempDirectory from;
  Write(from, "f", "x");
  std::filesystem::create_symlink("/etc/passwd", from.path("link"));
  std::filesystem::create_directory_symlink("/etc", from.path("dir_link"));
  ASSERT_EQ(mkfifo(from.path("pipe").c_str(), 0666), 0);
  ArchiveNotes notes;
  std::string archive = Pack(from, &notes);
  EXPECT_EQ(archive.find("root:"), std::string::npos);
  EXPECT_EQ(notes.count, 3u);
  EXPECT_THAT(notes.named, Contains(HasSubstr("'link': left out, it is a symbolic link")));
  TempDirectory to;
  ASSERT_TRUE(Unpack(to, archive));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(to.path()), {}), 1);
}

TEST(ArchiveOutTest, ToleratesFilesThatChangeWhileRead) {
  TempDirectory from, to;
  Write(from, "a_shrinks", std::string(1 << 20, 'a'));
  Write(from, "b_grows", "b");
  os::Directory directory = from.Open();
  auto out = ArchiveOut::Start(directory, "", {});
  std::string archive = *out->Read();
  ASSERT_EQ(truncate(from.path("a_shrinks").c_str(), 100'000), 0);
  while (auto piece = out->Read()) {
    archive += *piece;
    Write(from, "b_grows", "much longer");
  }
  EXPECT_THAT(out->notes().named, ElementsAre(HasSubstr("'a_shrinks': became shorter")));
  ASSERT_TRUE(Unpack(to, archive));
  EXPECT_EQ(Content(to, "a_shrinks").size(), size_t{1} << 20);
  EXPECT_TRUE(Content(to, "a_shrinks").ends_with('\0'));
}

TEST(ArchiveOutTest, IsBoundedAndReportsTheBound) {
  TempDirectory from;
  Write(from, "a", "x");
  Write(from, "hole", "");
  ASSERT_EQ(truncate(from.path("hole").c_str(), off_t{1} << 40), 0);
  os::Directory directory = from.Open();
  auto out = ArchiveOut::Start(directory, "", {.bytes = 1000});
  size_t bytes = 0;
  while (auto piece = out->Read()) bytes += piece->size();
  EXPECT_LT(bytes, 5000u);
  EXPECT_FALSE(out->complete());
  EXPECT_THAT(out->notes().named, ElementsAre(HasSubstr("'hole'")));
}

TEST(ArchiveInTest, RejectsEntriesOutsideTheWorkspace) {
  TempDirectory outside, from, to, scratch;
  // With the tar program: a link out, then a file through it. The control: tar itself would write it.
  std::filesystem::create_directory_symlink(outside.path(), from.path("d"));
  TempDirectory second;
  Write(second, "d/owned", "x");
  ASSERT_EQ(Shell(fmt::format("tar -C {} -cf {} d && tar -C {} -rf {} d/owned", from.path(), scratch.path("a.tar"),
                              second.path(), scratch.path("a.tar"))),
            0);
  ASSERT_EQ(Shell(fmt::format("mkdir {0} && tar -P -C {0} -xf {1}", scratch.path("control"), scratch.path("a.tar"))),
            0);
  EXPECT_EQ(Content(outside, "owned"), "x") << "the attack works with a program that follows links";
  std::filesystem::remove(outside.path("owned"));

  auto refused = Unpack(to, Content(scratch, "a.tar"));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("'d' is a symbolic link"));
  ASSERT_TRUE(Unpack(to, Content(scratch, "a.tar"), {.links = TarLinks::kSkip}));
  EXPECT_EQ(Content(to, "d/owned"), "x") << "a directory of its own";
  EXPECT_TRUE(std::filesystem::is_empty(outside.path()));

  // A link that the guest has put there already.
  TempDirectory with_link;
  std::filesystem::create_directory_symlink(outside.path(), with_link.path("d"));
  EXPECT_FALSE(Unpack(with_link, Content(scratch, "a.tar"), {.links = TarLinks::kSkip}));
  EXPECT_TRUE(std::filesystem::is_empty(outside.path()));
}

TEST(ArchiveInTest, RespectsTheQuotaAndLeavesNoPartialFiles) {
  TempDirectory from, to;
  Write(from, "a", std::string(1000, 'a'));
  Write(from, "b", std::string(1000, 'b'));
  std::string archive = Pack(from);
  auto refused = Unpack(to, archive, {.quota = {.bytes = 1500}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kExhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("1 files before it were written"));
  EXPECT_EQ(Unpack(to, archive, {.quota = {.files = 1}}).error().code, ErrorCode::kExhausted);
  EXPECT_FALSE(Unpack(to, archive.substr(0, 2000), {}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(to.path()), {}), 1) << "a, and no part of b";
}

TEST(ArchiveInTest, UnpacksIntoADirectoryOfTheWorkspace) {
  TempDirectory from, to;
  Write(from, "a", "x");
  ASSERT_TRUE(Unpack(to, Pack(from), {.into = "sub/dir"}));
  EXPECT_EQ(Content(to, "sub/dir/a"), "x");
  EXPECT_EQ(Unpack(to, Pack(from), {.into = "../x"}).error().code, ErrorCode::kInvalid);
}

}  // namespace
}  // namespace cella::workspace
