// What a guest left in a directory does not run on the host when the next run looks for its Python, and does not
// decide what the next guest sees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "language/python.h"
#include "language/python_answer.h"
#include "language/test_files.h"

namespace cella::language {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kRefused[] = "lies in a directory that guests can write to";

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

TEST_F(PythonGuestTest, EnvironmentInTheWorkdirIsDescribedByItsBase) {
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
  EXPECT_THAT(dir_.Read("asked"), HasSubstr("versions/3.12.1/bin/python3.12"));
}

TEST_F(PythonGuestTest, InterpreterInTheWorkdirIsNotAsked) {
  std::string planted = Trap("work/py/bin/python3");
  EXPECT_THAT(Refusal(planted), HasSubstr(kRefused));
  EXPECT_THAT(Refusal("./py"), HasSubstr(kRefused));
  EXPECT_THAT(Refusal(dir_.Link("link", planted)), HasSubstr(kRefused));
  host().path = dir_ / "work/py/bin";
  EXPECT_THAT(Refusal(), HasSubstr(kRefused));
  auto other = Resolve("python3");
  EXPECT_TRUE(!other || !other->executable.starts_with(dir_ / "work"));
  std::string good = FakePython(dir_, "good", "python3", "3.11.1");
  host().path += ":" + (dir_ / "good/bin");
  EXPECT_EQ(Resolve()->executable, good) << "the next one on PATH is taken";
}

TEST_F(PythonGuestTest, BaseInTheWorkdirIsRefused) {
  (void)Trap("work/evil/bin/python3.12");
  std::filesystem::create_directories(dir_ / "work/evil/lib/python3.12");
  Home(dir_ / "work/evil/bin");
  EXPECT_THAT(Refusal("", venv_), HasSubstr(kRefused));
  (void)dir_.Link("outside", "work/evil/bin");
  Home(dir_ / "outside");
  EXPECT_THAT(Refusal("", venv_), HasSubstr(kRefused));
  // In, and out again: what is a link to the right place now need not be one when it is run.
  (void)dir_.Link("work/out/python3.12", base_);
  Home(dir_ / "work/out");
  EXPECT_THAT(Refusal("", venv_), HasSubstr(kRefused));
  // Even where PATH has it.
  Home(dir_ / "work/evil/bin");
  host().path = dir_ / "work/evil/bin";
  EXPECT_THAT(Refusal("", venv_), HasSubstr(kRefused));
}

TEST_F(PythonGuestTest, LaterRunWithoutAWorkdirDoesNotRunItEither) {
  host().guest_writable.clear();
  (void)Trap("work/evil/bin/python3.12");
  Home(dir_ / "work/evil/bin");
  EXPECT_THAT(Refusal("", venv_), HasSubstr("does not look like a Python installation"));
  std::filesystem::create_directories(dir_ / "work/evil/lib/python3.12");
  auto python = Resolve("", venv_);
  ASSERT_TRUE(python.has_value()) << python.error().message;
  EXPECT_THAT(python->visible, ElementsAre(venv_, dir_ / "work/evil")) << "it runs in the jail, if at all";
}

TEST_F(PythonGuestTest, EnvironmentWithoutItsConfigIsNotTakenForAnInterpreter) {
  host().guest_writable.clear();
  std::filesystem::remove(venv_ + "/pyvenv.cfg");
  EXPECT_EQ(Resolve("", venv_).error().code, ErrorCode::kNotFound);
  std::string good = FakePython(dir_, "good", "python3", "3.11.1");
  host().virtual_env = venv_;
  host().path = venv_ + "/bin:" + (dir_ / "good/bin");
  EXPECT_EQ(Resolve()->executable, good);
  // Nor when it poses as Conda's.
  (void)dir_.Write("work/.venv/conda-meta/python-3.12.1-0.json", "");
  auto python = Resolve("", venv_);
  ASSERT_TRUE(python.has_value()) << python.error().message;
  EXPECT_EQ(python->executable, venv_ + "/bin/python");
  EXPECT_THAT(python->visible, ElementsAre(venv_));
}

TEST_F(PythonGuestTest, LinksOfAnEnvironmentDoNotShowOtherDirectories) {
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

TEST_F(PythonGuestTest, BaseThatIsReadAsDataDoesNotShowOtherDirectories) {
  std::string tool = dir_.Script("home/private/tool", "");
  (void)dir_.Link("elsewhere/bin/python3.12", tool);
  std::filesystem::create_directories(dir_ / "elsewhere/lib/python3.12");
  Home(dir_ / "elsewhere/bin");
  EXPECT_THAT(Refusal("", venv_), HasSubstr("does not belong to the installation"));
}

TEST_F(PythonGuestTest, InstallationThatNobodyVouchesForIsReadAsData) {
  std::string conda = FakePython(dir_, "miniconda", "python3.12", "3.12.1");
  Home(DirOf(conda));
  auto python = Resolve("", venv_);
  ASSERT_TRUE(python.has_value()) << python.error().message;
  EXPECT_EQ(python->base_prefix, dir_ / "miniconda");
  EXPECT_EQ(python->version, "3.12.1");
  EXPECT_THAT(python->visible, ElementsAre(dir_ / "miniconda", venv_));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "asked"));
}

