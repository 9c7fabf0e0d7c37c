#include "language/tool_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "language/test_files.h"

namespace cella::language {
namespace {

using ::testing::HasSubstr;

class ToolAnswersTest : public ::testing::Test {
 protected:
  ToolAnswersTest() { program_ = dir_.Script("tool", "echo answer"); }

  // As a new process would: nothing is remembered but the file.
  Result<std::string> Ask(const std::vector<std::string>& deciding = {},
                          ToolAnswers::Refusals refusals = ToolAnswers::Refusals::kForget) {
    return ToolAnswers(host_).Ask(query(), deciding, refusals);
  }
  ToolQuery query() const { return {.argv = {program_}, .env = {}, .visible = {}, .etc = {}}; }
  size_t TimesAsked() const { return Asked(host_).size(); }
  std::string file() const { return dir_ / "cache/answers.json"; }

  TempDir dir_;
  HostEnv host_ = FakeHost(dir_);
  std::string program_;
};

TEST_F(ToolAnswersTest, SecondAnswerComesFromTheFile) {
  EXPECT_EQ(Ask().value(), "answer\n");
  EXPECT_EQ(Ask().value(), "answer\n");
  EXPECT_EQ(TimesAsked(), 1u);
}

TEST_F(ToolAnswersTest, ExchangedProgramIsAskedAgainThoughItsTimeAndSizeAreTheSame) {
  (void)Ask();
  struct stat old{};
  ASSERT_EQ(::stat(program_.c_str(), &old), 0);
  (void)dir_.Script("tool", "echo ANSWER");
  const std::array<timespec, 2> times = {old.st_atim, old.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, program_.c_str(), times.data(), 0), 0);
  struct stat now{};
  ASSERT_EQ(::stat(program_.c_str(), &now), 0);
  ASSERT_EQ(now.st_size, old.st_size);
  ASSERT_EQ(now.st_ino, old.st_ino);
  ASSERT_EQ(now.st_mtim.tv_nsec, old.st_mtim.tv_nsec);
  EXPECT_EQ(Ask().value(), "ANSWER\n");
}

TEST_F(ToolAnswersTest, ChangedLinkOrDecidingFileIsAskedAgain) {
  const std::string real = program_;
  program_ = dir_.Link("link", real);
  const std::string deciding = dir_ / "version";
  (void)Ask({deciding});
  (void)Ask({deciding});
  EXPECT_EQ(TimesAsked(), 1u);
  (void)dir_.Write("version", "3.12");
  (void)Ask({deciding});
  EXPECT_EQ(TimesAsked(), 2u);
  std::filesystem::remove(program_);
  (void)dir_.Link("link", real);
  (void)Ask({deciding});
  EXPECT_EQ(TimesAsked(), 3u);
}

TEST_F(ToolAnswersTest, ProgramThatChangesWhileItAnswersIsNotRemembered) {
  (void)dir_.Script("tool", fmt::format("echo first; echo '#' >> '{}'", program_));
  (void)Ask();
  (void)Ask();
  EXPECT_EQ(TimesAsked(), 2u);
}

TEST_F(ToolAnswersTest, AnotherQuestionIsAnotherAnswer) {
  (void)Ask();
  ToolQuery other = query();
  other.argv.emplace_back("--version");
  (void)ToolAnswers(host_).Ask(other);
  other.env = {"PYENV_VERSION=3.11"};
  (void)ToolAnswers(host_).Ask(other);
  EXPECT_EQ(TimesAsked(), 3u);
}

TEST_F(ToolAnswersTest, RefusalIsRememberedIfWanted) {
  (void)dir_.Script("tool", "echo no version set >&2; exit 127");
  for (int i = 0; i < 2; ++i) {
    auto answer = Ask({}, ToolAnswers::Refusals::kRemember);
    ASSERT_FALSE(answer.has_value());
    EXPECT_EQ(answer.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(answer.error().message, HasSubstr("no version set"));
  }
  EXPECT_EQ(TimesAsked(), 1u);
}

TEST_F(ToolAnswersTest, MissingProgramIsNotFoundAndNoAskerIsAnError) {
  program_ = dir_ / "nope";
  EXPECT_EQ(Ask().error().code, ErrorCode::kNotFound);
  program_ = dir_.Script("tool", "");
  host_.asker = nullptr;
  EXPECT_EQ(Ask().error().code, ErrorCode::kUnsupported);
}

TEST_F(ToolAnswersTest, CorruptFileIsIgnoredAndReplaced) {
  for (std::string_view text : {"", "{", "[]", "{\"answers\":3}", "{\"answers\":[1,{\"key\":2}]}"}) {
    std::filesystem::create_directories(dir_ / "cache");
    ::chmod((dir_ / "cache").c_str(), 0700);
    (void)dir_.Write("cache/answers.json", text, 0600);
    EXPECT_TRUE(Ask().has_value()) << text;
    EXPECT_THAT(dir_.Read("cache/answers.json"), HasSubstr("answer")) << text;
  }
}

TEST_F(ToolAnswersTest, FileOrDirectoryThatOthersMayWriteIsNotBelieved) {
  (void)Ask();
  ::chmod(file().c_str(), 0666);
  (void)Ask();
  EXPECT_EQ(TimesAsked(), 2u);
  ::chmod((dir_ / "cache").c_str(), 0777);
  (void)Ask();
  EXPECT_EQ(TimesAsked(), 3u);
}

TEST_F(ToolAnswersTest, LinkInPlaceOfTheDirectoryIsNotFollowed) {
  (void)Ask();
  std::filesystem::rename(dir_ / "cache", dir_ / "elsewhere");
  (void)dir_.Link("cache", "elsewhere");
  (void)Ask();
  EXPECT_EQ(TimesAsked(), 2u);
}

TEST_F(ToolAnswersTest, DirectoryThatGuestsMayWriteIsNotUsed) {
  host_.guest_writable = {dir_.path()};
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(Ask().has_value());
  EXPECT_EQ(TimesAsked(), 2u);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "cache"));
}

TEST_F(ToolAnswersTest, UnusableDirectoryIsNoError) {
  (void)dir_.Write("file", "");
  for (std::string cache : {dir_ / "file/cache", std::string(), std::string("relative"), std::string("/proc/none")}) {
    host_.cache_dir = cache;
    EXPECT_TRUE(Ask().has_value()) << cache;
  }
}

TEST_F(ToolAnswersTest, FileStaysBoundedAndPrivate) {
  for (int i = 0; i < 80; ++i) {
    program_ = dir_.Script(fmt::format("tool{}", i), "echo answer");
    (void)Ask();
  }
  EXPECT_EQ(std::ranges::count(dir_.Read("cache/answers.json"), '\n'), 64 + 2);
  struct stat info{};
  ASSERT_EQ(::stat(file().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  (void)Ask();
  EXPECT_EQ(TimesAsked(), 80u) << "the newest are kept";
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir_ / "cache"), {}), 1) << "no temporary file is left";
}

}  // namespace
}  // namespace cella::language
