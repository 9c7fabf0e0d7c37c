#include "os/peer.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "base/unique_fd.h"
#include "os/io.h"
#include "os/syscalls.h"
#include "os/test_directory.h"

namespace cella::os {
namespace {

// A listening Unix socket, and children that connect to it.
class PeerTest : public testing::Test {
 protected:
  PeerTest() : listening_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    address_.sun_family = AF_UNIX;
    const std::string path = directory_.path("s");
    std::memcpy(address_.sun_path, path.c_str(), path.size() + 1);
    EXPECT_EQ(bind(listening_.get(), reinterpret_cast<sockaddr*>(&address_), sizeof address_), 0);
    EXPECT_EQ(listen(listening_.get(), 1), 0);
  }

  ~PeerTest() override {
    if (child_ > 0) Reap();
  }

  // Starts a process that enters new namespaces, connects, and lives until the test ends. Empty: not permitted here.
  UniqueFd ConnectFrom(int namespaces) {
    auto alive = MakePipe();
    EXPECT_TRUE(alive);
    child_ = fork();
    if (child_ == 0) {
      alive->write.Reset();
      if (namespaces != 0 && unshare(namespaces) < 0) _exit(1);
      // Only the children of a process live in its new pid namespace.
      if ((namespaces & CLONE_NEWPID) != 0 && fork() > 0) {
        int status = 0;
        wait(&status);
        _exit(WEXITSTATUS(status));
      }
      UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address_), sizeof address_) < 0) _exit(1);
      char end = 0;
      (void)!read(alive->read.get(), &end, 1);
      _exit(0);
    }
    alive_ = std::move(alive->write);
    return Accept();
  }

  void Reap() {
    alive_.Reset();
    int status = 0;
    waitpid(child_, &status, 0);
    child_ = -1;
  }

 private:
  UniqueFd Accept() {
    // A child that may not make namespaces ends without having connected.
    UniqueFd pidfd(PidfdOpen(child_));
    pollfd either[2] = {{listening_.get(), POLLIN, 0}, {pidfd.get(), POLLIN, 0}};
    EXPECT_GT(poll(either, 2, 10'000), 0);
    if ((either[0].revents & POLLIN) == 0) return {};
    return UniqueFd(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }

  TempDirectory directory_;
  UniqueFd listening_;
  sockaddr_un address_ = {};
  UniqueFd alive_;
  pid_t child_ = -1;
};

TEST_F(PeerTest, AcceptsProcessOfOwnNamespaces) {
  UniqueFd connected = ConnectFrom(0);
  const PeerProcess peer = DescribePeer(connected.get(), OwnNamespaces::Read());
  EXPECT_EQ(peer.uid, geteuid());
  EXPECT_GT(peer.pid, 0);
  EXPECT_TRUE(peer.shares_namespaces);
}

TEST_F(PeerTest, RejectsProcessOfAnotherUserNamespaceWithTheSameUid) {
  UniqueFd connected = ConnectFrom(CLONE_NEWUSER);
  if (!connected) GTEST_SKIP() << "no user namespaces here: sysctl kernel.unprivileged_userns_clone=1";
  const PeerProcess peer = DescribePeer(connected.get(), OwnNamespaces::Read());
  EXPECT_EQ(peer.uid, geteuid());
  EXPECT_FALSE(peer.shares_namespaces);
}

TEST_F(PeerTest, RejectsProcessOfAnotherPidNamespaceWithTheSameUid) {
  UniqueFd connected = ConnectFrom(geteuid() == 0 ? CLONE_NEWPID : CLONE_NEWPID | CLONE_NEWUSER);
  if (!connected) GTEST_SKIP() << "no pid namespaces here: sysctl kernel.unprivileged_userns_clone=1";
  const PeerProcess peer = DescribePeer(connected.get(), OwnNamespaces::Read());
  EXPECT_EQ(peer.uid, geteuid());
  EXPECT_FALSE(peer.shares_namespaces);
}

TEST_F(PeerTest, RejectsProcessThatHasEnded) {
  UniqueFd connected = ConnectFrom(0);
  Reap();
  EXPECT_FALSE(DescribePeer(connected.get(), OwnNamespaces::Read()).shares_namespaces);
}

TEST_F(PeerTest, RejectsEveryProcessWhenOwnNamespacesAreUnknown) {
  UniqueFd connected = ConnectFrom(0);
  const OwnNamespaces own = OwnNamespaces::Read();
  EXPECT_FALSE(DescribePeer(connected.get(), OwnNamespaces{.user = {}, .pid = own.pid}).shares_namespaces);
  EXPECT_FALSE(DescribePeer(connected.get(), OwnNamespaces{.user = own.user, .pid = {}}).shares_namespaces);
}

TEST(PeerOfOtherSocketTest, RejectsWhatIsNoUnixSocket) {
  UniqueFd tcp(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const PeerProcess peer = DescribePeer(tcp.get(), OwnNamespaces::Read());
  EXPECT_FALSE(peer.shares_namespaces);
}

}  // namespace
}  // namespace cella::os
