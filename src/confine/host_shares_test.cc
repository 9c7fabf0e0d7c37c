#include "confine/host_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/unique_fd.h"
#include "os/test_directory.h"

namespace cella::confine {
namespace {

namespace fs = std::filesystem;
using Kind = GuardedPath::Kind;
using testing::HasSubstr;

class HostSharesTest : public testing::Test {
 protected:
  HostSharesTest() {
    for (const char* name : {"project/sub", "own/sub", "elsewhere"}) fs::create_directories(directory_.path(name));
  }

  std::string At(const std::string& name) const { return directory_.path(name); }

  UniqueFd Bind(const std::string& name) const {
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0) << name;
    EXPECT_EQ(listen(fd.get(), 1), 0);
    return fd;
  }

  // Empty: allowed.
  static std::string Refusal(const std::vector<HostShare>& shares, const std::vector<GuardedPath>& guarded = {}) {
    auto checked = CheckShares(shares, guarded);
    if (checked) return "";
    EXPECT_EQ(checked.error().code, ErrorCode::kPermission) << checked.error().message;
    return checked.error().message;
  }
  std::string ReadOnly(const std::string& name, const std::vector<GuardedPath>& guarded = {}) const {
    return Refusal({{"mount", At(name), false}}, guarded);
  }
  std::string Writable(const std::string& name, const std::vector<GuardedPath>& guarded = {}) const {
    return Refusal({{"workdir", At(name), true}}, guarded);
  }

