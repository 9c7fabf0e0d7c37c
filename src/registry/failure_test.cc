// What a server finds after things went wrong: another died, the disk is full, the file is not what it should be.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "registry/test_fixture.h"

namespace cella::registry {
namespace {

using async::Task;
using ::testing::HasSubstr;

class RegistryFailureTest : public RegistryFixture {
 protected:
  struct Child {
    pid_t pid;
    UniqueFd acknowledged;  // a byte for every run that was committed
  };

  // A server that writes until it is killed: every run has an event, every other one has ended.
  Child StartServer() {
    int pipe[2];
    EXPECT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
    const pid_t pid = ::fork();
    if (pid == 0) {
      async::Loop loop;
      loop.Run(ServeForever(loop, pipe[1]));
      ::_exit(1);
    }
    ::close(pipe[1]);
    return {pid, UniqueFd(pipe[0])};
  }

  Task<void> ServeForever(async::Loop& loop, int acknowledge) {
    RegistryOptions options;
    options.instance = "killed";
    auto registry = co_await Registry::Open(loop, path_, options);
    (void)co_await (*registry)->SessionOpened(SomeSession("ses_closed"));
    (void)co_await (*registry)->SessionEnded("ses_closed", SessionStatus::kClosed, "done");
    (void)co_await (*registry)->SessionOpened(SomeSession("ses_1"));
    for (int i = 0;; ++i) {
      std::string id = "run_" + std::to_string(i);
      (void)co_await (*registry)->RunStarted(id, Until::kQueued);  // there is none yet: nobody minds
      (void)co_await (*registry)->RunAccepted(SomeRun(id, "ses_1"));
      std::vector<EventRecord> events{{1, R"({"type":"started"})"}, {2, R"({"type":"stdout"})"}};
      (void)co_await (*registry)->AppendEvents(id, std::move(events));
      if (i % 2 == 0) (void)co_await (*registry)->RunEnded(SomeResult(id));
      if (::write(acknowledge, "x", 1) != 1) ::_exit(1);
    }
  }
};

TEST_F(RegistryFailureTest, CommittedRowsSurviveAKillAndOpenOnesAreLost) {
  Child child = StartServer();
  int committed = 0;
  char byte;
  while (committed < 200 && ::read(child.acknowledged.get(), &byte, 1) == 1) ++committed;
  ASSERT_EQ(committed, 200);
  ASSERT_EQ(::kill(child.pid, SIGKILL), 0);
  while (::read(child.acknowledged.get(), &byte, 1) == 1) ++committed;
  int status;
  ASSERT_EQ(::waitpid(child.pid, &status, 0), child.pid);
  ASSERT_TRUE(WIFSIGNALED(status));

  RegistryOptions options;
  options.instance = "next";
  WithRegistry(options, [committed](Registry& registry) -> Task<void> {
    auto lost = co_await registry.MarkLost();
    EXPECT_TRUE(lost.has_value());
    EXPECT_EQ(lost->sessions.size(), 1u);
    EXPECT_EQ(lost->sessions[0].id, "ses_1");
    EXPECT_EQ(lost->sessions[0].instance, "killed");
    EXPECT_EQ(lost->sessions[0].resources, R"({"cgroup":"cella-1"})");
    EXPECT_GE(lost->runs.size(), static_cast<size_t>(committed / 2));
    EXPECT_LE(lost->runs.size(), static_cast<size_t>(committed / 2) + 2);
    for (int i = 0; i < committed; ++i) {
      auto run = co_await registry.FindRun("run_" + std::to_string(i));
      EXPECT_TRUE(run->has_value()) << i;
      EXPECT_EQ((*run)->status, i % 2 == 0 ? "ok" : "lost") << i;
      EXPECT_EQ((*run)->last_event, 2u);
    }
    auto events = co_await registry.ListEvents("run_1");
    EXPECT_EQ(events->size(), 2u);
    auto session = co_await registry.FindSession("ses_1");
    EXPECT_EQ((*session)->status, SessionStatus::kLost);
    EXPECT_THAT((*session)->closed_because, HasSubstr("server"));
    auto closed = co_await registry.FindSession("ses_closed");
    EXPECT_EQ((*closed)->closed_because, "done");
    // Ours are not lost, and the lost ones are so once.
    (void)co_await registry.SessionOpened(SomeSession("ses_2"));
    (void)co_await registry.RunAccepted(SomeRun("run_new", "ses_2"));
    auto again = co_await registry.MarkLost();
    EXPECT_TRUE(again->sessions.empty() && again->runs.empty());
  });
}

TEST_F(RegistryFailureTest, RejectsSecondServer) {
  WithRegistry({}, [this](Registry&) -> Task<void> {
    RegistryOptions options;
    options.instance = "two";
    auto second = co_await Registry::Open(loop_, path_, options);
    EXPECT_FALSE(second.has_value());
    EXPECT_THAT(second.error().message, HasSubstr("held by another process"));
  });
}

TEST_F(RegistryFailureTest, RejectsNewerFile) {
  WithRegistry({}, [](Registry&) -> Task<void> { co_return; });
  {
    auto database = store::Database::Open(path_);
    ASSERT_TRUE(database->Execute("PRAGMA user_version = 99"));
  }
  EXPECT_THAT(OpenFails().value_or(""), HasSubstr("newer version (format 99"));
}

TEST_F(RegistryFailureTest, RejectsDamagedFileAndKeepsIt) {
  std::ofstream(path_) << std::string(10000, 'x');
  EXPECT_THAT(OpenFails().value_or(""), HasSubstr("is damaged"));
  EXPECT_EQ(std::filesystem::file_size(path_), 10000u);
}

TEST_F(RegistryFailureTest, UnwritableDirectoryErrorNamesTheRemedy) {
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0555), 0);
  EXPECT_TRUE(store::InUnprivilegedChild([&] { return OpenFails().value_or("").contains("writable for user id"); }));
}

