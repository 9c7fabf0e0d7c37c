#include "registry/event_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "async/task_group.h"
#include "os/test_directory.h"
#include "registry/test_full_disk.h"

namespace cella::registry {
namespace {

using nlohmann::json;
using os::TempDirectory;

std::string Line(uint64_t number, size_t length = 0) {
  return fmt::format(R"({{"n":{},"type":"stdout","text":"{}"}})", number, std::string(length, 'x'));
}

// What a reader got: every number once and in order, or told to be missing.
class Tally {
 public:
  explicit Tally(uint64_t next) : next_(next) {}

  void Take(const std::string& lines) {
    ASSERT_TRUE(lines.empty() || lines.ends_with('\n'));
    for (size_t at = 0; at < lines.size();) {
      size_t end = lines.find('\n', at);
      json event = json::parse(lines.substr(at, end - at));
      at = end + 1;
      if (event["type"] == "truncated") {
        ASSERT_EQ(event["first"], next_);
        ASSERT_EQ(event["last"], event["n"]);
        missing_ += event["dropped"].get<uint64_t>();
        next_ = event["last"].get<uint64_t>() + 1;
        ++markers_;
      } else {
        ASSERT_EQ(event["n"], next_);
        ++next_;
        ++seen_;
      }
    }
  }
  uint64_t next() const { return next_; }
  uint64_t seen() const { return seen_; }
  uint64_t missing() const { return missing_; }
  int markers() const { return markers_; }

