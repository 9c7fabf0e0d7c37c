// A second wall behind the mounts: even if one were writable by mistake, the guest may write only below its own
// directories, may not reach abstract sockets outside, and may not signal init.
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <cstring>

#include "jail/steps.h"
#include "jail/sys.h"

namespace cella::jail {
namespace {

// The kernel's structure as of ABI 6; the build machine's header may be older. The kernel takes a shorter size.
struct RulesetAttr {
  uint64_t handled_access_fs;
  uint64_t handled_access_net;
  uint64_t scoped;
};

constexpr uint64_t kExecute = 1u << 0, kWriteFile = 1u << 1, kReadFile = 1u << 2, kReadDir = 1u << 3,
                   kMakeChar = 1u << 6, kMakeBlock = 1u << 11, kRefer = 1u << 13, kTruncate = 1u << 14,
                   kIoctlDev = 1u << 15;
constexpr uint64_t kScopeAbstractSocket = 1u << 0, kScopeSignal = 1u << 1;
constexpr uint64_t kFileRights = kExecute | kWriteFile | kReadFile | kTruncate | kIoctlDev;

uint64_t HandledRights(int abi) {
  uint64_t rights = (1u << 13) - 1;
  if (abi >= 2) rights |= kRefer;
  if (abi >= 3) rights |= kTruncate;
  if (abi >= 5) rights |= kIoctlDev;
  return rights;
}

Failure Allow(int ruleset, const char* path, uint64_t rights) {
  int fd = open(path, O_PATH | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? kOk : Fail(Stage::kLandlock, path);
  struct stat info;
  if (fstat(fd, &info) == 0 && !S_ISDIR(info.st_mode)) rights &= kFileRights;
  landlock_path_beneath_attr attr = {};
  attr.allowed_access = rights;
  attr.parent_fd = fd;
  long added = syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &attr, 0);
  int saved = errno;
  close(fd);
  errno = saved;
  return added < 0 ? Fail(Stage::kLandlock, path) : kOk;
}

}  // namespace

int LandlockAbi() {
  long abi = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return abi < 0 ? 0 : static_cast<int>(abi);
}

Failure OpenLandlockRuleset(const JailSpec& spec, int* ruleset, unsigned* abi) {
  *ruleset = -1;
  int version = LandlockAbi();
  *abi = static_cast<unsigned>(version);
  if (version == 0) return kOk;

  RulesetAttr attr = {};
  attr.handled_access_fs = HandledRights(version);
  size_t size = version >= 6 ? sizeof attr : version >= 4 ? 2 * sizeof(uint64_t) : sizeof(uint64_t);
  if (version >= 6) attr.scoped = kScopeAbstractSocket | kScopeSignal;
  *ruleset = static_cast<int>(syscall(SYS_landlock_create_ruleset, &attr, size, 0));
  if (*ruleset < 0) return Fail(Stage::kLandlock, "ruleset");

  const uint64_t all = attr.handled_access_fs;
  const uint64_t write = all & ~(kMakeChar | kMakeBlock);
  JAIL_TRY(Allow(*ruleset, "/", all & (kExecute | kReadFile | kReadDir)));
  JAIL_TRY(Allow(*ruleset, "/dev", all & (kReadFile | kReadDir | kWriteFile | kTruncate | kIoctlDev)));
  JAIL_TRY(Allow(*ruleset, "/workspace", write));
  JAIL_TRY(Allow(*ruleset, "/tmp", write));
  JAIL_TRY(Allow(*ruleset, "/dev/shm", write));
  for (uint32_t i = 0; i < spec.mount_count; ++i) {
    if (spec.mounts[i].flags & kMountWritable) JAIL_TRY(Allow(*ruleset, At(&spec, spec.mounts[i].target), write));
  }
  return kOk;
}

Failure EnterLandlock(int ruleset) {
  if (ruleset < 0) return kOk;
  return syscall(SYS_landlock_restrict_self, ruleset, 0) < 0 ? Fail(Stage::kLandlock, "restrict") : kOk;
}

}  // namespace cella::jail