TEST_F(RegistryFailureTest, MissingDirectoryIsNamed) {
  ASSERT_EQ(::rmdir(directory_.path().c_str()), 0);
  EXPECT_THAT(OpenFails().value_or(""), HasSubstr("does not exist"));
}

constexpr int kCannotMount = 77;

// A small file system of its own, at the test's directory, for this process only.
bool MountSmall(const std::string& path) {
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  if (uid != 0) {
    if (::unshare(CLONE_NEWUSER) != 0) return false;
    // Without a mapping nobody there may own a file.
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << "0 " << uid << " 1";
    std::ofstream("/proc/self/gid_map") << "0 " << gid << " 1";
  }
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  return ::mount("tmpfs", path.c_str(), "tmpfs", 0, "size=4m") == 0;
}

void Fill(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const std::string block(4096, 'f');
  while (::write(fd, block.data(), block.size()) > 0) {
  }
  ::close(fd);
}

// What went wrong; empty: nothing.
Task<std::string> FillAndFree(async::Loop& loop, std::string directory) {
  RegistryOptions options;
  options.instance = "one";
  auto registry = co_await Registry::Open(loop, directory + "/registry.db", options);
  if (!registry) co_return registry.error().message;
  std::string wrong;
  auto expect = [&](bool holds, const char* what) {
    if (!holds) wrong += std::string(what) + "; ";
  };
  (void)co_await (*registry)->SessionOpened(SomeSession("ses_1"));
  auto before = co_await (*registry)->RunAccepted(SomeRun("run_before", "ses_1"));
  expect(before.has_value(), "before");

  const std::string filler = directory + "/filler";
  Fill(filler);
  RunResult large = SomeResult("run_before");
  large.stdout_text = std::string(500000, 'x');
  Status full = co_await (*registry)->RunEnded(large);
  expect(!full, "a full disk took it");
  if (!full) {
    expect(full.error().code == ErrorCode::kExhausted, "code");
    expect(full.error().message.contains("free some space"), full.error().message.c_str());
  }
  expect((*registry)->health().last_error.has_value(), "health");
  auto readable = co_await (*registry)->FindRun("run_before");
  expect(readable.has_value() && readable->has_value() && (*readable)->status == "queued", "still readable");

  ::unlink(filler.c_str());
  Status again = co_await (*registry)->RunEnded(large);
  expect(again.has_value(), again ? "" : again.error().message.c_str());
  expect(!(*registry)->health().last_error.has_value(), "health again");
  readable = co_await (*registry)->FindRun("run_before");
  expect(readable.has_value() && readable->has_value() && (*readable)->status == "ok", "recovered");
  co_await (*registry)->Close();
  co_return wrong;
}

// The owner's files and old runs go before a write fails.
Task<std::string> SweepWhenFull(async::Loop& loop, std::string directory) {
  const std::string filler = directory + "/filler";
  int asked = 0;
  RegistryOptions options;
  options.instance = "one";
  options.retention.max_runs = 1;
  options.retention.interval = std::chrono::seconds(0);
  options.free_disk = [&] {
    ++asked;
    // Only the second time, so that the writer has to ask again.
    if (asked == 2) ::unlink(filler.c_str());
    return asked <= 2;
  };
  auto registry = co_await Registry::Open(loop, directory + "/registry.db", options);
  if (!registry) co_return registry.error().message;
  std::string wrong;
  auto expect = [&](bool holds, const char* what) {
    if (!holds) wrong += std::string(what) + "; ";
  };
  (void)co_await (*registry)->SessionOpened(SomeSession("ses_1"));
  for (const char* id : {"run_old", "run_new"}) {
    auto accepted = co_await (*registry)->RunAccepted(SomeRun(id, "ses_1"));
    expect(accepted.has_value(), id);
  }
  Status ended = co_await (*registry)->RunEnded(SomeResult("run_old"));
  expect(ended.has_value() && asked == 0, "there was room");
  Fill(filler);
  RunResult large = SomeResult("run_new");
  large.stdout_text = std::string(500000, 'x');
  ended = co_await (*registry)->RunEnded(large);
  expect(ended.has_value(), ended ? "" : ended.error().message.c_str());
  expect(asked == 2, "asked until there was room");
  expect(!(*registry)->health().last_error.has_value(), "health");
  auto old = co_await (*registry)->FindRun("run_old");
  expect(old.has_value() && !old->has_value(), "retention was not applied");
  auto kept = co_await (*registry)->FindRun("run_new");
  expect(kept.has_value() && kept->has_value() && (*kept)->result.size() > 500000, "the Result is not whole");
  co_await (*registry)->Close();
  co_return wrong;
}

class FullDiskTest : public RegistryFailureTest {
 protected:
  void RunOnSmallDisk(Task<std::string> (*test)(async::Loop& loop, std::string directory)) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (!MountSmall(directory_.path())) ::_exit(kCannotMount);
      async::Loop loop;
      const std::string wrong = loop.Run(test(loop, directory_.path()));
      if (!wrong.empty()) (void)!::write(STDERR_FILENO, wrong.data(), wrong.size());
      ::_exit(wrong.empty() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == kCannotMount) GTEST_SKIP() << "needs a mount namespace";
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
};

TEST_F(FullDiskTest, IsReportedUntilThereIsSpace) { RunOnSmallDisk(FillAndFree); }

TEST_F(FullDiskTest, IsSweptBeforeAWriteFails) { RunOnSmallDisk(SweepWhenFull); }

}  // namespace
}  // namespace cella::registry