 private:
  uint64_t next_;
  uint64_t seen_ = 0;
  uint64_t missing_ = 0;
  int markers_ = 0;
};

Tally Drain(EventLog::Reader reader, uint64_t first, size_t at_most = 65536) {
  Tally tally(first);
  for (;;) {
    auto lines = reader.Read(at_most);
    EXPECT_TRUE(lines) << lines.error().message;
    if (!lines || lines->empty()) return tally;
    tally.Take(*lines);
  }
}

int OpenDescriptors() {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

TEST(EventLogTest, ReadsFromAnyNumberInMemoryAndOnDisk) {
  async::Loop loop;
  TempDirectory temp;
  auto log = EventLog::Create(loop, temp.path("log"));
  constexpr uint64_t kEvents = 4000;
  for (uint64_t i = 0; i < kEvents; ++i) log->Append(Line(i, i % 200));
  for (bool settled : {false, true}) {
    if (settled) {
      log->End();
      log->Settle();
      EXPECT_LT(log->memory_used(), 4000u);
    }
    EXPECT_EQ(Drain(log->ReadAfter(std::nullopt), 0).seen(), kEvents);
    for (uint64_t after : {uint64_t{0}, uint64_t{1}, uint64_t{999}, uint64_t{3333}, kEvents - 3, kEvents - 2}) {
      EXPECT_EQ(Drain(log->ReadAfter(after), after + 1, 1000).seen(), kEvents - after - 1) << after;
    }
    EXPECT_EQ(log->ReadAfter(kEvents - 1).Read().value(), "");
    EXPECT_EQ(log->ReadAfter(UINT64_MAX).Read().value(), "");
  }
}

TEST(EventLogTest, UsesLittleMemoryAndNoDescriptor) {
  async::Loop loop;
  TempDirectory temp;
  int before = OpenDescriptors();
  std::vector<std::shared_ptr<EventLog>> logs;
  for (int i = 0; i < 100; ++i) {
    logs.push_back(EventLog::Create(loop, temp.path(std::to_string(i))));
    EXPECT_LT(logs.back()->memory_used(), 1000u);
  }
  EXPECT_TRUE(std::filesystem::is_empty(temp.path())) << "nothing was said yet";
  size_t most = 0;
  for (const auto& log : logs) {
    for (uint64_t i = 0; i < 1000; ++i) {
      log->Append(Line(i, 300));
      most = std::max(most, log->memory_used());
    }
  }
  EXPECT_LE(most, size_t{66} << 10);
  EXPECT_EQ(OpenDescriptors(), before);
}

TEST(EventLogTest, SmallLogStaysInMemory) {
  async::Loop loop;
  TempDirectory temp;
  auto log = EventLog::Create(loop, temp.path("log"));
  log->Append(Line(0));
  log->Append(Line(1));
  log->End();
  log->Settle();
  EXPECT_TRUE(std::filesystem::is_empty(temp.path()));
  EXPECT_LE(log->memory_used(), size_t{2} << 10);
  EXPECT_EQ(log->ReadAfter(std::nullopt).Read().value(), Line(0) + "\n" + Line(1) + "\n");
  EXPECT_EQ(log->ReadAfter(0).Read().value(), Line(1) + "\n");
}

TEST(EventLogTest, EndTouchesNoFileAndSettleWritesTheRest) {
  async::Loop loop;
  TempDirectory temp;
  auto log = EventLog::Create(loop, temp.path("log"), {.settled = 0});
  log->Append(Line(0));
  log->End();
  EXPECT_TRUE(std::filesystem::is_empty(temp.path()));
  EXPECT_EQ(log->ReadAfter(std::nullopt).Read().value(), Line(0) + "\n");
  log->Settle();
  EXPECT_EQ(std::filesystem::file_size(temp.path("log")), Line(0).size() + 1);
  EventLog::Reader reader = log->ReadAfter(std::nullopt);
  EXPECT_FALSE(reader.at_end());
  EXPECT_EQ(reader.Read().value(), Line(0) + "\n");
  EXPECT_TRUE(reader.at_end());
  log->Append(Line(1));
  EXPECT_EQ(log->next_number(), 1u) << "after the end nothing comes";
}

TEST(EventLogTest, EventLargerThanTheMemoryLimitIsReadCompletely) {
  async::Loop loop;
  TempDirectory temp;
  auto log = EventLog::Create(loop, temp.path("log"));
  log->Append(Line(0));
  log->Append(Line(1, 1 << 20));
  EXPECT_LE(log->memory_used(), size_t{66} << 10);
  log->Append(Line(2));
  EventLog::Reader reader = log->ReadAfter(0);
  EXPECT_EQ(reader.Read(100).value(), Line(1, 1 << 20) + "\n");
  EXPECT_EQ(reader.Read(100).value(), Line(2) + "\n");
}

TEST(EventLogTest, BeyondItsBoundBeginningAndEndAreKept) {
  async::Loop loop;
  TempDirectory temp;
  const EventLogLimits limits{.memory = 4096, .file = 40'000};
  auto log = EventLog::Create(loop, temp.path("log"), limits);
  constexpr uint64_t kEvents = 5000;
  EventLog::Reader slow = log->ReadAfter(std::nullopt);
  Tally live(0);
  for (uint64_t i = 0; i < kEvents; ++i) {
    log->Append(Line(i, 20));
    if (i % 400 == 0) live.Take(slow.Read(500).value());
  }
  log->End();
  Tally before = Drain(log->ReadAfter(std::nullopt), 0);
  log->Settle();
  EXPECT_LE(std::filesystem::file_size(temp.path("log")), limits.file);
  EXPECT_LT(log->memory_used(), 1000u);
  for (const Tally& tally : {before, Drain(log->ReadAfter(std::nullopt), 0)}) {
    EXPECT_EQ(tally.next(), kEvents);
    EXPECT_EQ(tally.markers(), 1);
    EXPECT_EQ(tally.seen() + tally.missing(), kEvents);
    EXPECT_GT(tally.seen(), 500u);
  }
  EXPECT_EQ(Drain(log->ReadAfter(3000), 3001).next(), kEvents) << "from within what is missing";
  EXPECT_EQ(Drain(log->ReadAfter(kEvents - 2), kEvents - 1).seen(), 1u) << "within the end";
  while (!slow.at_end()) live.Take(slow.Read(500).value());
  EXPECT_EQ(live.next(), kEvents);

  // The file tells the same to whoever reads it without us.
  std::ifstream file(temp.path("log"));
  Tally on_disk(0);
  for (std::string line; std::getline(file, line);) on_disk.Take(line + "\n");
  EXPECT_EQ(on_disk.next(), kEvents);
  EXPECT_EQ(on_disk.markers(), 1);
}

TEST(EventLogTest, FullDiskDropsTheMiddle) {
  async::Loop loop;
  TempDirectory temp;
  auto log = EventLog::Create(loop, temp.path("log"));
  constexpr uint64_t kEvents = 10'000;
  {
    FullDisk full(100'000);
    for (uint64_t i = 0; i < kEvents; ++i) log->Append(Line(i, 20));
    EXPECT_LE(log->memory_used(), size_t{66} << 10);
    log->End();
    log->Settle();
    Tally tally = Drain(log->ReadAfter(std::nullopt), 0);
    EXPECT_EQ(tally.next(), kEvents) << "the end is still in memory";
    EXPECT_EQ(tally.markers(), 1);
    EXPECT_GT(tally.seen(), 1000u);
    EXPECT_LE(log->memory_used(), size_t{66} << 10);
  }
  log->Settle();
  EXPECT_LT(log->memory_used(), 4000u) << "there is room again";
  EXPECT_EQ(Drain(log->ReadAfter(std::nullopt), 0).next(), kEvents);
}

TEST(EventLogTest, WithoutADiskTheNewestPartIsKept) {
  async::Loop loop;
  auto log = EventLog::Create(loop, "/nonexistent/log");
  for (uint64_t i = 0; i < 5000; ++i) log->Append(Line(i, 20));
  log->End();
  log->Settle();
  Tally tally = Drain(log->ReadAfter(std::nullopt), 0);
  EXPECT_EQ(tally.next(), 5000u);
  EXPECT_GT(tally.seen(), 100u);
}

TEST(EventLogTest, ReadersWaitIndependently) {
  async::Loop loop;
  TempDirectory temp;
  auto log = EventLog::Create(loop, temp.path("log"), {.memory = 4096});
  constexpr uint64_t kEvents = 3000;
  std::vector<Tally> tallies(5, Tally(0));
  auto follow = [&](size_t which) -> async::Task<void> {
    EventLog::Reader reader = log->ReadAfter(std::nullopt);
    for (;;) {
      bool more = co_await reader.Wait();
      if (!more) break;
      std::string lines = reader.Read(100 + which * 2000).value();
      tallies[which].Take(lines);
      // Some are slow.
      for (size_t turn = 0; turn < which; ++turn) (void)co_await async::SleepUntil(async::Clock::now());
    }
    EXPECT_TRUE(reader.at_end());
  };
  auto produce = [&]() -> async::Task<void> {
    for (uint64_t i = 0; i < kEvents; ++i) {
      log->Append(Line(i, i % 90));
      if (i % 10 == 0) (void)co_await async::SleepUntil(async::Clock::now());
    }
    log->End();
    log->Settle();
  };
  auto main = [&]() -> async::Task<void> {
    async::TaskGroup group(loop);
    for (size_t i = 0; i < tallies.size(); ++i) group.Add(follow(i));
    group.Add(produce());
    co_await group.Join();
  };
  loop.Run(main());
  for (const Tally& tally : tallies) EXPECT_EQ(tally.seen(), kEvents);
}

TEST(EventLogTest, WaitingEndsWhenCancelledOrDiscarded) {
  async::Loop loop;
  TempDirectory temp;
  auto log = EventLog::Create(loop, temp.path("log"));
  for (uint64_t i = 0; i < 1000; ++i) log->Append(Line(i, 100));
  std::vector<bool> results;
  auto wait = [&]() -> async::Task<void> {
    EventLog::Reader reader = log->ReadAfter(999);
    bool more = co_await reader.Wait();
    results.push_back(more);
  };
  auto main = [&]() -> async::Task<void> {
    async::TaskGroup cancelled(loop), discarded(loop);
    cancelled.Add(wait());
    discarded.Add(wait());
    (void)co_await async::SleepUntil(async::Clock::now());
    cancelled.Cancel();
    co_await cancelled.Join();
    EXPECT_EQ(results.size(), 1u);
    log->Discard();
    co_await discarded.Join();
  };
  loop.Run(main());
  EXPECT_EQ(results, (std::vector<bool>{false, false}));
  EXPECT_EQ(log->ReadAfter(std::nullopt).Read().error().code, ErrorCode::kClosed);
  EXPECT_TRUE(std::filesystem::is_empty(temp.path()));
}

TEST(EventLogTest, RandomSizesAndReadersHaveNoUnreportedGap) {
  async::Loop loop;
  TempDirectory temp;
  std::mt19937 random(42);
  auto pick = [&](size_t below) { return static_cast<size_t>(random() % below); };
  for (int round = 0; round < 25; ++round) {
    EventLogLimits limits{.memory = 200 + pick(5000), .file = 1000 + pick(100'000)};
    auto log = EventLog::Create(loop, temp.path(std::to_string(round)), limits);
    struct Follower {
      EventLog::Reader reader;
      Tally tally;
    };
    std::vector<Follower> followers;
    uint64_t events = 1 + pick(1500);
    for (uint64_t i = 0; i < events; ++i) {
      log->Append(Line(i, pick(20) == 0 ? pick(4000) : pick(60)));
      if (pick(200) == 0) {
        uint64_t after = pick(i + 1);
        followers.push_back({log->ReadAfter(after), Tally(after + 1)});
      }
      if (!followers.empty() && pick(5) == 0) {
        Follower& one = followers[pick(followers.size())];
        one.tally.Take(one.reader.Read(1 + pick(3000)).value());
      }
      ASSERT_LE(log->memory_used(), limits.memory + sizeof(EventLog) + 8192 + 64);
    }
    log->End();
    if (pick(2) == 0) log->Settle();
    followers.push_back({log->ReadAfter(std::nullopt), Tally(0)});
    for (Follower& one : followers) {
      while (!one.reader.at_end()) one.tally.Take(one.reader.Read(1 + pick(3000)).value());
      ASSERT_EQ(one.tally.next(), events) << round;
    }
    log->Settle();
    ASSERT_EQ(Drain(log->ReadAfter(std::nullopt), 0).next(), events) << round;
  }
}

}  // namespace
}  // namespace cella::registry
