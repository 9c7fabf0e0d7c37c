#include "registry/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "async/deadline.h"
#include "async/task_group.h"
#include "registry/test_fixture.h"

namespace cella::registry {
namespace {

using namespace std::chrono_literals;
using async::Task;
using ::testing::IsEmpty;

using RegistryTest = RegistryFixture;

AuditEntry Did(const std::string& action) {
  AuditEntry entry;
  entry.who = "alice";
  entry.action = action;
  return entry;
}

TEST_F(RegistryTest, SessionIsFoundFromOpeningToEnd) {
  WithRegistry({}, [](Registry& registry) -> Task<void> {
    NewSession session = SomeSession("ses_1");
    session.labels = R"({"team":"x"})";
    Status opened = co_await registry.SessionOpened(session);
    EXPECT_TRUE(opened.has_value());
    auto found = co_await registry.FindSession("ses_1");
    EXPECT_EQ((*found)->labels, session.labels);
    EXPECT_EQ((*found)->resources, session.resources);
    EXPECT_EQ((*found)->status, SessionStatus::kOpen);
    EXPECT_EQ((*found)->instance, "one");
    Status again = co_await registry.SessionOpened(session);
    EXPECT_EQ(again.error().code, ErrorCode::kInvalid);
    Status closed = co_await registry.SessionEnded("ses_1", SessionStatus::kClosed, "idle");
    EXPECT_TRUE(closed.has_value());
    found = co_await registry.FindSession("ses_1");
    EXPECT_EQ((*found)->status, SessionStatus::kClosed);
    EXPECT_EQ((*found)->closed_because, "idle");
    EXPECT_TRUE((*found)->closed_at.has_value());
    Status twice = co_await registry.SessionEnded("ses_1", SessionStatus::kClosed, "again");
    EXPECT_EQ(twice.error().code, ErrorCode::kNotFound);
    auto none = co_await registry.FindSession("ses_2");
    EXPECT_FALSE(none->has_value());
  });
}

TEST_F(RegistryTest, RunIsStoredFromAcceptanceToResult) {
  WithRegistry({}, [](Registry& registry) -> Task<void> {
    (void)co_await registry.SessionOpened(SomeSession("ses_1"));
    auto accepted = co_await registry.RunAccepted(SomeRun("run_1", "ses_1"));
    EXPECT_EQ(accepted->as, Accepted::As::kNew);
    EXPECT_EQ(accepted->number, 1u);
    auto found = co_await registry.FindRun("run_1");
    EXPECT_EQ((*found)->status, "queued");
    Status started = co_await registry.RunStarted("run_1");
    EXPECT_TRUE(started.has_value());
    found = co_await registry.FindRun("run_1");
    EXPECT_EQ((*found)->status, "running");
    Status ended = co_await registry.RunEnded(SomeResult("run_1"));
    EXPECT_TRUE(ended.has_value());
    found = co_await registry.FindRun("run_1");
    EXPECT_EQ((*found)->status, "ok");
    EXPECT_EQ((*found)->exit_code, 0);
    EXPECT_EQ((*found)->state, "kept");
    EXPECT_EQ((*found)->session, "ses_1");
    EXPECT_EQ(nlohmann::json::parse((*found)->usage)["peak_memory"], 4096);
    EXPECT_EQ(nlohmann::json::parse((*found)->result)["stdout"], "hello\n");
    auto second = co_await registry.RunAccepted(SomeRun("run_2", "ses_1"));
    EXPECT_EQ(second->number, 2u);
    auto session = co_await registry.FindSession("ses_1");
    EXPECT_EQ((*session)->runs, 2u);
  });
}

TEST_F(RegistryTest, RunNeedsAnOpenSessionOrNone) {
  WithRegistry({}, [](Registry& registry) -> Task<void> {
    auto unknown = co_await registry.RunAccepted(SomeRun("run_1", "ses_none"));
    EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
    (void)co_await registry.SessionOpened(SomeSession("ses_1"));
    (void)co_await registry.SessionEnded("ses_1", SessionStatus::kClosed, "x");
    auto closed = co_await registry.RunAccepted(SomeRun("run_1", "ses_1"));
    EXPECT_EQ(closed.error().code, ErrorCode::kNotFound);
    auto alone = co_await registry.RunAccepted(SomeRun("run_1", ""));
    EXPECT_EQ(alone->as, Accepted::As::kNew);
    auto found = co_await registry.FindRun("run_1");
    EXPECT_EQ((*found)->session, "");
    Status unheard = co_await registry.RunEnded(SomeResult("run_9"));
    EXPECT_EQ(unheard.error().code, ErrorCode::kNotFound);
    // The caller's mistakes are no illness of the registry.
    EXPECT_FALSE(registry.health().last_error.has_value());
  });
}

TEST_F(RegistryTest, IdempotencyKeyBelongsToOneSessionAndCode) {
  WithRegistry({}, [](Registry& registry) -> Task<void> {
    (void)co_await registry.SessionOpened(SomeSession("ses_1"));
    (void)co_await registry.SessionOpened(SomeSession("ses_2"));
    NewRun run = SomeRun("run_1", "ses_1");
    run.idempotency_key = "k";
    (void)co_await registry.RunAccepted(run);
    run.id = "run_2";
    auto repeated = co_await registry.RunAccepted(run);
    EXPECT_EQ(repeated->as, Accepted::As::kRepeated);
    EXPECT_EQ(repeated->run, "run_1");
    EXPECT_EQ(repeated->number, 1u);
    NewRun other = run;
    other.code_sha256 = std::string(64, 'b');
    auto conflict = co_await registry.RunAccepted(other);
    EXPECT_EQ(conflict->as, Accepted::As::kConflict);
    EXPECT_EQ(conflict->run, "run_1");
    run.session = "ses_2";
    auto elsewhere = co_await registry.RunAccepted(run);
    EXPECT_EQ(elsewhere->as, Accepted::As::kNew);
    auto found = co_await registry.FindByIdempotencyKey("ses_1", "k");
    EXPECT_EQ((*found)->id, "run_1");
    auto runs = co_await registry.ListRuns("ses_1");
    EXPECT_EQ(runs->items.size(), 1u);
    auto none = co_await registry.FindByIdempotencyKey("ses_1", "K");
    EXPECT_FALSE(none->has_value());
  });
}

// All in one batch: only one of them may be new.
TEST_F(RegistryTest, ConcurrentRunsWithOneKeyCreateOneRun) {
  WithRegistry({}, [this](Registry& registry) -> Task<void> {
    (void)co_await registry.SessionOpened(SomeSession("ses_1"));
    int fresh = 0;
    std::set<std::string> named;
    auto call = [&](int i) -> Task<void> {
      NewRun run = SomeRun("run_" + std::to_string(i), "ses_1");
      run.idempotency_key = "k";
      auto accepted = co_await registry.RunAccepted(run);
      fresh += accepted->as == Accepted::As::kNew ? 1 : 0;
      named.insert(accepted->run);
    };
    async::TaskGroup group(loop_);
    for (int i = 0; i < 40; ++i) group.Add(call(i));
    co_await group.Join();
    EXPECT_EQ(fresh, 1);
    EXPECT_EQ(named.size(), 1u);
  });
}

TEST_F(RegistryTest, FailingWriteDoesNotAffectOthersOfItsBatch) {
  WithRegistry({}, [this](Registry& registry) -> Task<void> {
    (void)co_await registry.SessionOpened(SomeSession("ses_1"));
    int good = 0, bad = 0;
    auto call = [&](int i) -> Task<void> {
      // Every third has the id of another, which is found out after its session was counted up.
      auto accepted = co_await registry.RunAccepted(SomeRun("run_" + std::to_string(i % 3 == 2 ? 0 : i), "ses_1"));
      ++(accepted ? good : bad);
    };
    async::TaskGroup group(loop_);
    for (int i = 0; i < 30; ++i) group.Add(call(i));
    co_await group.Join();
    EXPECT_EQ(good, 20);
    EXPECT_EQ(bad, 10);
    auto session = co_await registry.FindSession("ses_1");
    EXPECT_EQ((*session)->runs, 20u);
  });
}

TEST_F(RegistryTest, KeepsOnlyTheLastEventsOfARun) {
  RegistryOptions options;
  options.tail_events = 5;
  options.tail_bytes = 100;
  WithRegistry(options, [](Registry& registry) -> Task<void> {
    (void)co_await registry.SessionOpened(SomeSession("ses_1"));
    (void)co_await registry.RunAccepted(SomeRun("run_1", "ses_1"));
    std::vector<EventRecord> events;
    for (uint64_t i = 1; i <= 20; ++i) events.push_back({i, "e"});
    (void)co_await registry.AppendEvents("run_1", events);
    (void)co_await registry.AppendEvents("run_1", std::vector<EventRecord>{{21, "e"}});
    auto kept = co_await registry.ListEvents("run_1");
    EXPECT_EQ(kept->size(), 5u);
    EXPECT_EQ(kept->front().number, 17u);
    auto later = co_await registry.ListEvents("run_1", 20);
    EXPECT_EQ(later->front().number, 20u);
    // Bytes count as well, and what is too large for all of it is left out.
    (void)co_await registry.AppendEvents("run_1", std::vector<EventRecord>{{22, std::string(98, 'x')}});
    (void)co_await registry.AppendEvents("run_1", std::vector<EventRecord>{{23, std::string(101, 'x')}});
    kept = co_await registry.ListEvents("run_1");
    EXPECT_EQ(kept->size(), 3u);
    EXPECT_EQ(kept->back().number, 22u);
    auto run = co_await registry.FindRun("run_1");
    EXPECT_EQ((*run)->last_event, 23u);
    Status unknown = co_await registry.AppendEvents("run_2", events);
    EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  });
}

TEST_F(RegistryTest, PagesHoldEveryRowOnceWhileRowsAreAdded) {
  WithRegistry({}, [](Registry& registry) -> Task<void> {
    (void)co_await registry.SessionOpened(SomeSession("ses_1"));
    (void)co_await registry.SessionOpened(SomeSession("ses_2"));
    int made = 0;
    auto add = [&](const std::string& session) -> Task<void> {
      (void)co_await registry.RunAccepted(SomeRun("run_" + std::to_string(made++), session));
    };
    for (int i = 0; i < 25; ++i) co_await add("ses_1");
    for (Order order : {Order::kOldestFirst, Order::kNewestFirst}) {
      const int before = made;
      std::vector<uint64_t> seen;
      PageQuery query{.after = "", .limit = 7, .order = order};
      do {
        auto page = co_await registry.ListRuns("ses_1", query);
        EXPECT_TRUE(page.has_value());
        for (const RunRecord& run : page->items) seen.push_back(run.number);
        query.after = page->next;
        if (made < before + 6) {
          co_await add("ses_1");
          co_await add("ses_2");
        }
      } while (!query.after.empty());
      const bool forward = order == Order::kOldestFirst;
      EXPECT_TRUE(forward ? std::ranges::is_sorted(seen) : std::ranges::is_sorted(seen, std::greater<>()));
      EXPECT_EQ(std::set<uint64_t>(seen.begin(), seen.end()).size(), seen.size());
      EXPECT_EQ(seen.size(), 28u);  // forward: with those that were added meanwhile; backward: without
    }
  });
}

TEST_F(RegistryTest, ListsSessionsByOwnerAndRejectsForeignCursors) {
  WithRegistry({}, [](Registry& registry) -> Task<void> {
    for (int i = 0; i < 10; ++i) {
      (void)co_await registry.SessionOpened(SomeSession("ses_" + std::to_string(i), i % 2 == 0 ? "alice" : "bob"));
    }
    auto page = co_await registry.ListSessions("alice", {.limit = 3});
    EXPECT_EQ(page->items.size(), 3u);
    auto rest = co_await registry.ListSessions("alice", {.after = page->next});
    EXPECT_EQ(rest->items.size(), 2u);
    EXPECT_EQ(rest->items.back().id, "ses_8");
    EXPECT_EQ(rest->next, "");
    auto all = co_await registry.ListSessions(std::nullopt);
    EXPECT_EQ(all->items.size(), 10u);
    for (const char* cursor : {"r1", "s", "s-1", "s1 OR 1=1", "sffffffffffffffffffff", "x", "s0"}) {
      auto refused = co_await registry.ListSessions("alice", {.after = cursor});
      EXPECT_FALSE(refused.has_value()) << cursor;
    }
    auto clamped = co_await registry.ListSessions(std::nullopt, {.limit = 0});
    EXPECT_EQ(clamped->items.size(), 1u);
  });
}

TEST_F(RegistryTest, BackwardClockJumpKeepsTheOrder) {
  int hours = 100;
  RegistryOptions options;
  options.now = [&] { return Timestamp(std::chrono::hours(hours--)); };
  WithRegistry(options, [](Registry& registry) -> Task<void> {
    for (const char* id : {"ses_a", "ses_b", "ses_c"}) (void)co_await registry.SessionOpened(SomeSession(id));
    auto page = co_await registry.ListSessions(std::nullopt);
    EXPECT_EQ(page->items[0].id, "ses_a");
    EXPECT_EQ(page->items[2].id, "ses_c");
    EXPECT_GT(page->items[0].created_at, page->items[2].created_at);
  });
}

TEST_F(RegistryTest, CloseCommitsQueuedWrites) {
  WithRegistry({}, [](Registry& registry) -> Task<void> {
    for (int i = 0; i < 500; ++i) {
      (void)co_await registry.Audit(Did("run"), Until::kQueued);
    }
  });
  WithRegistry({}, [](Registry& registry) -> Task<void> {
    auto page = co_await registry.ListAudit("alice", {.limit = 1000});
    EXPECT_EQ(page->items.size(), 500u);
    EXPECT_EQ(page->items[0].action, "run");
    auto none = co_await registry.ListAudit("bob");
    EXPECT_THAT(none->items, IsEmpty());
  });
}

TEST_F(RegistryTest, FullQueueBlocksWriters) {
  RegistryOptions options;
  options.queue = 4;
  WithRegistry(options, [](Registry& registry) -> Task<void> {
    size_t most = 0;
    for (int i = 0; i < 200; ++i) {
      (void)co_await registry.Audit(Did("a"), Until::kQueued);
      most = std::max(most, registry.health().queued);
    }
    EXPECT_LE(most, 4u);
    (void)co_await registry.Audit(Did("last"));
    auto page = co_await registry.ListAudit("alice", {.limit = 1000});
    EXPECT_EQ(page->items.size(), 201u);
  });
}

TEST_F(RegistryTest, NewRunIsCommittedBeforeQueuedWrites) {
  WithRegistry({}, [](Registry& registry) -> Task<void> {
    (void)co_await registry.SessionOpened(SomeSession("ses_1"));
    int overtook = 0;
    constexpr int kRuns = 20;
    for (int i = 0; i < kRuns; ++i) {
      (void)co_await registry.Audit(Did("a"), Until::kQueued);
      auto accepted = co_await registry.RunAccepted(SomeRun("run_" + std::to_string(i), "ses_1"));
      EXPECT_EQ(accepted->number, static_cast<uint64_t>(i) + 1);
      overtook += registry.health().queued > 0 ? 1 : 0;
    }
    // On a busy machine a moment may pass for any one of them, and its company is due.
    EXPECT_GT(overtook, 0);
    // Whoever asks sees both kinds.
    auto audit = co_await registry.ListAudit("alice", {.limit = 100});
    EXPECT_EQ(audit->items.size(), static_cast<size_t>(kRuns));
    EXPECT_EQ(registry.health().queued, 0u);
    auto runs = co_await registry.ListRuns("ses_1", {.limit = 100});
    EXPECT_EQ(runs->items.size(), static_cast<size_t>(kRuns));
  });
}

TEST_F(RegistryTest, AwaitedWriteIsCommittedDespiteContinuousNewRuns) {
  WithRegistry({}, [this](Registry& registry) -> Task<void> {
    (void)co_await registry.SessionOpened(SomeSession("ses_1"));
    (void)co_await registry.RunAccepted(SomeRun("run_0", "ses_1"));
    bool ended = false;
    auto end = [&]() -> Task<void> {
      Status stored = co_await registry.RunEnded(SomeResult("run_0"), Until::kCommittedSoon);
      EXPECT_TRUE(stored.has_value());
      ended = true;
    };
    async::TaskGroup group(loop_);
    group.Add(end());
    // Each of these goes ahead of it.
    int more = 0;
    while (!ended && more < 100000) {
      (void)co_await registry.RunAccepted(SomeRun("run_" + std::to_string(++more), "ses_1"));
    }
    EXPECT_TRUE(ended);
    co_await group.Join();
  });
}

TEST_F(RegistryTest, FailedRunUsesNoNumber) {
  WithRegistry({}, [](Registry& registry) -> Task<void> {
    (void)co_await registry.SessionOpened(SomeSession("ses_1"));
    auto first = co_await registry.RunAccepted(SomeRun("run_1", "ses_1"));
    EXPECT_EQ(first->number, 1u);
    auto twice = co_await registry.RunAccepted(SomeRun("run_1", "ses_1"));
    EXPECT_FALSE(twice.has_value());
    auto second = co_await registry.RunAccepted(SomeRun("run_2", "ses_1"));
    EXPECT_EQ(second->number, 2u) << "its number was given back";
  });
}

TEST_F(RegistryTest, CancelledCloseStillCommitsQueuedWrites) {
  WithRegistry({}, [](Registry& registry) -> Task<void> {
    (void)co_await registry.Audit(Did("a"), Until::kQueued);
    auto task = [&]() -> Task<int> {
      co_await registry.Close();
      co_return 1;
    };
    (void)co_await async::WithDeadline(task(), async::Clock::now());
  });
  WithRegistry({}, [](Registry& registry) -> Task<void> {
    auto page = co_await registry.ListAudit("alice");
    EXPECT_EQ(page->items.size(), 1u);
  });
}

TEST_F(RegistryTest, CancelledWriterGetsItsAnswer) {
  WithRegistry({}, [](Registry& registry) -> Task<void> {
    auto task = [&]() -> Task<int> {
      (void)co_await async::SleepUntil(async::Clock::now() + 1h);
      Status opened = co_await registry.SessionOpened(SomeSession("ses_1"));
      co_return opened ? 1 : 0;
    };
    (void)co_await async::WithDeadline(task(), async::Clock::now() + 1ms);
    auto late = co_await async::WithDeadline(registry.SessionOpened(SomeSession("ses_2")), async::Clock::now());
    (void)late;
    auto page = co_await registry.ListSessions(std::nullopt);
    EXPECT_EQ(page->items.size(), 2u);
  });
}

TEST_F(RegistryTest, SweepRemovesOldAndSurplusRuns) {
  Timestamp now = Timestamp(std::chrono::days(10000));
  RegistryOptions options;
  options.now = [&] { return now; };
  options.retention = {
      .age = std::chrono::days(2), .max_runs = 100, .audit_age = std::chrono::days(2), .max_audit = 50};
  WithRegistry(options, [&](Registry& registry) -> Task<void> {
    auto add = [&](std::string run, std::string session, bool ends) -> Task<void> {
      (void)co_await registry.RunAccepted(SomeRun(run, session));
      (void)co_await registry.AppendEvents(run, std::vector<EventRecord>{{1, "e"}}, Until::kQueued);
      if (ends) (void)co_await registry.RunEnded(SomeResult(run), Until::kQueued);
    };
    for (const char* id : {"ses_old", "ses_open", "ses_new"}) (void)co_await registry.SessionOpened(SomeSession(id));
    for (int i = 0; i < 70; ++i) co_await add("run_old" + std::to_string(i), "ses_old", true);
    co_await add("run_going", "ses_open", false);
    (void)co_await registry.SessionEnded("ses_old", SessionStatus::kClosed, "");
    (void)co_await registry.Audit(Did("old"));
    now += std::chrono::days(3);
    for (int i = 0; i < 150; ++i) co_await add("run_new" + std::to_string(i), "ses_new", true);
    for (int i = 0; i < 60; ++i) (void)co_await registry.Audit(Did("new"));

    auto swept = co_await registry.Sweep();
    EXPECT_EQ(swept->runs, 70u + 51u);
    EXPECT_EQ(swept->sessions, 1u);
    EXPECT_EQ(swept->audit, 11u);
    auto going = co_await registry.FindRun("run_going");  // old, but not over
    EXPECT_TRUE(going->has_value());
    auto oldest = co_await registry.FindRun("run_new50");
    EXPECT_FALSE(oldest->has_value());
    auto next = co_await registry.FindRun("run_new51");
    EXPECT_TRUE(next->has_value());
    auto events = co_await registry.ListEvents("run_old1");
    EXPECT_THAT(*events, IsEmpty());
    auto gone = co_await registry.FindSession("ses_old");
    EXPECT_FALSE(gone->has_value());
    auto again = co_await registry.Sweep();
    EXPECT_EQ(again->runs + again->sessions + again->audit, 0u);
    // Numbers go on where they were.
    auto accepted = co_await registry.RunAccepted(SomeRun("run_next", "ses_new"));
    EXPECT_EQ(accepted->number, 151u);
  });
}

TEST_F(RegistryTest, ClosedSessionsAreBoundedInNumber) {
  RegistryOptions options;
  options.retention.max_sessions = 10;
  WithRegistry(options, [](Registry& registry) -> Task<void> {
    for (int i = 0; i < 40; ++i) {
      const std::string id = "ses_" + std::to_string(i);
      (void)co_await registry.SessionOpened(SomeSession(id));
      if (i != 0) (void)co_await registry.SessionEnded(id, SessionStatus::kClosed, "");
    }
    auto swept = co_await registry.Sweep();
    EXPECT_EQ(swept->sessions, 29u);
    auto open = co_await registry.FindSession("ses_0");
    EXPECT_TRUE(open->has_value());
    auto newest = co_await registry.FindSession("ses_39");
    EXPECT_TRUE(newest->has_value());
  });
}

TEST_F(RegistryTest, FileShrinksToItsBound) {
  RegistryOptions options;
  options.retention.max_bytes = uint64_t{4} << 20;
  WithRegistry(options, [](Registry& registry) -> Task<void> {
    (void)co_await registry.SessionOpened(SomeSession("ses_1"));
    for (int i = 0; i < 64; ++i) {
      std::string id = "run_" + std::to_string(i);
      RunResult result = SomeResult(id);
      result.stdout_text = std::string(256 << 10, 'x');
      (void)co_await registry.RunAccepted(SomeRun(id, "ses_1"));
      (void)co_await registry.RunEnded(std::move(result));
    }
    auto swept = co_await registry.Sweep();
    EXPECT_GT(swept->runs, 32u);
    auto last = co_await registry.FindRun("run_63");
    EXPECT_TRUE(swept->runs == 64 || last->has_value());
  });
  EXPECT_LT(std::filesystem::file_size(path_), uint64_t{6} << 20);
}

TEST_F(RegistryTest, TenThousandRunsAreWrittenAndListed) {
  WithRegistry({}, [this](Registry& registry) -> Task<void> {
    (void)co_await registry.SessionOpened(SomeSession("ses_1"));
    auto caller = [&](int number) -> Task<void> {
      for (int i = 0; i < 500; ++i) {
        std::string id = "run_" + std::to_string(number) + "_" + std::to_string(i);
        auto accepted = co_await registry.RunAccepted(SomeRun(id, "ses_1"));
        EXPECT_TRUE(accepted.has_value());
        (void)co_await registry.RunEnded(SomeResult(id), Until::kQueued);
      }
    };
    async::TaskGroup group(loop_);
    for (int i = 0; i < 20; ++i) group.Add(caller(i));
    co_await group.Join();
    size_t seen = 0;
    PageQuery query{.limit = kMaxPage};
    do {
      auto page = co_await registry.ListRuns("ses_1", query);
      for (const RunRecord& run : page->items) EXPECT_EQ(run.number, ++seen);
      query.after = page->next;
    } while (!query.after.empty());
    EXPECT_EQ(seen, 10000u);
  });
}

}  // namespace
}  // namespace cella::registry
