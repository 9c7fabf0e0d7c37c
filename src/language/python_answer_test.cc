#include "language/python_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>

#include "language/test_files.h"

namespace cella::language {
namespace {

using ::testing::HasSubstr;

class PythonAnswerTest : public ::testing::Test {
 protected:
  // As a new process would: nothing is remembered but the file.
  Result<PythonAnswer> AskAnew(const std::string& path) { return PythonAsker(host_).Ask(path); }
  int TimesAsked() { return static_cast<int>(std::ranges::count(dir_.Read("asked"), '\n')); }
  std::string cache_file() { return dir_ / "cache/pythons.json"; }

  TempDir dir_;
  HostEnv host_ = FakeHost(dir_);
};

TEST_F(PythonAnswerTest, SecondAnswerComesFromTheCache) {
  std::string path = FakePython(dir_, "py", "python3", "3.12.1");
  auto first = AskAnew(path);
  ASSERT_TRUE(first.has_value()) << first.error().message;
  auto second = AskAnew(path);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(TimesAsked(), 1);
  EXPECT_EQ(second->version, "3.12.1");
  EXPECT_EQ(second->executable, path);
  EXPECT_EQ(second->prefix, dir_ / "py");
  EXPECT_EQ(second->mtime, first->mtime);
}

TEST_F(PythonAnswerTest, ChangedFileIsAskedAgain) {
  std::string path = FakePython(dir_, "py", "python3", "3.12.1");
  (void)AskAnew(path);
  (void)FakePython(dir_, "py", "python3", "3.12.10");
  EXPECT_EQ(AskAnew(path)->version, "3.12.10");
}

TEST_F(PythonAnswerTest, ChangedRealInterpreterBehindAShimIsAskedAgain) {
  std::string real = FakePython(dir_, "py", "python3", "3.12.1");
  std::string shim = dir_.Script("shims/python3", fmt::format("exec '{}' \"$@\"", real));
  EXPECT_EQ(AskAnew(shim)->executable, real);
  EXPECT_EQ(AskAnew(shim)->executable, real);
  EXPECT_EQ(TimesAsked(), 1);
  (void)FakePython(dir_, "py", "python3", "3.12.2");
  EXPECT_EQ(AskAnew(shim)->version, "3.12.2");
}

TEST_F(PythonAnswerTest, ShimIsAskedAgainWhenItsChoiceMayHaveChanged) {
  std::string real = FakePython(dir_, "py", "python3", "3.12.1");
  std::string shim = dir_.Script("shims/python3", fmt::format("exec '{}' \"$@\"", real));
  (void)AskAnew(shim);
  host_.variables = {{"PYENV_VERSION", "3.11"}};
  (void)AskAnew(shim);
  EXPECT_EQ(TimesAsked(), 2);
  (void)dir_.Write("work/.python-version", "3.10");
  std::filesystem::create_directories(dir_ / "work/deep/er");
  host_.cwd = dir_ / "work/deep/er";
  (void)AskAnew(shim);
  EXPECT_EQ(TimesAsked(), 3);
  host_.cwd = dir_ / "work/deep";
  (void)AskAnew(shim);
  EXPECT_EQ(TimesAsked(), 3) << "the same file decides there";
  (void)dir_.Write("home/.pyenv/version", "3.9");
  (void)AskAnew(shim);
  EXPECT_EQ(TimesAsked(), 4);
}

TEST_F(PythonAnswerTest, ShimWithNothingToOfferIsRemembered) {
  std::string shim =
      dir_.Script("shims/python3.12", fmt::format("echo x >> '{}'; echo no version set >&2; exit 127", dir_ / "asked"));
  for (int i = 0; i < 2; ++i) {
    auto answer = AskAnew(shim);
    ASSERT_FALSE(answer.has_value());
    EXPECT_THAT(answer.error().message, HasSubstr("no version set"));
  }
  EXPECT_EQ(TimesAsked(), 1);
}

TEST_F(PythonAnswerTest, CorruptCacheIsIgnoredAndReplaced) {
  std::string path = FakePython(dir_, "py", "python3", "3.12.1");
  for (std::string_view text : {"", "{", "[]", "{\"pythons\":3}", "{\"pythons\":[1,{\"key\":2}]}"}) {
    std::filesystem::create_directories(dir_ / "cache");
    ::chmod((dir_ / "cache").c_str(), 0700);
    (void)dir_.Write("cache/pythons.json", text, 0600);
    EXPECT_TRUE(AskAnew(path).has_value()) << text;
    EXPECT_THAT(dir_.Read("cache/pythons.json"), HasSubstr("3.12.1")) << text;
  }
}

TEST_F(PythonAnswerTest, CacheThatOthersMayWriteIsNotBelieved) {
  std::string path = FakePython(dir_, "py", "python3", "3.12.1");
  (void)AskAnew(path);
  ::chmod(cache_file().c_str(), 0666);
  (void)AskAnew(path);
  EXPECT_EQ(TimesAsked(), 2);
}

TEST_F(PythonAnswerTest, UnusableCacheDirectoryIsNoError) {
  std::string path = FakePython(dir_, "py", "python3", "3.12.1");
  (void)dir_.Write("file", "");
  for (std::string cache : {dir_ / "file/cache", std::string(), std::string("relative"), std::string("/proc/none")}) {
    host_.cache_dir = cache;
    EXPECT_TRUE(AskAnew(path).has_value()) << cache;
  }
}

TEST_F(PythonAnswerTest, CacheStaysBoundedAndPrivate) {
  for (int i = 0; i < 80; ++i) (void)AskAnew(FakePython(dir_, fmt::format("py{}", i), "python3", "3.12.1"));
  std::string text = dir_.Read("cache/pythons.json");
  EXPECT_EQ(std::ranges::count(text, '\n'), 64 + 2);
  struct stat info{};
  ASSERT_EQ(::stat(cache_file().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  (void)AskAnew(dir_ / "py79/bin/python3");
  EXPECT_EQ(TimesAsked(), 80) << "the newest are kept";
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir_ / "cache"), {}), 1) << "no temporary file is left";
}

TEST_F(PythonAnswerTest, StrangersAreRefused) {
  EXPECT_EQ(AskAnew(dir_ / "nope").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(AskAnew(dir_.path()).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(AskAnew(dir_.Write("plain", "", 0644)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(AskAnew(dir_.Script("talker", "echo hello")).error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(AskAnew(dir_.Script("old", "echo 'Unknown option: -I' >&2; exit 2")).error().message,
              HasSubstr("is not Python 3.4 or later"));
}

}  // namespace
}  // namespace cella::language
