#include "language/python.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "language/test_files.h"

namespace cella::language {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kSystemPython[] = "/usr/bin/python3";

class PythonTest : public ::testing::Test {
 protected:
  PythonTest() { request_.host = FakeHost(dir_); }

  Result<Python> Resolve(std::string python = "", std::string venv = "") {
    request_.python = std::move(python);
    request_.venv = std::move(venv);
    return ResolvePython(request_);
  }
  // "ok" or the message.
  std::string Message(std::string python = "", std::string venv = "") {
    auto resolved = Resolve(std::move(python), std::move(venv));
    return resolved ? "ok" : resolved.error().message;
  }

  TempDir dir_;
  PythonRequest request_;
};

TEST_F(PythonTest, DefaultIsPython3OnPathResolvedThroughAShim) {
  const std::string prefix = dir_ / "home/.pyenv/versions/3.11.7";
  std::string real = FakePython(dir_, "home/.pyenv/versions/3.11.7", "python3.11", "3.11.7");
  (void)dir_.Script("home/.pyenv/shims/python3", fmt::format("exec '{}' \"$@\"", real));
  request_.host.path = dir_ / "home/.pyenv/shims";
  auto python = Resolve();
  ASSERT_TRUE(python.has_value()) << python.error().message;
  EXPECT_EQ(python->executable, real);
  EXPECT_EQ(python->version, "3.11.7");
  EXPECT_THAT(python->visible, ElementsAre(prefix));
  EXPECT_THAT(python->path_dirs, ElementsAre(prefix + "/bin"));
  EXPECT_EQ(python->virtual_env, "");
}

TEST_F(PythonTest, BrokenPythonOnPathIsSkipped) {
  (void)dir_.Script("a/python3", "exit 1");
  std::string good = FakePython(dir_, "b", "python3", "3.12.1");
  request_.host.path = (dir_ / "a") + ":" + (dir_ / "b/bin");
  EXPECT_EQ(Resolve()->executable, good);
}

TEST_F(PythonTest, ActiveEnvironmentPrecedesPathUnlessItIsMissing) {
  std::string on_path = FakePython(dir_, "plain", "python3", "3.12.1");
  std::string active = FakeVenv(dir_, "venv", dir_ / "plain/bin", "3.12.1") + "/bin/python";
  request_.host.path = dir_ / "plain/bin";
  request_.host.virtual_env = dir_ / "venv";
  auto python = Resolve();
  ASSERT_TRUE(python.has_value());
  EXPECT_EQ(python->executable, active);
  EXPECT_EQ(python->virtual_env, dir_ / "venv");
  EXPECT_THAT(python->visible, ElementsAre(dir_ / "plain", dir_ / "venv"));
  request_.host.virtual_env = dir_ / "deleted";
  EXPECT_EQ(Resolve()->executable, on_path);
}

TEST_F(PythonTest, VersionIsCheckedAgainstTheInterpreterItself) {
  // Named 3.12, and is 3.11.
  (void)FakePython(dir_, "liar", "python3.12", "3.11.9");
  std::string good = FakePython(dir_, "home/.pyenv/versions/3.12.1", "python3.12", "3.12.1");
  request_.host.path = dir_ / "liar/bin";
  EXPECT_EQ(Resolve("3.12")->executable, good);
  EXPECT_EQ(Resolve("python3.12")->executable, good);
  EXPECT_EQ(Resolve("3.12.1")->executable, good);
}

TEST_F(PythonTest, MissingVersionErrorListsInstalledOnes) {
  std::string other = FakePython(dir_, "py", "python3", "3.9.2");
  request_.host.path = dir_ / "py/bin";
  auto python = Resolve("3.99");
  ASSERT_FALSE(python.has_value());
  EXPECT_EQ(python.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(python.error().message,
              AllOf(HasSubstr("Python 3.99 was not found; installed: "), HasSubstr("3.9.2 (" + other + ")"),
                    HasSubstr("install it or pass --python PATH")));
}

TEST_F(PythonTest, AcceptsRelativePathsAndDirectories) {
  std::string path = FakePython(dir_, "py", "python", "3.12.1");
  EXPECT_EQ(Resolve("py/bin/python")->executable, path);
  EXPECT_EQ(Resolve("./py")->executable, path);
  EXPECT_EQ(Resolve(dir_ / "py")->executable, path);
  EXPECT_THAT(Message("./nope/python"), HasSubstr("is not an executable file"));
  EXPECT_THAT(Message(dir_ / "cache/.."), HasSubstr("has no bin/python"));
}

TEST_F(PythonTest, NameIsSearchedOnPath) {
  std::string path = FakePython(dir_, "pp", "pypy3", "3.10.1");
  request_.host.path = dir_ / "pp/bin";
  EXPECT_EQ(Resolve("pypy3")->executable, path);
  EXPECT_THAT(Message("nosuch"), HasSubstr("'nosuch' was not found on PATH"));
}

TEST_F(PythonTest, RejectsVersionOrInterpreterThatContradictsTheEnvironment) {
  (void)FakePython(dir_, "py", "python3.11", "3.11.7");
  (void)FakeVenv(dir_, "venv", dir_ / "py/bin", "3.11.6");
  request_.host.path = dir_ / "py/bin";
  EXPECT_EQ(Message("3.11", dir_ / "venv"), "ok");
  EXPECT_THAT(Message("3.12", dir_ / "venv"), HasSubstr("has Python 3.11.7, not 3.12"));
  EXPECT_EQ(Resolve("/usr/bin/python3", dir_ / "venv").error().code, ErrorCode::kInvalid);
  EXPECT_EQ(Resolve("", dir_ / "nope").error().code, ErrorCode::kNotFound);
}

TEST_F(PythonTest, MissingPythonIsNotFoundWithAHint) {
  auto python = Resolve();
  ASSERT_FALSE(python.has_value());
  EXPECT_EQ(python.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(python.error().message, HasSubstr("--python PATH"));
}

TEST_F(PythonTest, RejectsInvalidPrefix) {
  std::string path = FakePython(dir_, "py", "python3", "3.12.1");
  std::filesystem::remove_all(dir_ / "py/lib");
  EXPECT_THAT(Message(path), HasSubstr("does not look like a Python installation"));
}

TEST_F(PythonTest, RejectsHomeDirectoryAsPrefix) {
  std::string path = FakePython(dir_, "home", "python3", "3.12.1");
  auto python = Resolve(path);
  ASSERT_FALSE(python.has_value());
  EXPECT_EQ(python.error().code, ErrorCode::kUnsupported);
}

TEST_F(PythonTest, LinkedVersionDirectoryIsVisibleByBothNames) {
  // As uv has it: cpython-3.12 -> cpython-3.12.5, and environments refer to the former.
  (void)FakePython(dir_, "uv/cpython-3.12.5", "python3.12", "3.12.5");
  std::string link = dir_.Link("uv/cpython-3.12", "cpython-3.12.5");
  (void)FakeVenv(dir_, "venv", link + "/bin", "3.12.5");
  auto python = Resolve("", dir_ / "venv");
  ASSERT_TRUE(python.has_value()) << python.error().message;
  EXPECT_THAT(python->visible, ElementsAre(link, dir_ / "uv/cpython-3.12.5", dir_ / "venv"));
}

TEST_F(PythonTest, LinkOutsideThePrefixIsReplacedByTheRealInterpreter) {
  std::string real = FakePython(dir_, "uv/cpython-3.12.5", "python3.12", "3.12.5");
  std::string link = dir_.Link("home/.local/bin/python3.12", real);
  auto python = Resolve(link);
  ASSERT_TRUE(python.has_value()) << python.error().message;
  EXPECT_EQ(python->executable, real);
  EXPECT_THAT(python->visible, ElementsAre(dir_ / "uv/cpython-3.12.5"));
}

class RealPythonTest : public PythonTest {
 protected:
  void SetUp() override {
    if (::access(kSystemPython, X_OK) != 0) GTEST_SKIP() << kSystemPython << " is not installed";
  }
  std::string MakeVenv(std::string_view name) {
    std::string path = dir_ / name;
    EXPECT_EQ(std::system(fmt::format("{} -m venv --without-pip '{}'", kSystemPython, path).c_str()), 0);
    return path;
  }
};

TEST_F(RealPythonTest, SystemInterpreterNeedsNoVisibleDirectories) {
  auto python = Resolve(kSystemPython);
  ASSERT_TRUE(python.has_value()) << python.error().message;
  EXPECT_EQ(python->executable, kSystemPython);
  EXPECT_EQ(python->prefix, "/usr");
  EXPECT_THAT(python->visible, IsEmpty());
  EXPECT_THAT(python->path_dirs, IsEmpty());
}

TEST_F(RealPythonTest, EnvironmentBelowAPrivateDirectoryExposesOnlyItself) {
  std::filesystem::create_directories(dir_ / "private");
  ::chmod((dir_ / "private").c_str(), 0700);
  std::string venv = MakeVenv("private/env");
  auto python = Resolve("", venv);
  ASSERT_TRUE(python.has_value()) << python.error().message;
  EXPECT_EQ(python->executable, venv + "/bin/python");
  EXPECT_EQ(python->virtual_env, venv);
  EXPECT_EQ(python->base_prefix, "/usr");
  EXPECT_THAT(python->visible, ElementsAre(venv));
}

TEST_F(RealPythonTest, EnvironmentReachedThroughALinkIsVisibleByBothNames) {
  std::string venv = MakeVenv("env");
  std::string link = dir_.Link("current", "env");
  auto python = Resolve("", link);
  ASSERT_TRUE(python.has_value()) << python.error().message;
  EXPECT_EQ(python->executable, link + "/bin/python");
  EXPECT_THAT(python->visible, ElementsAre(link, venv));
}

}  // namespace
}  // namespace cella::language
