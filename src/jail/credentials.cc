// Who the guest is: mapped ids, no capabilities, no way to gain any.
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>

#include "jail/kernel_file.h"
#include "jail/steps.h"
#include "jail/sys.h"

namespace cella::jail {
namespace {

// The raw calls: glibc's setresuid and friends synchronise with threads that do not exist here.
Failure SetIds(uint32_t uid, uint32_t gid, Stage stage) {
  if (syscall(SYS_setresgid, gid, gid, gid) < 0) return Fail(stage, "group");
  if (syscall(SYS_setresuid, uid, uid, uid) < 0) return Fail(stage, "user");
  return kOk;
}

}  // namespace

Failure DropToUid(const JailSpec& spec) {
  if (syscall(SYS_setgroups, 0, nullptr) < 0) return Fail(Stage::kDropToUid, "groups");
  JAIL_TRY(SetIds(spec.host_uid, spec.host_gid, Stage::kDropToUid));
  // A process that changed its user is not dumpable and may then not write its own id maps.
  if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0) return Fail(Stage::kDropToUid, "dumpable");
  return kOk;
}

Failure MapIds(int pid, const JailSpec& spec) {
  // As an ordinary user the launcher is id 0 of its own user namespace, and that is the only id there is.
  bool privileged = spec.flags & kPrivileged;
  JAIL_TRY(WriteIdMap(pid, "uid_map", kGuestUid, privileged ? spec.host_uid : 0, Stage::kMapIds));
  return WriteIdMap(pid, "gid_map", kGuestGid, privileged ? spec.host_gid : 0, Stage::kMapIds);
}

Failure MapMakerIds(int pid, const JailSpec& spec) {
  bool privileged = spec.flags & kPrivileged;
  JAIL_TRY(WriteIdMap(pid, "uid_map", 0, privileged ? spec.host_uid : 0, Stage::kMapIds));
  return WriteIdMap(pid, "gid_map", 0, privileged ? spec.host_gid : 0, Stage::kMapIds);
}

Failure BecomeMakerUser(const JailSpec& spec) {
  if ((spec.flags & kPrivileged) && syscall(SYS_setgroups, 0, nullptr) < 0) return Fail(Stage::kSetIds, "groups");
  JAIL_TRY(SetIds(0, 0, Stage::kSetIds));
  // Lost with the change of user, and without it the id maps of our children are not ours to write.
  return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0 ? Fail(Stage::kSetIds, "dumpable") : kOk;
}

Failure BecomeGuestUser(const JailSpec& spec) {
  // An ordinary user's namespace has setgroups denied for good: the caller's groups stay effective on what is mounted.
  if ((spec.flags & kPrivileged) && syscall(SYS_setgroups, 0, nullptr) < 0) return Fail(Stage::kSetIds, "groups");
  return BecomeGuest();
}

Failure BecomeGuest() { return SetIds(kGuestUid, kGuestGid, Stage::kSetIds); }

Failure DropCapabilities() {
  constexpr unsigned long kBits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                                  SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                                  SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
  if (prctl(PR_SET_SECUREBITS, kBits, 0, 0, 0) < 0) return Fail(Stage::kCapabilities, "securebits");
  for (int capability = 0; capability < 64; ++capability) {
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0) {
      if (errno == EINVAL) break;  // past the last one that this kernel knows
      return Fail(Stage::kCapabilities, "bounding set");
    }
  }
  if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0) return Fail(Stage::kCapabilities, "ambient set");
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  if (syscall(SYS_capset, &header, none) < 0) return Fail(Stage::kCapabilities, "capset");
  return kOk;
}

Failure ForbidNewPrivileges() {
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? Fail(Stage::kNoNewPrivileges) : kOk;
}

}  // namespace cella::jail
