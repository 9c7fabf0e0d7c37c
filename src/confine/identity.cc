#include "confine/identity.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <vector>

#include "os/io.h"

namespace cella::confine {
namespace {

// Above the ranges that distributions and container engines hand out (up to 0x6fffffff), below the sign bit. Process
// ids have at most 22 bits, so each jail has its own.
constexpr uint32_t kFirstUid = 0x70000000;
constexpr uint32_t kUidCount = 1u << 22;

struct MapLine {
  uint64_t inside = 0, outside = 0, count = 0;
};

std::vector<MapLine> ParseMap(std::string_view text) {
  std::vector<MapLine> lines;
  std::istringstream stream{std::string(text)};
  for (MapLine line; stream >> line.inside >> line.outside >> line.count;) lines.push_back(line);
  return lines;
}

// An id that exists here, is not 0 here, and is not the host's 0.
std::optional<uint32_t> UnprivilegedId(const std::vector<MapLine>& map, uint32_t number) {
  for (const MapLine& line : map) {
    if (line.inside <= kFirstUid && line.inside + line.count >= uint64_t{kFirstUid} + kUidCount) {
      return kFirstUid + number % kUidCount;
    }
  }
  // Inside a container: the upper half of the largest range, away from real users; 65534 is the overflow id.
  auto largest = std::ranges::max_element(map, {}, &MapLine::count);
  if (largest == map.end() || largest->count < 1024) return std::nullopt;
  uint64_t half = largest->count / 2;
  uint64_t id = largest->inside + half + number % (half - 8);
  if (id == 65534) ++id;
  return static_cast<uint32_t>(id);
}

bool HasSysAdmin() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) < 0) return false;
  constexpr uint32_t kNeeded = (1u << CAP_SYS_ADMIN) | (1u << CAP_SETUID) | (1u << CAP_SETGID);
  return (data[0].effective & kNeeded) == kNeeded;
}

}  // namespace

void BuildIdentity::Describe(jail::JailSpec* spec) const {
  if (mode == BuildMode::kPrivileged) spec->flags |= jail::kPrivileged;
  if (mode == BuildMode::kDropFirst) spec->flags |= jail::kDropToUid;
  spec->host_uid = host_uid;
  spec->host_gid = host_gid;
}

Result<BuildIdentity> ChooseIdentity(uint32_t number, uint32_t euid, uint32_t egid, bool has_sys_admin,
                                     std::string_view uid_map) {
  if (euid != 0) return BuildIdentity{BuildMode::kOrdinary, euid, egid};
  std::vector<MapLine> map = ParseMap(uid_map);
  if (auto id = UnprivilegedId(map, number)) {
    return BuildIdentity{has_sys_admin ? BuildMode::kPrivileged : BuildMode::kDropFirst, *id, *id};
  }
  // Root of a user namespace with one id, as of `unshare -r`: outside it is an ordinary user.
  if (map.size() == 1 && map[0].inside == 0 && map[0].outside != 0) return BuildIdentity{BuildMode::kOrdinary, 0, 0};
  return Err(ErrorCode::kUnsupported,
             "started by root where no unprivileged user id exists: the guest would be the host's root; start cella as "
             "an ordinary user");
}

Result<BuildIdentity> ChooseIdentity(uint32_t number) {
  if (geteuid() != 0) return ChooseIdentity(number, geteuid(), getegid(), false, {});
  TRY(std::string map, os::ReadFile("/proc/self/uid_map", 65536));
  return ChooseIdentity(number, 0, getegid(), HasSysAdmin(), map);
}

}  // namespace cella::confine
