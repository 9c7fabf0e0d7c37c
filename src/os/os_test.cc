#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>

#include "os/directory.h"
#include "os/io.h"
#include "os/process.h"
#include "os/test_directory.h"

namespace cella::os {
namespace {

using testing::HasSubstr;

SpawnOptions Shell(const std::string& script) {
  SpawnOptions options;
  options.program = "/bin/sh";
  options.argv = {"sh", "-c", script};
  options.env = {"PATH=/usr/bin:/bin"};
  return options;
}

TEST(ProcessTest, ReportsExitCodesAndSignals) {
  auto exits = Process::Spawn(Shell("exit 7"));
  ASSERT_TRUE(exits.has_value());
  int status = exits->Wait().value();
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
  auto killed = Process::Spawn(Shell("kill -SEGV $$"));
  status = killed->Wait().value();
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
}

TEST(ProcessTest, MissingProgramIsAnErrorAndNotAnExitCode) {
  SpawnOptions options;
  options.program = "/nonexistent";
  options.argv = {"x"};
  auto process = Process::Spawn(options);
  ASSERT_FALSE(process.has_value());
  EXPECT_EQ(process.error().code, ErrorCode::kNotFound);
}

TEST(ProcessTest, DestructorKillsAndReaps) {
  int probe = -1;
  {
    auto process = Process::Spawn(Shell("exec sleep 1000"));
    ASSERT_TRUE(process.has_value());
    probe = fcntl(process->pidfd(), F_DUPFD_CLOEXEC, 3);
  }
  UniqueFd pidfd(probe);
  EXPECT_EQ(syscall(SYS_pidfd_send_signal, pidfd.get(), 0, nullptr, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST(ProcessTest, OnlyTheNamedDescriptorsAndVariablesReachTheChild) {
  int leaked = open("/dev/null", O_RDONLY);  // on purpose without O_CLOEXEC
  ASSERT_GE(leaked, 3);
  ASSERT_EQ(setenv("CELLA_SECRET", "x", 1), 0);
  Pipe pipe = MakePipe().value();
  SpawnOptions options = Shell("ls /proc/self/fd | wc -l; env | grep -c SECRET; true");
  options.fds = {{pipe.write.get(), 1}, {leaked, 0}, {leaked, 2}};
  auto process = Process::Spawn(options);
  pipe.write.Reset();
  std::string output = ReadFd(pipe.read.get(), 1000).value();
  (void)process->Wait();
  close(leaked);
  unsetenv("CELLA_SECRET");
  EXPECT_EQ(output, "4\n0\n") << "0, 1, 2 and the one that ls opens";
}

TEST(ProcessTest, DescriptorsCanBeSwapped) {
  Pipe one = MakePipe().value(), two = MakePipe().value();
  SpawnOptions options = Shell("echo first >&3; echo second >&4");
  // Targets that are the other's source.
  ASSERT_EQ(dup2(one.write.get(), 40), 40);
  ASSERT_EQ(dup2(two.write.get(), 41), 41);
  options.fds = {{40, 3}, {41, 4}};
  auto process = Process::Spawn(options);
  (void)process->Wait();
  close(40);
  close(41);
  one.write.Reset();
  two.write.Reset();
  EXPECT_EQ(ReadFd(one.read.get(), 100).value(), "first\n");
  EXPECT_EQ(ReadFd(two.read.get(), 100).value(), "second\n");
}

TEST(MessageTest, ReceivedDescriptorsAreCloseOnExec) {
  SocketPair pair = MakeMessageSockets().value();
  UniqueFd memfd = MakeMemfd("test", std::as_bytes(std::span("hello", 5))).value();
  const int fds[] = {memfd.get()};
  ASSERT_TRUE(SendMessage(pair.ours.get(), std::as_bytes(std::span("abc", 3)), fds).has_value());
  std::byte buffer[16];
  Received received = ReceiveMessage(pair.theirs.get(), buffer).value();
  EXPECT_EQ(received.size, 3u);
  ASSERT_EQ(received.fds.size(), 1u);
  EXPECT_NE(fcntl(received.fds[0].get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(ReadFd(received.fds[0].get(), 100).value(), "hello");
  pair.ours.Reset();
  EXPECT_EQ(ReceiveMessage(pair.theirs.get(), buffer).value().size, 0u);
}

TEST(MessageTest, ArrivesAlthoughItsSenderLeftAMessageUnread) {
  SocketPair pair = MakeMessageSockets().value();
  const auto sent = std::as_bytes(std::span("x", 1));
  ASSERT_TRUE(SendMessage(pair.theirs.get(), sent, {}).has_value());
  ASSERT_TRUE(SendMessage(pair.ours.get(), sent, {}).has_value());
  pair.ours.Reset();
  std::array<std::byte, 8> buffer{};
  EXPECT_EQ(ReceiveMessage(pair.theirs.get(), buffer).value().size, 1u);
  EXPECT_EQ(ReceiveMessage(pair.theirs.get(), buffer).value().size, 0u);
}

TEST(DirectoryTest, WritesFilesAndCreatesParents) {
  TempDirectory temp;
  Directory directory = temp.Open();
  ASSERT_TRUE(directory.WriteFile("a/b/c.txt", "hi", Directory::IfExists::kRefuse).has_value());
  EXPECT_EQ(ReadFile(temp.path("a/b/c.txt"), 10).value(), "hi");
  EXPECT_FALSE(directory.WriteFile("a/b/c.txt", "no", Directory::IfExists::kRefuse).has_value());
  DirectoryListing listing = directory.List(100);
  ASSERT_EQ(listing.files.size(), 1u);
  EXPECT_EQ(listing.files[0].path, "a/b/c.txt");
  EXPECT_TRUE(directory.RemoveFile("a/b/c.txt").has_value());
}

TEST(DirectoryTest, DoesNotFollowLinksOrLeaveTheDirectory) {
  TempDirectory temp, outside;
  std::filesystem::create_symlink(outside.path(), temp.path("dir"));
  std::filesystem::create_symlink(outside.path("secret"), temp.path("file"));
  ASSERT_TRUE(outside.Open().WriteFile("secret", "s", Directory::IfExists::kRefuse).has_value());
  Directory directory = temp.Open();
  for (const char* path : {"dir/x", "file", "../x", "/etc/passwd", "dir/../../x"}) {
    auto written = directory.WriteFile(path, "owned", Directory::IfExists::kReplace);
    ASSERT_FALSE(written.has_value()) << path;
    EXPECT_THAT(written.error().message, HasSubstr("not in the workspace")) << path;
    EXPECT_FALSE(directory.OpenFile(path).has_value()) << path;
  }
  EXPECT_EQ(ReadFile(outside.path("secret"), 10).value(), "s");
  EXPECT_TRUE(directory.List(100).files.empty()) << "links are not files";
}

TEST(ReadFileTest, RefusesAFifoAtOnce) {
  TempDirectory temp;
  ASSERT_EQ(mkfifo(temp.path("pipe").c_str(), 0666), 0);
  auto content = ReadFile(temp.path("pipe"), 10);
  ASSERT_FALSE(content.has_value());
  EXPECT_EQ(content.error().code, ErrorCode::kUnsupported);
}

TEST(DirectoryTest, FifoNeitherBlocksNorIsListed) {
  TempDirectory temp;
  ASSERT_EQ(mkfifo(temp.path("pipe").c_str(), 0666), 0);
  Directory directory = temp.Open();
  EXPECT_FALSE(directory.OpenFile("pipe").has_value());
  EXPECT_FALSE(directory.WriteFile("pipe", "x", Directory::IfExists::kReplace).has_value());
  EXPECT_TRUE(directory.List(100).files.empty());
}

TEST(DirectoryTest, ListIsBoundedAndReportsTheBound) {
  TempDirectory temp;
  Directory directory = temp.Open();
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(directory.WriteFile(std::to_string(i), "", Directory::IfExists::kRefuse).has_value());
  }
  EXPECT_FALSE(directory.List(10).complete);
  EXPECT_TRUE(directory.List(100).complete);
}

}  // namespace
}  // namespace cella::os
