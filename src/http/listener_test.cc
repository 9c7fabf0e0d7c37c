#include "http/listener.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <boost/asio/post.hpp>

#include "http/test_client.h"

namespace cella::http {
namespace {

using testing::HasSubstr;

Result<Listener> OpenAt(const std::string& path) {
  return Listener::Open(Address{.kind = Address::Kind::kUnix, .path = path, .host = "", .port = 0}, {});
}

ino_t InodeOf(const std::string& path) {
  struct stat info = {};
  return lstat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

// A socket file that nobody listens on, as a killed server leaves it.
void LeaveDeadSocket(const std::string& path) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
}

TEST(ListenerTest, UnixSocketIsPrivateWithAnyUmask) {
  TemporaryDirectory directory;
  mode_t old = umask(0);
  auto listener = OpenAt(directory / "s");
  EXPECT_EQ(umask(old), 0u) << "the umask must be left alone";
  ASSERT_TRUE(listener) << listener.error().message;
  struct stat info;
  ASSERT_EQ(lstat((directory / "s").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  EXPECT_NE(fcntl(listener->fd(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(ListenerTest, RemovesItsSocketOnDestruction) {
  TemporaryDirectory directory;
  {
    auto listener = OpenAt(directory / "s");
  }
  EXPECT_EQ(InodeOf(directory / "s"), 0u);
  EXPECT_EQ(InodeOf(directory / "s.lock"), 0u);
}

TEST(ListenerTest, KeepsAFileThatReplacedItsSocket) {
  TemporaryDirectory directory;
  {
    auto listener = OpenAt(directory / "s");
    ASSERT_TRUE(listener);
    ASSERT_EQ(rename((directory / "s").c_str(), (directory / "old").c_str()), 0);
    LeaveDeadSocket(directory / "s");
  }
  EXPECT_NE(InodeOf(directory / "s"), 0u);
}

TEST(ListenerTest, ReplacesASocketWithoutAListener) {
  TemporaryDirectory directory;
  LeaveDeadSocket(directory / "s");
  auto listener = OpenAt(directory / "s");
  ASSERT_TRUE(listener) << listener.error().message;
  TestClient client(listener->address());
}

TEST(ListenerTest, RejectsSecondServerOnASocket) {
  TemporaryDirectory directory;
  auto first = OpenAt(directory / "s");
  ASSERT_TRUE(first);
  ino_t inode = InodeOf(directory / "s");
  auto second = OpenAt(directory / "s");
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("another server has"));
  EXPECT_EQ(InodeOf(directory / "s"), inode);
  EXPECT_NE(InodeOf(directory / "s.lock"), 0u) << "the refused one must not take the lock's file away";
}

TEST(ListenerTest, KeepsASocketWithAnotherListener) {
  TemporaryDirectory directory;
  auto first = OpenAt(directory / "s");
  ASSERT_TRUE(first);
  ASSERT_EQ(unlink((directory / "s.lock").c_str()), 0);  // as if the other one knew no locks
  auto second = OpenAt(directory / "s");
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("another server answers on"));
}

TEST(ListenerTest, KeepsAFileThatIsNotASocket) {
  TemporaryDirectory directory;
  UniqueFd file(open((directory / "s").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  auto listener = OpenAt(directory / "s");
  ASSERT_FALSE(listener);
  EXPECT_THAT(listener.error().message, HasSubstr("is not a socket"));
  EXPECT_NE(InodeOf(directory / "s"), 0u);
}

TEST(ListenerTest, ReturnsTheBoundPort) {
  auto listener = Listener::Open(*ParseAddress("127.0.0.1:0"), {});
  ASSERT_TRUE(listener);
  EXPECT_GT(listener->address().port, 0);
  EXPECT_EQ(listener->address().host, "127.0.0.1");
}

TEST(ListenerTest, ReportsWhyAPortIsUnavailable) {
  auto first = Listener::Open(*ParseAddress("127.0.0.1:0"), {});
  auto second = Listener::Open(first->address(), {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().sys_errno, EADDRINUSE);
}

TEST(ListenerTest, AdoptsAListeningSocket) {
  TemporaryDirectory directory;
  auto listener = OpenAt(directory / "s");
  UniqueFd inherited(dup(listener->fd()));
  auto adopted = Listener::Adopt(std::move(inherited), std::nullopt);
  ASSERT_TRUE(adopted) << adopted.error().message;
  EXPECT_EQ(adopted->address(), listener->address());
  EXPECT_NE(fcntl(adopted->fd(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(fcntl(adopted->fd(), F_GETFL) & O_NONBLOCK, 0);
}

TEST(ListenerTest, RejectsAdoptingASocketThatDoesNotListen) {
  EXPECT_FALSE(Listener::Adopt(UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), std::nullopt));
  EXPECT_FALSE(Listener::Adopt(UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)), std::nullopt));
}

TEST(ListenerTest, IgnoresInheritedSocketsMeantForAnotherProcess) {
  EXPECT_TRUE(InheritedSockets(nullptr, nullptr)->empty());
  EXPECT_TRUE(InheritedSockets("1", "1")->empty());
  EXPECT_TRUE(InheritedSockets("x", "1")->empty());
  EXPECT_FALSE(InheritedSockets(std::to_string(getpid()).c_str(), "10000"));
}

}  // namespace
}  // namespace cella::http
