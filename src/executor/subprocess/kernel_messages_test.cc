#include "executor/subprocess/kernel_messages.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cella::executor {
namespace {

using jupyter::Json;

TEST(KernelMessagesTest, MakesEventsOfStreamsValuesDisplaysAndErrors) {
  auto stream = ToEvent("stream", Json{{"name", "stderr"}, {"text", "oops"}});
  ASSERT_TRUE(stream.has_value());
  EXPECT_EQ(std::get<OutputEvent>(*stream).stream, Stream::kStderr);
  auto value =
      ToEvent("execute_result", Json{{"data", {{"text/plain", "\x1b[33m42\x1b[39m"}}}, {"metadata", {{"a", 1}}}});
  EXPECT_EQ(std::get<ValueEvent>(*value).text, "42");
  EXPECT_EQ(std::get<ValueEvent>(*value).bundle.metadata, R"({"a":1})");
  auto shown = ToEvent("update_display_data",
                       Json{{"data", {{"application/json", {{"k", 1}}}}}, {"transient", {{"display_id", "d"}}}});
  EXPECT_TRUE(std::get<DisplayEvent>(*shown).update);
  EXPECT_EQ(std::get<DisplayEvent>(*shown).display_id, "d");
  EXPECT_EQ(std::get<DisplayEvent>(*shown).bundle.data[0].second, R"({"k":1})");
  auto error = ToEvent("error", Json{{"ename", "E"}, {"evalue", "v"}, {"traceback", {"\x1b[31mred\x1b[0m", "two"}}});
  EXPECT_EQ(std::get<ErrorEvent>(*error).error.traceback, "red\ntwo");
  auto cleared = ToEvent("clear_output", Json{{"wait", false}});
  EXPECT_TRUE(std::get<DisplayEvent>(*cleared).clear);
  EXPECT_FALSE(ToEvent("status", Json{{"execution_state", "idle"}}).has_value());
}

TEST(KernelMessagesTest, ReadsContentsOfWrongTypesAsEmpty) {
  for (const char* type : {"stream", "execute_result", "display_data", "error"}) {
    EXPECT_TRUE(ToEvent(type, Json{{"name", 1}, {"text", {}}, {"data", 3}, {"traceback", "x"}}).has_value());
  }
  EXPECT_EQ(ToAnswer(Json{{"payload", {1, "x", nullptr}}, {"status", 3}}).answer.exit_code, 1);
}

TEST(KernelMessagesTest, LeavesOutWhatIsTooMuchOfADisplayAndSaysSo) {
  Json data = {{"text/plain", "text"}};
  for (int i = 0; i < 50'000; ++i) data[std::to_string(i)] = "";
  const MimeBundle cut = ToBundle(Json{{"data", data}});
  ASSERT_EQ(cut.data.size(), 1U);
  EXPECT_EQ(cut.data[0].second, "text\n[50000 representations were left out: at most 64 are sent]");
  Json metadata = Json::object();
  for (int i = 0; i < 100; ++i) metadata[std::to_string(i)] = std::vector<int>(20);
  const MimeBundle without = ToBundle(Json{{"data", {{"image/png", "x"}}}, {"metadata", metadata}});
  EXPECT_EQ(without.metadata, "{}");
  ASSERT_EQ(without.data.size(), 2U);
  EXPECT_EQ(without.data[0].second, "[metadata of more than 1000 values was left out]");
  EXPECT_EQ(without.data[1].first, "image/png");
}

int ExitCodeOf(const char* value) {
  return ToAnswer(Json{{"status", "error"}, {"ename", "SystemExit"}, {"evalue", value}}).answer.exit_code;
}

TEST(KernelMessagesTest, SystemExitIsAnExitCodeAndNoError) {
  EXPECT_EQ(ExitCodeOf(""), 0);
  EXPECT_EQ(ExitCodeOf("None"), 0);
  EXPECT_EQ(ExitCodeOf("7"), 7);
  EXPECT_EQ(ExitCodeOf("256"), 0);
  EXPECT_EQ(ExitCodeOf("-1"), 255);
  EXPECT_EQ(ExitCodeOf("True"), 1);
  const ReplyAnswer text = ToAnswer(Json{{"status", "error"}, {"ename", "SystemExit"}, {"evalue", "that is all"}});
  EXPECT_EQ(text.answer.exit_code, 1);
  EXPECT_EQ(text.message, "that is all\n");
  EXPECT_FALSE(text.error.has_value());
}

TEST(KernelMessagesTest, TellsInterruptsErrorsAndAbortedRuns) {
  const auto interrupted = ToAnswer(Json{{"status", "error"}, {"ename", "KeyboardInterrupt"}});
  EXPECT_EQ(interrupted.answer.status, run::GuestAnswer::Status::kInterrupted);
  EXPECT_EQ(interrupted.answer.exit_code, kExitInterrupted);
  EXPECT_EQ(ToAnswer(Json{{"status", "error"}, {"ename", "ValueError"}}).error->name, "ValueError");
  EXPECT_EQ(ToAnswer(Json{{"status", "aborted"}}).error->name, "KernelError");
}

TEST(KernelMessagesTest, StripsEscapeSequencesWithoutReadingBeyondTheEnd) {
  EXPECT_EQ(StripAnsi("a\x1b[1;31mb\x1b[0mc"), "abc");
  EXPECT_EQ(StripAnsi("\x1b["), "");
  EXPECT_EQ(StripAnsi("\x1b"), "\x1b");
  EXPECT_EQ(StripAnsi("\x1b[12"), "");
}

}  // namespace
}  // namespace cella::executor
