// A second wall behind the mounts: even if one were writable by mistake, the guest may write only below its own
// directories, may not reach abstract sockets outside, and may not signal init. From ABI 9 (Linux 7.1) it also keeps
// the guest from the sockets below what is mounted: those that a program binds there after the jail was built as well,
// which the supervisor cannot find beforehand.
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <cstring>
#include <initializer_list>

#include "jail/steps.h"
#include "jail/sys.h"
#include "jail/tree.h"

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
                   kIoctlDev = 1u << 15, kResolveUnix = 1u << 16;
constexpr uint64_t kScopeAbstractSocket = 1u << 0, kScopeSignal = 1u << 1;
constexpr uint64_t kFileRights = kExecute | kWriteFile | kReadFile | kTruncate | kIoctlDev | kResolveUnix;

uint64_t HandledRights(int abi) {
  uint64_t rights = (1u << 13) - 1;
  if (abi >= 2) rights |= kRefer;
  if (abi >= 3) rights |= kTruncate;
  if (abi >= 5) rights |= kIoctlDev;
  if (abi >= 9) rights |= kResolveUnix;
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

// A right for a directory also holds for what is mounted below it. Where it does not, a program still reaches the
// sockets that its own domain has made, but not those of other programs of the jail.
bool HoldsOnlyGuestFiles(const JailSpec& spec, const char* directory) {
  for (uint32_t i = 0; i < spec.mount_count; ++i) {
    const char* target = At(&spec, spec.mounts[i].target);
    if (Below(target, directory) || (Below(target, "/var/tmp") && strcmp(directory, "/tmp") == 0)) return false;
  }
  return (spec.flags & kPrivateWorkspace) || strcmp(directory, "/workspace") != 0;
}

// A socket that is a mount itself was named by the caller, who meant it.
Failure AllowNamedSockets(int ruleset, const JailSpec& spec) {
  for (uint32_t i = 0; i < spec.mount_count; ++i) {
    const char* target = At(&spec, spec.mounts[i].target);
    struct stat info;
    if (stat(target, &info) == 0 && S_ISSOCK(info.st_mode)) JAIL_TRY(Allow(ruleset, target, kResolveUnix));
  }
  return kOk;
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
  const uint64_t write = all & ~(kMakeChar | kMakeBlock | kResolveUnix);
  JAIL_TRY(Allow(*ruleset, "/", all & (kExecute | kReadFile | kReadDir)));
  JAIL_TRY(Allow(*ruleset, "/dev", all & (kReadFile | kReadDir | kWriteFile | kTruncate | kIoctlDev)));
  for (const char* directory : {"/workspace", "/tmp", "/dev/shm"}) {
    JAIL_TRY(Allow(*ruleset, directory, HoldsOnlyGuestFiles(spec, directory) ? write | (all & kResolveUnix) : write));
  }
  for (uint32_t i = 0; i < spec.mount_count; ++i) {
    if (spec.mounts[i].flags & kMountWritable) JAIL_TRY(Allow(*ruleset, At(&spec, spec.mounts[i].target), write));
  }
  return (all & kResolveUnix) ? AllowNamedSockets(*ruleset, spec) : kOk;
}

Failure EnterLandlock(int ruleset) {
  if (ruleset < 0) return kOk;
  return syscall(SYS_landlock_restrict_self, ruleset, 0) < 0 ? Fail(Stage::kLandlock, "restrict") : kOk;
}

Failure EnterZygoteLandlock() {
  const int version = LandlockAbi();
  // The first version refuses every rename to another directory, and guests inherit that.
  if (version < 2) return kOk;
  // A guest keeps this domain for good, so nothing is refused here that its jail allows. The domain itself is what
  // counts: it forbids changes of mounts, and access to processes that are not in it, such as init and the maker.
  RulesetAttr attr = {};
  attr.handled_access_fs = kMakeChar | kMakeBlock | kRefer;
  if (version >= 6) attr.scoped = kScopeAbstractSocket | kScopeSignal;
  const size_t size = version >= 6 ? sizeof attr : sizeof(uint64_t);
  const int ruleset = static_cast<int>(syscall(SYS_landlock_create_ruleset, &attr, size, 0));
  if (ruleset < 0) return Fail(Stage::kLandlock, "ruleset");
  Failure failure = Allow(ruleset, "/", kRefer);
  if (!failure) failure = EnterLandlock(ruleset);
  close(ruleset);
  return failure;
}

}  // namespace cella::jail
