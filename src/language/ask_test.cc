#include "language/ask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <thread>

#include "language/test_files.h"

namespace cella::language {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

Question Shell(std::string_view script) {
  return {.argv = {"/bin/sh", "-c", std::string(script)}, .env = {}, .cwd = {}};
}

TEST(AskTest, ReturnsWhatWasPrinted) {
  EXPECT_EQ(Ask(Shell("printf answer; echo noise >&2")).value(), "answer");
  EXPECT_EQ(Ask(Shell("cat")).value(), "");
}

TEST(AskTest, GivesOnlyTheNamedEnvironmentAndDirectory) {
  Question question{.argv = {"/usr/bin/env"}, .env = {"A=1"}, .cwd = "/"};
  EXPECT_EQ(Ask(question).value(), "A=1\n");
  TempDir dir;
  question = Shell("pwd -P");
  question.cwd = dir.path();
  EXPECT_EQ(Ask(question).value(), dir.path() + "\n");
}

TEST(AskTest, FailureTellsTheEndOfItsComplaint) {
  auto answer = Ask(Shell("echo no such version >&2; exit 3"));
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(answer.error().message, HasSubstr("exited with 3: no such version"));
  EXPECT_THAT(Ask(Shell("kill -9 $$")).error().message, HasSubstr("signal 9"));
  EXPECT_EQ(Ask({.argv = {"/nonexistent"}, .env = {}, .cwd = {}}).error().code, ErrorCode::kNotFound);
}

TEST(AskTest, EndlessAnswerIsCutOff) {
  EXPECT_THAT(Ask(Shell("while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done")).error().message,
              HasSubstr("more than"));
}

TEST(AskTest, TimeoutKillsTheWholeGroup) {
  TempDir dir;
  Question question = Shell("sleep 60 & echo $! > '" + (dir / "pid") + "'; wait");
  question.timeout = 2s;
  auto answer = Ask(question);
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kExhausted);
  pid_t child = std::stoi(dir.Read("pid"));
  // Killed, and reaped by whoever adopted it (or still a zombie of an init that does not reap).
  auto gone = [&] {
    std::ifstream stat(fmt::format("/proc/{}/stat", child));
    std::string text((std::istreambuf_iterator<char>(stat)), {});
    return text.empty() || text.contains(") Z ");
  };
  for (int i = 0; i < 1000 && !gone(); ++i) std::this_thread::sleep_for(10ms);
  EXPECT_TRUE(gone());
}

TEST(AskTest, ProcessLeftBehindDoesNotDelayTheAnswer) {
  auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(Ask(Shell("sleep 60 & echo done")).value(), "done\n");
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
}

}  // namespace
}  // namespace cella::language
