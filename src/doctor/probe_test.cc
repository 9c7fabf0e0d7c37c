// The probes against the real kernel: whatever the answer is, they end, agree with themselves and change nothing here.
#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "base/unique_fd.h"
#include "doctor/child.h"
#include "doctor/engine_probe.h"
#include "doctor/host_probe.h"
#include "doctor/namespace_probe.h"
#include "os/io.h"

namespace cella::doctor {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

size_t OpenDescriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

std::string Mounts() { return os::ReadFile("/proc/self/mountinfo", 4 << 20).value_or(""); }

TEST(KernelProbeTest, LeavesNothingBehind) {
  std::string mounts = Mounts();
  size_t descriptors = OpenDescriptors();
  KernelAttempts kernel = TryKernel(CurrentBuilder(), "/tmp");
  EXPECT_TRUE(kernel.basis.tried || kernel.timed_out);
  EXPECT_EQ(Mounts(), mounts);
  EXPECT_EQ(OpenDescriptors(), descriptors);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(KernelProbeTest, TriesFurtherMechanismsOnlyIfNamespacesWork) {
  KernelAttempts kernel = TryKernel(CurrentBuilder(), "/tmp");
  EXPECT_EQ(kernel.pid.tried, kernel.basis.ok());
  EXPECT_EQ(kernel.together.tried, kernel.basis.ok());
  EXPECT_EQ(kernel.proc.tried, kernel.together.ok());
}

TEST(ChildTest, HangingChildIsKilledAtTheDeadline) {
  Clock::time_point start = Clock::now();
  EXPECT_FALSE(RunInChild([] { pause(); }, 50ms));
  EXPECT_LT(Clock::now() - start, 5s);
}

TEST(ChildTest, KeepsOutputOfACrashedChild) {
  SharedMemory<int> shared;
  ASSERT_NE(shared.get(), nullptr);
  EXPECT_FALSE(RunInChild(
      [&] {
        *shared.get() = 7;
        _exit(3);
      },
      10s));
  EXPECT_EQ(*shared.get(), 7);
  EXPECT_TRUE(RunInChild([&] { *shared.get() = 8; }, 10s));
  EXPECT_EQ(*shared.get(), 8);
}

TEST(HostProbeTest, ReadsTheRunningKernelsVersion) {
  HostFacts host = ObserveHost({"container=lxc"});
  EXPECT_FALSE(host.kernel_release.empty());
  EXPECT_FALSE(host.machine.empty());
  EXPECT_FALSE(host.container.empty());
}

TEST(HostProbeTest, MatchesWholeNames) {
  std::vector<std::string> environment = {"PATHS=x", "PATH=/bin", "EMPTY="};
  EXPECT_EQ(Lookup(environment, "PATH"), "/bin");
  EXPECT_EQ(Lookup(environment, "EMPTY"), "");
  EXPECT_EQ(Lookup(environment, "PAT"), "");
}

TEST(EngineProbeTest, DistinguishesListenerFromLeftoverSocketFile) {
  char directory[] = "/tmp/cella-doctor-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  std::string path = std::string(directory) + "/docker.sock";
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  const std::vector<std::string> environment = {"DOCKER_HOST=unix://" + path};
  EXPECT_EQ(TryEngines(environment).front().error, 0);
  listener.Reset();
  EXPECT_EQ(TryEngines(environment).front().error, ECONNREFUSED);
  std::filesystem::remove_all(directory);
  EXPECT_EQ(TryEngines(environment).front().error, ENOENT);
  EXPECT_TRUE(TryEngines({"DOCKER_HOST=tcp://10.0.0.1:2375"}).front().remote);
}

}  // namespace
}  // namespace cella::doctor
