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

DisplayEvent Picture(size_t bytes, std::string type = "image/png") {
  return DisplayEvent{{{{std::move(type), std::string(bytes, 'x')}, {"text/plain", "<Picture>"}}, "{}"}, "", false};
}

TEST(ResultFoldTest, ItemsAreInTheOrderOfTheEvents) {
  RunResult result = Fold({OutputEvent{Stream::kStderr, "e"}, OutputEvent{Stream::kStdout, "a\xff"}, Picture(1),
                           OutputEvent{Stream::kStdout, "b"}, ValueEvent{"1", {{{"text/plain", "1"}}, "{}"}},
                           OutputEvent{Stream::kStdout, "c"}},
                          1000);
  json items = json::parse(ToJson(result))["items"];
  EXPECT_EQ(items, json::parse(R"([{"stream":"stdout","text":"a\ufffd"},{"stream":"stderr","text":"e"},{"output":0},
                                   {"stream":"stdout","text":"b"},{"output":1},{"stream":"stdout","text":"c"}])"));
  EXPECT_FALSE(json::parse(ToJson(Fold({OutputEvent{Stream::kStdout, "a"}}, 10))).contains("items"));
}

TEST(ResultFoldTest, OutputsBeyondTheBoundAreNamedAndKept) {
  constexpr size_t kLarge = size_t{20} << 20;
  std::vector<std::pair<size_t, MimeBundle>> kept;
  async::Loop loop;
  OutputShape shape;
  shape.cap = 10;
  shape.keep = [&](size_t index, MimeBundle bundle) -> async::Task<void> {
    kept.emplace_back(index, std::move(bundle));
    co_return;
  };
  RunOutput output("run_1", nullptr, std::move(shape));
  auto main = [&]() -> async::Task<void> {
    for (size_t size : {kLarge, kLarge, size_t{1}}) {
      Event shown = Picture(size);
      (void)co_await output.Emit(std::move(shown));
    }
    // A guest chooses the name of a type, and may make it long.
    Event odd = Picture(kLarge, std::string(1000, 't'));
    (void)co_await output.Emit(std::move(odd));
  };
  loop.Run(main());
  RunResult result = output.Take();
  ASSERT_EQ(result.outputs.size(), 4u);
  EXPECT_EQ(result.outputs_dropped, 2u);
  EXPECT_EQ(result.outputs[0].data[0].second.size(), kLarge);
  EXPECT_TRUE(result.outputs[0].left_out.empty());
  ASSERT_EQ(result.outputs[1].left_out.size(), 1u);
  EXPECT_EQ(result.outputs[1].left_out[0], (std::pair<std::string, uint64_t>("image/png", kLarge)));
  ASSERT_EQ(result.outputs[1].data.size(), 1u);
  EXPECT_EQ(result.outputs[1].data[0].second, "<Picture>");
  EXPECT_TRUE(result.outputs[2].left_out.empty());
  EXPECT_TRUE(result.outputs[3].left_out.empty());
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].first, 1u);
  EXPECT_EQ(kept[0].second.data[0].second.size(), kLarge);
  EXPECT_EQ(kept[1].first, 3u);
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
