// What a guest left in a directory does not decide what the next guest sees. (That it does not run on the host either
// is what tests/security/test_planted_programs.py shows.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "language/python.h"
#include "language/python_answer.h"
#include "language/test_files.h"

namespace cella::language {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PythonGuestTest : public ::testing::Test {
 protected:
  PythonGuestTest() {
    base_ = FakePython(dir_, "home/.pyenv/versions/3.12.1", "python3.12", "3.12.1");
    venv_ = FakeVenv(dir_, "work/.venv", DirOf(base_), "3.12.1");
    host().guest_writable = {dir_ / "work"};
    host().cwd = dir_ / "work";
  }
  ~PythonGuestTest() override { EXPECT_FALSE(std::filesystem::exists(dir_ / "escaped")) << "a guest's file was run"; }

  static std::string DirOf(const std::string& path) { return std::filesystem::path(path).parent_path(); }
  HostEnv& host() { return request_.host; }
  Result<Python> Resolve(std::string python = "", std::string venv = "") {
    request_.python = std::move(python);
    request_.venv = std::move(venv);
    return ResolvePython(request_);
  }
  // "ok" or the message of a kUnsupported.
  std::string Refusal(std::string python = "", std::string venv = "") {
    auto resolved = Resolve(std::move(python), std::move(venv));
    if (resolved) return "ok";
    EXPECT_EQ(resolved.error().code, ErrorCode::kUnsupported);
    return resolved.error().message;
  }
  std::string Trap(std::string_view name) { return dir_.Script(name, fmt::format("touch '{}'", dir_ / "escaped")); }
  void Home(const std::string& home) {
    (void)dir_.Write("work/.venv/pyvenv.cfg", fmt::format("home = {}\nversion = 3.12.1\n", home));
  }

