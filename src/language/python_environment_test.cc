#include "language/python_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "language/test_files.h"

namespace cella::language {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(VenvConfigTest, ReadsFilesOfVenvVirtualenvAndUv) {
  VenvConfig venv = ParseVenvConfig(
      "home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.11.2\n"
      "executable = /usr/bin/python3.11\ncommand = /usr/bin/python3 -m venv /x = y\n");
  EXPECT_EQ(venv.home, "/usr/bin");
  EXPECT_EQ(venv.version, "3.11.2");
  EXPECT_EQ(venv.executable, "python3.11");
  VenvConfig virtualenv = ParseVenvConfig(
      "home = /opt/pypy/bin\r\nimplementation = PyPy\r\nversion_info = 3.10.13.final.0\r\nvirtualenv = 20.25.0\r\n"
      "base-executable = /opt/pypy/bin/pypy3.10\r\n");
  EXPECT_EQ(virtualenv.home, "/opt/pypy/bin");
  EXPECT_EQ(virtualenv.version, "3.10.13");
  EXPECT_EQ(virtualenv.executable, "pypy3.10");
  VenvConfig uv = ParseVenvConfig("HOME=/home/u/my pythons/bin\nuv = 0.4.0\nversion_info = 3.12.5");
  EXPECT_EQ(uv.home, "/home/u/my pythons/bin");
  EXPECT_EQ(uv.version, "3.12.5");
}

TEST(VenvConfigTest, FirstOfTwoEqualKeysIsUsed) { EXPECT_EQ(ParseVenvConfig("home = /a\nhome = /b\n").home, "/a"); }

TEST(VenvConfigTest, InvalidValuesAreDropped) {
  for (const char* version : {"", "three", "3", "3.", ".3", "1234.5", "3x.1"}) {
    EXPECT_EQ(ParseVenvConfig(fmt::format("version = {}", version)).version, "") << version;
  }
  for (const char* name : {"sh", "python3-config", "python/../sh", "python;x", ".."}) {
    EXPECT_EQ(ParseVenvConfig(fmt::format("executable = /usr/bin/{}", name)).executable, "") << name;
  }
  EXPECT_EQ(ParseVenvConfig("executable = /x/python3.13t").executable, "python3.13t");
  EXPECT_EQ(ParseVenvConfig("no equals\n=\n==\nhome\n").home, "");
}

class VenvBaseTest : public ::testing::Test {
 protected:
  std::string Message(const std::string& venv) {
    auto base = FindVenvBase(venv, host_);
    return base ? "ok" : base.error().message;
  }

  TempDir dir_;
  HostEnv host_ = FakeHost(dir_);
};

TEST_F(VenvBaseTest, VersionSelectsAmongTheInterpretersOfHome) {
  for (const char* name : {"python3", "python3.11", "python3.12"}) (void)dir_.Script(fmt::format("py/{}", name), "");
  EXPECT_EQ(FindVenvBase(FakeVenv(dir_, "a", dir_ / "py", "3.12.1"), host_)->executable, dir_ / "py/python3.12");
  EXPECT_EQ(FindVenvBase(FakeVenv(dir_, "b", dir_ / "py", "3.99.1"), host_)->executable, dir_ / "py/python3");
  EXPECT_EQ(FindVenvBase(FakeVenv(dir_, "c", dir_ / "py/../py/", ""), host_)->executable, dir_ / "py/python3");
}

TEST_F(VenvBaseTest, FollowsEnvironmentOfAnEnvironment) {
  (void)dir_.Script("py/bin/python3", "");
  std::string inner = FakeVenv(dir_, "inner", dir_ / "py/bin", "3.12.1");
  std::string outer = FakeVenv(dir_, "outer", inner + "/bin", "3.12.1");
  auto base = FindVenvBase(outer, host_);
  ASSERT_TRUE(base.has_value()) << base.error().message;
  EXPECT_EQ(base->executable, dir_ / "py/bin/python3");
  EXPECT_THAT(base->between, ElementsAre(inner));
}

TEST_F(VenvBaseTest, RejectsEnvironmentWithoutABase) {
  EXPECT_THAT(Message(FakeVenv(dir_, "loop", dir_ / "loop/bin", "3.12.1")), HasSubstr("rests on itself"));
  EXPECT_THAT(Message(FakeVenv(dir_, "gone", dir_ / "nope", "3.12.1")), HasSubstr("where none is"));
  EXPECT_THAT(Message(FakeVenv(dir_, "relative", "bin", "3.12.1")), HasSubstr("home = "));
  std::string venv = FakeVenv(dir_, "odd", "/usr/bin", "3.12.1");
  std::filesystem::remove(venv + "/pyvenv.cfg");
  ASSERT_EQ(::mkfifo((venv + "/pyvenv.cfg").c_str(), 0600), 0);
  EXPECT_THAT(Message(venv), HasSubstr("not a regular file"));
  std::filesystem::remove(venv + "/pyvenv.cfg");
  (void)dir_.Write("odd/pyvenv.cfg", std::string(1 << 20, 'x'));
  EXPECT_NE(Message(venv), "ok");
}

TEST_F(VenvBaseTest, RejectsEnvironmentBehindAGuestsLink) {
  std::string venv = FakeVenv(dir_, "private/venv", "/usr/bin", "3.11.2");
  std::string link = dir_.Link("work/.venv", venv);
  host_.guest_writable = {dir_ / "work"};
  EXPECT_THAT(Message(link), HasSubstr("guests can write to"));
}

TEST(CondaTest, VersionIsReadFromThePackageRecord) {
  TempDir dir;
  EXPECT_EQ(CondaPythonVersion(dir / "env"), std::nullopt);
  (void)dir.Write("env/conda-meta/history", "");
  (void)dir.Write("env/conda-meta/python-dateutil-2.8.2-pyhd3eb1b0_0.json", "");
  (void)dir.Write("env/conda-meta/python_abi-3.11-2_cp311.json", "");
  EXPECT_EQ(CondaPythonVersion(dir / "env"), std::nullopt);
  EXPECT_FALSE(IsPythonEnvironment(dir / "env"));
  (void)dir.Write("env/conda-meta/python-3.11.7-h955ad1f_0.json", "");
  EXPECT_EQ(CondaPythonVersion(dir / "env"), "3.11.7");
  EXPECT_TRUE(IsPythonEnvironment(dir / "env"));
}

}  // namespace
}  // namespace cella::language
