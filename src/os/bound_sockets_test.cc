#include "os/bound_sockets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>

#include "base/unique_fd.h"
#include "os/io.h"
#include "os/mount_points.h"
#include "os/test_directory.h"

namespace cella::os {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

UniqueFd Bind(const std::string& path, int type) {
  UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0) << path;
  return fd;
}

TEST(BoundSocketsTest, ListsStreamAndDatagramSocketsWithTheirPaths) {
  TempDirectory directory;
  UniqueFd stream = Bind(directory.path("stream"), SOCK_STREAM);
  ASSERT_EQ(listen(stream.get(), 1), 0);
  UniqueFd datagram = Bind(directory.path("a b"), SOCK_DGRAM);
  UniqueFd later = Bind(directory.path("later"), SOCK_SEQPACKET);
  auto names = BoundSockets();
  ASSERT_TRUE(names) << names.error().message;
  for (const char* name : {"stream", "a b", "later"}) EXPECT_THAT(*names, Contains(directory.path(name)));
}

TEST(BoundSocketsTest, LeavesOutAbstractAndClosedSockets) {
  TempDirectory directory;
  const std::string name = "cella-test-" + directory.path();
  UniqueFd abstract = Bind(std::string("\0", 1) + name, SOCK_STREAM);
  {
    UniqueFd closed = Bind(directory.path("closed"), SOCK_STREAM);
  }
  auto names = BoundSockets();
  ASSERT_TRUE(names) << names.error().message;
  EXPECT_THAT(*names, Not(Contains(directory.path("closed"))));
  EXPECT_THAT(*names, Not(Contains(testing::HasSubstr(name))));
}

TEST(BoundSocketsTest, FindsTheSameInProcNetUnix) {
  TempDirectory directory;
  UniqueFd socket = Bind(directory.path("s"), SOCK_STREAM);
  auto text = ReadFile("/proc/net/unix", 16 << 20);
  ASSERT_TRUE(text);
  EXPECT_THAT(ParseBoundSockets(*text), Contains(directory.path("s")));
}

TEST(BoundSocketsTest, ParsesProcNetUnix) {
  constexpr std::string_view kText =
      "Num       RefCount Protocol Flags    Type St Inode Path\n"
      "0000000000000000: 00000002 00000000 00010000 0001 01 21110 /run/a b.sock\n"
      "0000000000000000: 00000003 00000000 00000000 0001 03  1117\n"
      "0000000000000000: 00000003 00000000 00000000 0001 03 21111 /run/a b.sock\n"
      "0000000000000000: 00000002 00000000 00010000 0005 01 21112 @abstract\n"
      "0000000000000000: 00000002 00000000 00000000 0002 01 21113 private/tlsmgr\n";
  EXPECT_THAT(ParseBoundSockets(kText), ElementsAre("/run/a b.sock", "private/tlsmgr"));
  EXPECT_THAT(ParseBoundSockets(""), IsEmpty());
  EXPECT_THAT(ParseBoundSockets("garbage\n\n  \n"), IsEmpty());
}

TEST(MountPointsTest, ParsesMountinfo) {
  constexpr std::string_view kText =
      "21 1 0:20 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
      "22 21 0:21 / /mnt/with\\040space ro - tmpfs none rw\n"
      "23 21 0:22 / /back\\134slash rw master:1 - proc proc rw\n"
      "bad line\n";
  EXPECT_THAT(ParseMountPoints(kText), ElementsAre("/", "/mnt/with space", "/back\\slash"));
  auto points = MountPoints();
  ASSERT_TRUE(points);
  EXPECT_THAT(*points, Contains("/proc"));
}

}  // namespace
}  // namespace cella::os
