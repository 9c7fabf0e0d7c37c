#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cella/policy.h"
#include "session/json.h"
#include "session/run_output.h"

namespace cella::session {
namespace {

using nlohmann::json;

RunResult Fold(std::vector<Event> events, uint64_t cap) {
  async::Loop loop;
  OutputShape shape;
  shape.cap = cap;
  RunOutput output("run_1", nullptr, std::move(shape));
  auto main = [&]() -> async::Task<void> {
    for (Event& event : events) (void)co_await output.Emit(std::move(event));
    co_await output.Flush();
    Event finished = FinishedEvent{};
    (void)co_await output.Emit(std::move(finished));
  };
  loop.Run(main());
  return output.Take();
}

TEST(ResultFoldTest, KeepsOutputPerStreamAndReplacesInvalidUtf8) {
  RunResult result = Fold(
      {OutputEvent{Stream::kStdout, "a\xff"}, OutputEvent{Stream::kStderr, "e"}, OutputEvent{Stream::kStdout, "b"}},
      1000);
  EXPECT_EQ(result.stdout_text,
            "a\xef\xbf\xbd"
            "b");
  EXPECT_EQ(result.stderr_text, "e");
  EXPECT_EQ(result.stdout_dropped, 0u);
}

TEST(ResultFoldTest, BeyondTheCapKeepsHeadAndTailAndCountsTheRest) {
  RunResult result =
      Fold({OutputEvent{Stream::kStdout, std::string(5000, 'h')}, OutputEvent{Stream::kStdout, "the end"}}, 100);
  EXPECT_EQ(result.stdout_dropped, 5007u - 100u);
  EXPECT_TRUE(result.stdout_text.starts_with("hhhh"));
  EXPECT_TRUE(result.stdout_text.ends_with("the end"));
  EXPECT_NE(result.stdout_text.find("4907 bytes dropped"), std::string::npos);
}

TEST(WordsTest, RoundTripsAndRejectsOtherWords) {
  for (const ExecutorRow& row : kExecutors) {
    EXPECT_EQ(ParseExecutorKind(ToString(row.kind)), row.kind);
  }
  for (Network network : {Network::kNone, Network::kHost}) EXPECT_EQ(ParseNetwork(ToString(network)), network);
  for (MountMode mode : {MountMode::kReadOnly, MountMode::kReadWrite}) {
    EXPECT_EQ(ParseMountMode(ToString(mode)), mode);
  }
  for (const char* other : {"", "Sandbox", "sandbox ", "NONE", "r"}) {
    EXPECT_FALSE(ParseExecutorKind(other) || ParseNetwork(other) || ParseMountMode(other)) << other;
  }
}

TEST(JsonTest, ResultHasEveryDocumentedField) {
  RunResult result;
  result.id = "run_1";
  result.outcome.status = RunStatus::kCrashed;
  result.outcome.exit_code = 139;
  result.outcome.signal = 11;
  result.files.push_back({"a\xff.txt", 3, FileChange::Kind::kCreated, ""});
  json parsed = json::parse(ToJson(result));
  for (const char* key : {"id", "session", "status", "exit_code", "signal", "stdout", "stderr", "value", "outputs",
                          "error", "files", "truncated", "usage", "state", "isolation", "checkpoint"}) {
    EXPECT_TRUE(parsed.contains(key)) << key;
  }
  EXPECT_EQ(parsed["status"], "crashed");
  EXPECT_EQ(parsed["signal"], 11);
  EXPECT_TRUE(parsed["session"].is_null());
  EXPECT_EQ(parsed["state"], "none");
}

TEST(EventEncoderTest, NumbersEventsAndKeepsCharactersWhole) {
  EventEncoder encoder("run_1");
  json started = json::parse(encoder.Encode(StartedEvent{}));
  EXPECT_EQ(started["n"], 0);
  EXPECT_EQ(started["type"], "started");
  json first = json::parse(encoder.Encode(OutputEvent{Stream::kStdout, "x\xe2\x82"}));
  EXPECT_EQ(first["text"], "x");
  json second = json::parse(encoder.Encode(OutputEvent{Stream::kStdout, "\xac"}));
  EXPECT_EQ(second["text"], "\xe2\x82\xac");
  EXPECT_EQ(second["n"], 2);
  EXPECT_EQ(encoder.Encode(OutputEvent{Stream::kStdout, "\xe2"}), "");
  EXPECT_EQ(json::parse(encoder.Flush(Stream::kStdout))["text"], "\xef\xbf\xbd");
  EXPECT_EQ(encoder.Flush(Stream::kStdout), "");
}

}  // namespace
}  // namespace cella::session
