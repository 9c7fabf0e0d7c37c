#include "language/python_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "language/test_files.h"

namespace cella::language {
namespace {

using ::testing::HasSubstr;

class PythonAnswerTest : public ::testing::Test {
 protected:
  Result<PythonAnswer> Ask(const std::string& path) { return PythonAsker(host_).Ask(path); }
  std::string Message(const std::string& path) {
    auto answer = Ask(path);
    return answer ? "ok" : answer.error().message;
  }
  // PREFIX/bin/python3 that claims this.
  std::string Claiming(std::string_view prefix, std::string_view executable, std::string_view version,
                       std::string_view claimed) {
    return dir_.Script(fmt::format("{}/bin/python3", prefix),
                       fmt::format(R"(printf '%s' '{{"executable":"{0}","version":"{1}","prefix":"{2}",)"
                                   R"("base_prefix":"{2}","exec_prefix":"{2}","base_exec_prefix":"{2}"}}')",
                                   executable, version, claimed));
  }

  TempDir dir_;
  HostEnv host_ = FakeHost(dir_);
};

TEST_F(PythonAnswerTest, InterpreterAnswersForItself) {
  std::string path = FakePython(dir_, "py", "python3", "3.12.1");
  for (int i = 0; i < 2; ++i) {
    auto answer = Ask(path);
    ASSERT_TRUE(answer.has_value()) << answer.error().message;
    EXPECT_EQ(answer->version, "3.12.1");
    EXPECT_EQ(answer->executable, path);
    EXPECT_EQ(answer->prefix, dir_ / "py");
  }
  EXPECT_EQ(Asked(host_).size(), 1u) << "the second answer is remembered";
  EXPECT_THAT(Asked(host_)[0].visible, ::testing::ElementsAre(dir_ / "py"));
}

TEST_F(PythonAnswerTest, ShimIsDescribedByTheInterpreterBehindIt) {
  std::string real = FakePython(dir_, "home/.pyenv/versions/3.12.1", "python3", "3.12.1");
  std::string shim = dir_.Script("home/.pyenv/shims/python3", fmt::format("exec '{}' \"$@\"", real));
  EXPECT_EQ(Ask(shim)->executable, real);
  EXPECT_EQ(Ask(shim)->executable, real);
  EXPECT_EQ(Asked(host_).size(), 2u) << "the shim, and what is behind it";
  (void)FakePython(dir_, "home/.pyenv/versions/3.12.1", "python3", "3.12.2");
  EXPECT_EQ(Ask(shim)->version, "3.12.2");
}

TEST_F(PythonAnswerTest, ShimWithoutAnInterpreterIsCached) {
  std::string shim = dir_.Script("shims/python3.12", "echo no version set >&2; exit 127");
  for (int i = 0; i < 2; ++i) EXPECT_THAT(Message(shim), HasSubstr("no version set"));
  EXPECT_EQ(Asked(host_).size(), 1u);
}

TEST_F(PythonAnswerTest, ClaimsOfWhatTheQuestionDidNotShowAreRefused) {
  (void)FakePython(dir_, "private", "python3", "3.12.1");
  (void)dir_.Link("work/lib", dir_ / "private");
  const std::string self = dir_ / "work/bin/python3";
  for (std::string claimed : {dir_ / "private", dir_ / "work/../private", dir_ / "work/lib", dir_ / "work/nope",
                              std::string("/"), std::string("/root"), std::string("relative"), std::string()}) {
    EXPECT_THAT(Message(Claiming("work", self, "3.12.1", claimed)), HasSubstr("does not belong to its installation"))
        << claimed;
  }
  EXPECT_THAT(Message(Claiming("work", dir_ / "private/bin/python3", "3.12.1", "/usr")),
              HasSubstr("does not belong to its installation"));
  EXPECT_EQ(Message(Claiming("work", self, "3.12.1", "/usr")), "ok");
}

TEST_F(PythonAnswerTest, VersionThatIsNoneIsRefused) {
  for (std::string_view version : {"3.12", "3.12.1/../..", "/etc", "", "3.12.1\\n"}) {
    EXPECT_THAT(Message(Claiming("work", dir_ / "work/bin/python3", version, dir_ / "work")),
                HasSubstr("did not answer as a Python 3 interpreter"))
        << version;
  }
}

TEST_F(PythonAnswerTest, RememberedClaimsAreHeldToTheSame) {
  std::string path = FakePython(dir_, "py", "python3", "3.12.1");
  (void)FakePython(dir_, "private", "python3", "3.12.1");
  (void)Ask(path);
  std::string text = dir_.Read("cache/answers.json");
  const std::string from = dir_ / "py\\\"";
  ASSERT_THAT(text, HasSubstr(from));
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from)) {
    text.replace(at, from.size(), dir_ / "private\\\"");
  }
  (void)dir_.Write("cache/answers.json", text, 0600);
  EXPECT_THAT(Message(path), HasSubstr("does not belong to its installation"));
}

TEST_F(PythonAnswerTest, ShimsThatLeadInACircleAreRefused) {
  (void)dir_.Write("work/env/pyvenv.cfg", fmt::format("home = {}\nversion = 3.12.1\n", dir_ / "work/bin"));
  (void)dir_.Script("work/env/bin/python3", "");
  EXPECT_THAT(Message(Claiming("work", dir_ / "work/env/bin/python3", "3.12.1", dir_ / "work")),
              HasSubstr("does not lead to an interpreter"));
}

TEST_F(PythonAnswerTest, RejectsProgramsThatAreNotPython) {
  EXPECT_EQ(Ask(dir_ / "nope").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Ask(dir_.path()).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Ask(dir_.Write("plain", "", 0644)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Ask(dir_.Script("x/talker", "echo hello")).error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace cella::language