  TempDir dir_;
  PythonRequest request_{.python = {}, .venv = {}, .host = FakeHost(dir_)};
  std::string base_;
  std::string venv_;
};

TEST_F(PythonGuestTest, EnvironmentInTheWorkdirUsesItsBaseInterpreter) {
  struct Way {
    const char* what;
    std::string python, venv, virtual_env, path;
  };
  const Way ways[] = {{"--venv", "", venv_, "", "/usr/bin"},
                      {"--python FILE", venv_ + "/bin/python", "", "", "/usr/bin"},
                      {"--python DIR", "./.venv", "", "", "/usr/bin"},
                      {"VIRTUAL_ENV", "", "", venv_, "/usr/bin"},
                      {"PATH", "", "", "", venv_ + "/bin"}};
  for (const Way& way : ways) {
    SCOPED_TRACE(way.what);
    host().virtual_env = way.virtual_env;
    host().path = way.path;
    auto python = Resolve(way.python, way.venv);
    ASSERT_TRUE(python.has_value()) << python.error().message;
    EXPECT_EQ(python->executable, venv_ + (way.path == "/usr/bin" ? "/bin/python" : "/bin/python3"));
    EXPECT_EQ(python->version, "3.12.1");
    EXPECT_EQ(python->prefix, venv_);
    EXPECT_EQ(python->base_prefix, dir_ / "home/.pyenv/versions/3.12.1");
    EXPECT_EQ(python->virtual_env, venv_);
    EXPECT_THAT(python->visible, ElementsAre(dir_ / "home/.pyenv/versions/3.12.1", venv_));
    EXPECT_THAT(python->path_dirs, ElementsAre(venv_ + "/bin"));
  }
  ASSERT_EQ(Asked(host()).size(), 1u);
  EXPECT_EQ(Asked(host())[0].argv[0], base_);
}

TEST_F(PythonGuestTest, InterpreterInTheWorkdirSeesItsOwnTreeWhenItIsAsked) {
  std::string path = FakePython(dir_, "work/py", "python3", "3.11.1");
  auto python = Resolve(path);
  ASSERT_TRUE(python.has_value()) << python.error().message;
  EXPECT_THAT(python->visible, ElementsAre(dir_ / "work/py"));
  EXPECT_THAT(Asked(host()).back().visible, ElementsAre(dir_ / "work/py"));
}

TEST_F(PythonGuestTest, BaseThatIsNoInstallationIsRefused) {
  std::string evil = FakePython(dir_, "work/evil", "python3.12", "3.12.1");
  std::filesystem::remove_all(dir_ / "work/evil/lib");
  Home(dir_ / "work/evil/bin");
  EXPECT_THAT(Refusal("", venv_), HasSubstr("does not look like a Python installation"));
  std::filesystem::create_directories(dir_ / "work/evil/lib/python3.12");
  auto python = Resolve("", venv_);
  ASSERT_TRUE(python.has_value()) << python.error().message;
  EXPECT_THAT(python->visible, ElementsAre(venv_, dir_ / "work/evil")) << "it runs in the jail, if at all";
  EXPECT_THAT(Asked(host()).back().visible, ElementsAre(dir_ / "work/evil"));
}

TEST_F(PythonGuestTest, EnvironmentWithoutPyvenvCfgIsNotRunOnTheHost) {
  std::filesystem::remove(venv_ + "/pyvenv.cfg");
  EXPECT_EQ(Resolve("", venv_).error().code, ErrorCode::kNotFound);
  std::string good = FakePython(dir_, "good", "python3", "3.11.1");
  host().virtual_env = venv_;
  host().path = dir_ / "good/bin";
  EXPECT_EQ(Resolve()->executable, good);
  // Nor when it poses as Conda's.
  (void)dir_.Write("work/.venv/conda-meta/python-3.12.1-0.json", "");
  auto python = Resolve("", venv_);
  ASSERT_TRUE(python.has_value()) << python.error().message;
  EXPECT_EQ(python->executable, venv_ + "/bin/python");
  EXPECT_THAT(python->visible, ElementsAre(venv_));
}

TEST_F(PythonGuestTest, LinksOfAnEnvironmentDoNotExposeOtherDirectories) {
  std::string tool = dir_.Script("home/private/tool", "");
  for (bool conda : {false, true}) {
    std::filesystem::remove(venv_ + "/bin/python");
    (void)dir_.Link("work/.venv/bin/python", tool);
    if (conda) {
      std::filesystem::remove(venv_ + "/pyvenv.cfg");
      (void)dir_.Write("work/.venv/conda-meta/python-3.12.1-0.json", "");
    }
    EXPECT_THAT(Refusal("", venv_), HasSubstr("does not belong to the installation")) << conda;
  }
}

TEST_F(PythonGuestTest, BaseThatLeadsElsewhereDoesNotShowOtherDirectories) {
  std::string tool = dir_.Script("home/private/tool", "");
  (void)dir_.Link("elsewhere/bin/python3.12", tool);
  std::filesystem::create_directories(dir_ / "elsewhere/lib/python3.12");
  Home(dir_ / "elsewhere/bin");
  EXPECT_THAT(Refusal("", venv_), HasSubstr("did not answer as a Python 3 interpreter"));
}

TEST_F(PythonGuestTest, ReplacedEnvironmentIsNotFollowed) {
  (void)FakeVenv(dir_, "home/other/venv", DirOf(base_), "3.12.1");
  std::filesystem::remove_all(venv_);
  (void)dir_.Link("work/.venv", dir_ / "home/other/venv");
  auto python = Resolve("", venv_);
  ASSERT_FALSE(python.has_value());
  EXPECT_THAT(python.error().message, HasSubstr("is a symbolic link in a directory that guests can write to"));
}

TEST_F(PythonGuestTest, NestedLinksAreAllVisible) {
  // venv/bin/python -> ~/tools/python3.12 -> the version manager's.
  (void)dir_.Link("home/tools/python3.12", base_);
  std::filesystem::remove(venv_ + "/bin/python");
  (void)dir_.Link("work/.venv/bin/python", dir_ / "home/tools/python3.12");
  auto python = Resolve("", venv_);
  ASSERT_TRUE(python.has_value()) << python.error().message;
  EXPECT_THAT(python->visible, ElementsAre(dir_ / "home/.pyenv/versions/3.12.1", dir_ / "home/tools", venv_));
}

TEST_F(PythonGuestTest, EnvironmentOfAnEnvironmentMakesBothVisible) {
  std::string outer = FakeVenv(dir_, "work/outer", venv_ + "/bin", "3.12.1");
  auto python = Resolve("", outer);
  ASSERT_TRUE(python.has_value()) << python.error().message;
  EXPECT_EQ(python->prefix, outer);
  EXPECT_EQ(python->base_prefix, dir_ / "home/.pyenv/versions/3.12.1");
  EXPECT_THAT(python->visible, ElementsAre(dir_ / "home/.pyenv/versions/3.12.1", venv_, outer));
}

}  // namespace
}  // namespace cella::language
