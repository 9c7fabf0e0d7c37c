#include "language/host_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "language/test_files.h"

namespace cella::language {
namespace {

using ::testing::HasSubstr;

constexpr uid_t kStranger = 12345;

// Below the home directory, since every user may write to /tmp.
class HostProgramTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* home = std::getenv("HOME");
    std::string name = fmt::format("{}/cella-test-XXXXXX", home != nullptr ? home : "/nonexistent");
    if (::mkdtemp(name.data()) == nullptr) GTEST_SKIP() << "HOME is no directory of ours";
    dir_ = std::filesystem::canonical(name);
    std::filesystem::create_directories(dir_ + "/tools/bin");
    program_ = Write("tools/bin/tool");
    places_ = {dir_ + "/tools"};
    if (Check("/bin/sh") != "ok") GTEST_SKIP() << "the directories of the system belong to another user here";
    if (Check(program_) != "ok") GTEST_SKIP() << Check(program_);
  }
  void TearDown() override {
    std::error_code ignored;
    if (!dir_.empty()) std::filesystem::remove_all(dir_, ignored);
  }

  std::string Write(const std::string& name) const {
    std::string path = dir_ + "/" + name;
    std::ofstream(path) << "#!/bin/sh\n";
    ::chmod(path.c_str(), 0755);
    return path;
  }
  std::string Link(const std::string& name, const std::string& target) const {
    std::filesystem::create_symlink(target, dir_ + "/" + name);
    return dir_ + "/" + name;
  }
  // "ok" or the message of a kPermission.
  std::string Check(const std::string& program) {
    Status status = CheckHostProgram(program, places_);
    if (status) return "ok";
    EXPECT_EQ(status.error().code, ErrorCode::kPermission);
    return status.error().message;
  }

  std::string dir_;
  std::string program_;
  std::vector<std::string> places_;
};

TEST_F(HostProgramTest, AcceptsProgramsOfTheSystemAndOfNamedPlaces) {
  EXPECT_TRUE(CheckHostProgram("/bin/sh").has_value());
  EXPECT_EQ(Check(program_), "ok");
  EXPECT_EQ(CheckHostProgram("/usr/bin/no-such-program").error().code, ErrorCode::kNotFound);
}

TEST_F(HostProgramTest, RefusesOtherPlaces) {
  EXPECT_FALSE(CheckHostProgram(program_).has_value());
  EXPECT_THAT(Check(Write("loose")), HasSubstr("outside the system's directories"));
  EXPECT_THAT(Check(Link("link", "/bin/sh")), HasSubstr("outside the system's directories"));
  EXPECT_THAT(Check(Link("tools/bin/out", Write("loose2"))), HasSubstr("outside the system's directories"));
  EXPECT_THAT(Check("/usr/.." + dir_ + "/loose"), HasSubstr("outside the system's"));
}

TEST_F(HostProgramTest, RefusesWhatOthersMayExchange) {
  ASSERT_EQ(::chmod(program_.c_str(), 0777), 0);
  EXPECT_THAT(Check(program_), HasSubstr("others may change"));
  ASSERT_EQ(::chmod(program_.c_str(), 0755), 0);
  for (const char* above : {"/tools/bin", "/tools", ""}) {
    ASSERT_EQ(::chmod((dir_ + above).c_str(), 01777), 0);
    EXPECT_THAT(Check(program_), HasSubstr("others may change")) << above;
    ASSERT_EQ(::chmod((dir_ + above).c_str(), 0755), 0);
  }
}

TEST_F(HostProgramTest, RefusesProgramsOfOtherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_EQ(::chown(program_.c_str(), kStranger, kStranger), 0);
  EXPECT_THAT(Check(program_), HasSubstr("others may change"));
  ASSERT_EQ(::chown(program_.c_str(), 0, 0), 0);
  ASSERT_EQ(::chown((dir_ + "/tools").c_str(), kStranger, kStranger), 0);
  EXPECT_THAT(Check(program_), HasSubstr("others may change"));
}

}  // namespace
}  // namespace cella::language
