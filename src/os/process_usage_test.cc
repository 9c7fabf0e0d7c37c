#include "os/process_usage.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

namespace cella::os {
namespace {

// A child that waits at a pipe until the test lets it go.
class Child {
 public:
  template <typename F>
  explicit Child(F prepare) {
    std::array<int, 2> go{}, ready{};
    EXPECT_EQ(pipe(go.data()), 0);
    EXPECT_EQ(pipe(ready.data()), 0);
    pid_ = fork();
    if (pid_ == 0) {
      close(go[1]);
      prepare();
      char byte = 0;
      (void)!write(ready[1], "r", 1);
      (void)!read(go[0], &byte, 1);
      _exit(0);
    }
    close(go[0]);
    close(ready[1]);
    go_ = go[1];
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
  }
  ~Child() {
    close(go_);
    waitpid(pid_, nullptr, 0);
  }
  int pid() const { return pid_; }

 private:
  int pid_ = 0;
  int go_ = -1;
};

TEST(ProcessUsageTest, CountsRootsAndTheirDescendantsOnce) {
  const Child child([] {
    const pid_t parent = getpid();
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() == parent) pause();  // the parent may have ended before the request: no signal would come
      _exit(0);
    }
  });
  const std::array<ProcessRoot, 1> whole = {{{child.pid(), true}}};
  EXPECT_EQ(MeasureTrees(whole).processes, 2u);
  const std::array<ProcessRoot, 1> below = {{{child.pid(), false}}};
  EXPECT_EQ(MeasureTrees(below).processes, 1u);
  const std::array<ProcessRoot, 2> twice = {{{child.pid(), true}, {child.pid(), true}}};
  EXPECT_EQ(MeasureTrees(twice).processes, 2u);
}

TEST(ProcessUsageTest, SumsMemoryAndProcessorTime) {
  constexpr size_t kBytes = size_t{64} << 20;
  const Child child([] {
    void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t at = 0; at < kBytes; at += 4096) static_cast<volatile char*>(memory)[at] = 1;
    const clock_t end = clock() + CLOCKS_PER_SEC / 10;
    while (clock() < end) {
    }
  });
  const std::array<ProcessRoot, 1> root = {{{child.pid(), true}}};
  const ProcessUsage usage = MeasureTrees(root);
  EXPECT_GE(usage.memory, kBytes);
  EXPECT_LT(usage.memory, 4 * kBytes);
  EXPECT_GE(usage.cpu, std::chrono::milliseconds(80));
}

TEST(ProcessUsageTest, ProcessThatIsGoneUsesNothing) {
  int pid = 0;
  {
    const Child child([] {});
    pid = child.pid();
  }
  const std::array<ProcessRoot, 3> roots = {{{pid, true}, {0, true}, {-1, true}}};
  EXPECT_EQ(MeasureTrees(roots).processes, 0u);
}

}  // namespace
}  // namespace cella::os
