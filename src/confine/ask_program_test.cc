// Programs asked in a real jail. What hostile ones try is in tests/security/test_planted_programs.py.
#include "confine/ask_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "os/io.h"

namespace cella::confine {
namespace {

using namespace std::chrono_literals;
using language::ToolQuery;
using testing::AllOf;
using testing::HasSubstr;

ToolQuery EmptyJail(std::string script) {
  return {.argv = {"/bin/sh", "-c", std::move(script)}, .env = {"PATH=/usr/bin:/bin"}, .visible = {}, .etc = {}};
}

class AskProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    auto here = os::ProgramDirectory();
    ASSERT_TRUE(here.has_value());
    const std::string launcher = *here + "/cella-launch";
    if (::access(launcher.c_str(), X_OK) != 0) GTEST_SKIP() << launcher << " is not built";
    asker_ = MakeProgramAsker(launcher);
    // A program of the system is also asked where no jail can be built, and then without one.
    auto status = asker_->AskProgram(EmptyJail("cat /proc/self/status"));
    ASSERT_TRUE(status.has_value()) << status.error().message;
    if (!status->contains("\nSeccomp:\t2")) GTEST_SKIP() << "this machine permits no jail; see cella doctor";
    std::string name = std::filesystem::temp_directory_path() / "cella-ask-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    dir_ = name;
    ::chmod(name.c_str(), 0755);
  }
  void TearDown() override {
    std::error_code ignored;
    if (!dir_.empty()) std::filesystem::remove_all(dir_, ignored);
  }

  Result<std::string> Ask(const ToolQuery& query) const { return asker_->AskProgram(query); }
  std::string Value(std::string script) const {
    auto answer = Ask(EmptyJail(std::move(script)));
    return answer ? *answer : "error: " + answer.error().message;
  }
  std::string Message(std::string script) const {
    auto answer = Ask(EmptyJail(std::move(script)));
    return answer ? "answered: " + *answer : answer.error().message;
  }

  std::shared_ptr<const language::ToolAsker> asker_;
  std::string dir_;
};

TEST_F(AskProgramTest, ReturnsStandardOutput) {
  EXPECT_EQ(Value("printf answer; echo noise >&2"), "answer");
  EXPECT_EQ(Value("cat"), "") << "standard input is empty";
}

TEST_F(AskProgramTest, ProgramIsConfined) {
  EXPECT_THAT(Value("cat /proc/self/status"),
              AllOf(HasSubstr("CapEff:\t0000000000000000"), HasSubstr("CapBnd:\t0000000000000000"),
                    HasSubstr("NoNewPrivs:\t1"), HasSubstr("Seccomp:\t2"), HasSubstr("Uid:\t1000\t1000\t1000\t1000")));
  EXPECT_EQ(Value("pwd; grep -c : /proc/net/dev"), "/\n1\n") << "loopback is the only interface";
  ToolQuery query = EmptyJail("env");
  query.argv = {"/usr/bin/env"};
  query.env = {"A=1"};
  EXPECT_EQ(Ask(query).value(), "A=1\n");
}

TEST_F(AskProgramTest, OnlyWhatTheQueryListsIsShownAndNothingCanBeWritten) {
  std::filesystem::create_directories(dir_ + "/shown");
  std::ofstream(dir_ + "/shown/file") << "content";
  std::ofstream(dir_ + "/hidden") << "secret";
  ToolQuery query = EmptyJail("ls " + dir_ + "; cat " + dir_ + "/shown/file; touch " + dir_ +
                              "/shown/mark /usr/mark /mark 2> /dev/null; echo ' end'");
  EXPECT_THAT(Ask(query).value_or(""), " end\n");
  query.visible = {dir_ + "/shown"};
  EXPECT_EQ(Ask(query).value(), "shown\ncontent end\n");
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/shown/mark"));
}

TEST_F(AskProgramTest, FailureHasTheEndOfStandardError) {
  auto answer = Ask(EmptyJail("echo no such version >&2; exit 3"));
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(answer.error().message, HasSubstr("exited with 3: no such version"));
  EXPECT_THAT(Message("kill -9 $$"), HasSubstr("signal 9"));
  EXPECT_EQ(Ask({.argv = {"/nonexistent"}, .env = {}, .visible = {}, .etc = {}}).error().code, ErrorCode::kNotFound);
}

TEST_F(AskProgramTest, FloodIsCutOff) {
  const std::string flood = "while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done";
  EXPECT_THAT(Message(flood), HasSubstr("more than"));
  EXPECT_THAT(Message("(" + flood + ") >&2"), HasSubstr("more than"));
}

TEST_F(AskProgramTest, ProgramThatDoesNotEndIsKilledAtTheDeadline) {
  ToolQuery query = EmptyJail("sleep 60 & wait");
  query.timeout = 500ms;
  auto answer = Ask(query);
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kExhausted);
  EXPECT_THAT(answer.error().message, HasSubstr("did not answer within 500 ms"));
}

TEST_F(AskProgramTest, ProcessLeftBehindDoesNotDelayTheAnswer) { EXPECT_EQ(Value("sleep 60 & echo done"), "done\n"); }

TEST_F(AskProgramTest, NothingIsLeftOfAQuestion) {
  auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = descriptors();
  (void)Message("exit 1");
  (void)Value("echo");
  EXPECT_EQ(descriptors(), before);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "no child is left";
}

}  // namespace
}  // namespace cella::confine