  os::TempDirectory directory_;
};

TEST_F(HostSharesTest, AllowsDirectoryWithoutSocketsAndGuardedPaths) {
  const std::vector<GuardedPath> guarded = {{Kind::kPrivate, "the state", At("own")},
                                            {Kind::kProgram, "programs", At("own/program")},
                                            {Kind::kShared, "the temporary directory", "/tmp"},
                                            {Kind::kService, "a bus", At("missing/bus")}};
  EXPECT_EQ(Writable("project", guarded), "");
  EXPECT_EQ(ReadOnly("elsewhere", guarded), "");
}

TEST_F(HostSharesTest, RejectsShareThatHoldsBoundSocket) {
  UniqueFd bound = Bind(At("project/sub/app.sock"));
  for (const std::string& message : {ReadOnly("project"), Writable("project/sub"), ReadOnly("project/sub")}) {
    EXPECT_THAT(message, HasSubstr(At("project/sub/app.sock")));
    EXPECT_THAT(message, HasSubstr("name a directory without it"));
  }
  EXPECT_EQ(ReadOnly("elsewhere"), "");
  EXPECT_EQ(ReadOnly("own"), "");
}

TEST_F(HostSharesTest, AllowsSocketFileThatNoProgramHasBoundAnyMore) {
  {
    UniqueFd closed = Bind(At("project/stale"));
  }
  ASSERT_TRUE(fs::exists(At("project/stale")));
  EXPECT_EQ(ReadOnly("project"), "");
}

TEST_F(HostSharesTest, FindsSocketThatWasLinkedIntoPlace) {
  // As ssh does it with the socket of a shared connection.
  UniqueFd bound = Bind(At("project/sub/control.tmp"));
  fs::create_hard_link(At("project/sub/control.tmp"), At("project/sub/control"));
  fs::remove(At("project/sub/control.tmp"));
  EXPECT_THAT(ReadOnly("project"), HasSubstr(At("project/sub/control")));
  EXPECT_EQ(ReadOnly("elsewhere"), "");
}

TEST_F(HostSharesTest, AllowsSocketThatIsItselfAShare) {
  UniqueFd bound = Bind(At("project/app.sock"));
  const HostShare socket{"mount", At("project/app.sock"), false};
  EXPECT_EQ(Refusal({socket}), "");
  EXPECT_EQ(Refusal({{"workdir", At("project"), true}, socket}), "");
  UniqueFd other = Bind(At("project/other.sock"));
  EXPECT_THAT(Refusal({{"workdir", At("project"), true}, socket}), HasSubstr("other.sock"));
}

TEST_F(HostSharesTest, FindsSocketThatWasBoundOverALink) {
  fs::create_directory_symlink(At("project"), At("elsewhere/link"));
  UniqueFd bound = Bind(At("elsewhere/link/app.sock"));
  EXPECT_THAT(ReadOnly("project"), HasSubstr(At("project/app.sock")));
  EXPECT_EQ(ReadOnly("elsewhere"), "");
}

TEST_F(HostSharesTest, FindsSocketThatWasBoundByARelativePath) {
  const fs::path before = fs::current_path();
  fs::current_path(At("project"));
  UniqueFd bound = Bind("sub/app.sock");
  fs::current_path(before);
  EXPECT_THAT(ReadOnly("project"), HasSubstr(At("project/sub/app.sock")));
}

TEST_F(HostSharesTest, FindsSocketThatWasBoundByAPathWithDots) {
  UniqueFd bound = Bind(At("elsewhere/../project/./app.sock"));
  EXPECT_THAT(ReadOnly("project"), HasSubstr(At("project/app.sock")));
}

TEST_F(HostSharesTest, RejectsKnownSocketOfAService) {
  // As one of another network namespace, which the kernel does not list.
  {
    UniqueFd closed = Bind(At("elsewhere/bus"));
  }
  const std::vector<GuardedPath> guarded = {{Kind::kService, "the D-Bus system bus", At("elsewhere/bus")}};
  EXPECT_THAT(ReadOnly("elsewhere", guarded), HasSubstr("the D-Bus system bus"));
  EXPECT_EQ(Refusal({{"mount", At("elsewhere/bus"), false}}, guarded), "");
  EXPECT_EQ(ReadOnly("project", guarded), "");
}

TEST_F(HostSharesTest, RejectsDirectoryOfServicesButNotWhatLiesInIt) {
  const std::vector<GuardedPath> guarded = {{Kind::kService, "the runtime directory", At("own")}};
  EXPECT_THAT(ReadOnly("own", guarded), HasSubstr("the runtime directory"));
  EXPECT_THAT(ReadOnly("", guarded), HasSubstr("the runtime directory"));
  EXPECT_EQ(Writable("own/sub", guarded), "");
}

TEST_F(HostSharesTest, RejectsShareThatHoldsOrLiesInAPrivatePath) {
  const std::vector<GuardedPath> guarded = {{Kind::kPrivate, "the state of cella", At("own")}};
  EXPECT_THAT(ReadOnly("", guarded), HasSubstr("the state of cella"));
  EXPECT_THAT(ReadOnly("own", guarded), HasSubstr("the state of cella"));
  EXPECT_THAT(ReadOnly("own/sub", guarded), HasSubstr("lies in the state of cella"));
  EXPECT_EQ(ReadOnly("project", guarded), "");
}

TEST_F(HostSharesTest, RejectsShareThatWillHoldAPrivatePathOnceItIsMade) {
  const std::vector<GuardedPath> guarded = {{Kind::kPrivate, "the cache of cella", At("project/.cache/cella")}};
  EXPECT_THAT(ReadOnly("project", guarded), HasSubstr("the cache of cella"));
  EXPECT_EQ(ReadOnly("project/sub", guarded), "");
}

TEST_F(HostSharesTest, RejectsWritableShareThatHoldsALinkOnTheWayToAPrivatePath) {
  // A guest that replaces the link has its own directory taken for the cache.
  fs::create_directory_symlink(At("own"), At("project/.cache"));
  const std::vector<GuardedPath> guarded = {{Kind::kPrivate, "the cache of cella", At("project/.cache/cella")}};
  EXPECT_THAT(Writable("project", guarded), HasSubstr("the cache of cella"));
  EXPECT_THAT(Writable("own", guarded), HasSubstr("the cache of cella"));
}

TEST_F(HostSharesTest, RejectsProgramsInWritableSharesOnly) {
  const std::vector<GuardedPath> guarded = {{Kind::kProgram, "programs of cella", At("own/sub")}};
  EXPECT_THAT(Writable("own", guarded), HasSubstr("programs of cella"));
  EXPECT_THAT(Writable("own", guarded), HasSubstr("mount it read-only"));
  EXPECT_EQ(ReadOnly("own", guarded), "");
  EXPECT_EQ(ReadOnly("own/sub", guarded), "");
}

TEST_F(HostSharesTest, RejectsTheWholeTemporaryDirectoryInWritableSharesOnly) {
  const std::vector<GuardedPath> guarded = {{Kind::kShared, "the temporary directory", At("own")}};
  EXPECT_THAT(Writable("own", guarded), HasSubstr("the temporary directory"));
  EXPECT_THAT(Writable("", guarded), HasSubstr("the temporary directory"));
  EXPECT_EQ(Writable("own/sub", guarded), "");
  EXPECT_EQ(ReadOnly("own", guarded), "");
}

TEST(SharesOfTest, ListsEveryPathOfThePolicy) {
  Policy policy;
  policy.workdir = "/w";
  policy.mounts = {{"/a", "/x", MountMode::kReadOnly}, {"/b", "/y", MountMode::kReadWrite}};
  policy.rootfs = "/r";
  const std::vector<std::string> visible = {"/opt/python"};
  std::vector<std::string> seen;
  for (const HostShare& share : SharesOf(policy, visible))
    seen.push_back(share.path + (share.writable ? " rw" : " ro"));
  EXPECT_THAT(seen, testing::UnorderedElementsAre("/w rw", "/a ro", "/b rw", "/r ro", "/opt/python ro"));
  EXPECT_TRUE(SharesOf(Policy{}).empty());
}

}  // namespace
}  // namespace cella::confine