TEST_F(PythonGuestTest, ExchangedEnvironmentIsNotFollowed) {
  (void)FakeVenv(dir_, "home/other/venv", DirOf(base_), "3.12.1");
  std::filesystem::remove_all(venv_);
  (void)dir_.Link("work/.venv", dir_ / "home/other/venv");
  auto python = Resolve("", venv_);
  ASSERT_FALSE(python.has_value());
  EXPECT_THAT(python.error().message, HasSubstr("is a symbolic link in a directory that guests can write to"));
}

TEST_F(PythonGuestTest, NestedLinksAreAllShown) {
  // venv/bin/python -> ~/tools/python3.12 -> the version manager's.
  (void)dir_.Link("home/tools/python3.12", base_);
  std::filesystem::remove(venv_ + "/bin/python");
  (void)dir_.Link("work/.venv/bin/python", dir_ / "home/tools/python3.12");
  auto python = Resolve("", venv_);
  ASSERT_TRUE(python.has_value()) << python.error().message;
  EXPECT_THAT(python->visible, ElementsAre(dir_ / "home/.pyenv/versions/3.12.1", dir_ / "home/tools", venv_));
}

TEST_F(PythonGuestTest, EnvironmentOfAnEnvironmentShowsBoth) {
  std::string outer = FakeVenv(dir_, "work/outer", venv_ + "/bin", "3.12.1");
  auto python = Resolve("", outer);
  ASSERT_TRUE(python.has_value()) << python.error().message;
  EXPECT_EQ(python->prefix, outer);
  EXPECT_EQ(python->base_prefix, dir_ / "home/.pyenv/versions/3.12.1");
  EXPECT_THAT(python->visible, ElementsAre(dir_ / "home/.pyenv/versions/3.12.1", venv_, outer));
}

TEST_F(PythonGuestTest, CacheThatGuestsMayWriteIsNotUsed) {
  host().cache_dir = dir_ / "work/cache";
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(Resolve("", venv_).has_value());
  EXPECT_FALSE(std::filesystem::exists(dir_ / "work/cache"));
  EXPECT_EQ(std::ranges::count(dir_.Read("asked"), '\n'), 2);
}

TEST_F(PythonGuestTest, RememberedAnswerDoesNotOutliveTrust) {
  std::string path = FakePython(dir_, "py", "python3", "3.12.1");
  EXPECT_TRUE(Resolve(path).has_value());
  host().guest_writable.push_back(dir_ / "py");
  EXPECT_THAT(Refusal(path), HasSubstr(kRefused));
}

TEST_F(PythonGuestTest, ListOfInstalledOnesAsksNoGuest) {
  (void)Trap("work/py/bin/python3.13");
  host().path = dir_ / "work/py/bin";
  auto python = Resolve("3.99");
  ASSERT_FALSE(python.has_value());
  EXPECT_THAT(python.error().message, Not(HasSubstr("3.13")));
}

}  // namespace
}  // namespace cella::language
