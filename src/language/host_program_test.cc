#include "language/host_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "language/test_files.h"

namespace cella::language {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uid_t kStranger = 12345;

class HostProgramTest : public ::testing::Test {
 protected:
  HostProgramTest() {
    program_ = dir_.Script("opt/bin/tool", "");
    planted_ = dir_.Script("work/tool", "");
    guests_ = {dir_ / "work"};
  }
  // "ok" or the message of a kUnsupported.
  std::string Check(const std::string& program, std::string_view virtual_env = "") {
    Status status = CheckRunnable(program, guests_, virtual_env);
    if (status) return "ok";
    EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
    return status.error().message;
  }

  TempDir dir_;
  std::string program_;
  std::string planted_;
  std::vector<std::string> guests_;
};

TEST_F(HostProgramTest, OwnAndSystemProgramsRun) {
  EXPECT_EQ(Check(program_), "ok");
  EXPECT_EQ(Check("/bin/sh"), "ok");
  EXPECT_EQ(Check(dir_.Link("link", program_)), "ok");
  EXPECT_EQ(CheckRunnable(dir_ / "nope", guests_, "").error().code, ErrorCode::kNotFound);
}

TEST_F(HostProgramTest, NothingOnTheWayMayLieWhereGuestsWrite) {
  constexpr char kWhy[] = "guests can write to";
  EXPECT_THAT(Check(planted_), HasSubstr(kWhy));
  EXPECT_THAT(Check(dir_.Link("link", planted_)), HasSubstr(kWhy));
  EXPECT_THAT(Check(dir_.Link("work/out", program_)), HasSubstr(kWhy));
  EXPECT_THAT(Check(dir_.Link("over", dir_ / "work/out")), HasSubstr(kWhy)) << "in and out again";
  (void)dir_.Link("work/dir", dir_ / "opt");
  (void)dir_.Link("around", dir_ / "work/dir/bin");
  EXPECT_THAT(Check(dir_ / "around/tool"), HasSubstr(kWhy)) << "by a directory";
  guests_.clear();
  EXPECT_EQ(Check(planted_), "ok");
}

TEST_F(HostProgramTest, FilesOfEnvironmentsDoNotRun) {
  (void)FakeVenv(dir_, "venv", "/usr/bin", "3.11.2");
  EXPECT_THAT(Check(dir_ / "venv/bin/python"), HasSubstr("nothing is run on the host"));
  EXPECT_THAT(Check(dir_.Link("link", dir_ / "venv/bin/python")), HasSubstr("nothing is run on the host"));
  // A guest may have removed what makes it one.
  std::filesystem::remove(dir_ / "venv/pyvenv.cfg");
  EXPECT_THAT(Check(dir_ / "venv/bin/python", dir_ / "venv"), HasSubstr("nothing is run on the host"));
  EXPECT_THAT(Check(dir_ / "link", dir_ / "venv"), HasSubstr("nothing is run on the host"));
  std::string alias = dir_.Link("alias", "venv");
  EXPECT_THAT(Check(dir_ / "venv/bin/python", alias), HasSubstr("nothing is run on the host"));
}

TEST_F(HostProgramTest, WhatEverybodyMayWriteDoesNotRun) {
  ASSERT_EQ(::chmod(program_.c_str(), 0777), 0);
  EXPECT_THAT(Check(program_), HasSubstr("everybody may write"));
  ASSERT_EQ(::chmod(program_.c_str(), 0755), 0);
  ASSERT_EQ(::chmod((dir_ / "opt/bin").c_str(), 0777), 0);
  EXPECT_THAT(Check(program_), HasSubstr("everybody may write"));
  EXPECT_THAT(Check(dir_.Link("link", program_)), HasSubstr("everybody may write"));
  ASSERT_EQ(::chmod((dir_ / "opt/bin").c_str(), 01777), 0);
  EXPECT_EQ(Check(program_), "ok") << "in a sticky directory only the owner can exchange it";
}

TEST_F(HostProgramTest, ProgramsOfOtherUsersDoNotRun) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  std::string link = dir_.Link("link", program_);
  ASSERT_EQ(::lchown(link.c_str(), kStranger, kStranger), 0);
  EXPECT_THAT(Check(link), HasSubstr("another user"));
  ASSERT_EQ(::chown(program_.c_str(), kStranger, kStranger), 0);
  EXPECT_THAT(Check(program_), HasSubstr("another user"));
  ASSERT_EQ(::chown(program_.c_str(), 0, 0), 0);
  ASSERT_EQ(::chown((dir_ / "opt/bin").c_str(), kStranger, kStranger), 0);
  EXPECT_THAT(Check(program_), HasSubstr("another user"));
}

TEST_F(HostProgramTest, EnvironmentIsFoundAsPythonFindsIt) {
  std::string venv = FakeVenv(dir_, "venv", "/usr/bin", "3.11.2");
  EXPECT_EQ(VirtualEnvironmentOf(venv + "/bin/python"), venv);
  EXPECT_EQ(VirtualEnvironmentOf(venv + "/python"), venv);
  EXPECT_EQ(VirtualEnvironmentOf(venv + "/bin/deep/python"), "");
  EXPECT_EQ(VirtualEnvironmentOf("/python"), "");
  EXPECT_THAT(NamesOf("relative"), IsEmpty());
}

}  // namespace
}  // namespace cella::language
