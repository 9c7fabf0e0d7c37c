#include "jail/protocol.h"

namespace cella::jail {

const char* StageText(Stage stage) {
  switch (stage) {
    case Stage::kNone: return "nothing";
    case Stage::kRequest: return "read the request";
    case Stage::kDropToUid: return "become an unprivileged user";
    case Stage::kUserNamespace: return "create a user namespace";
    case Stage::kMountNamespace: return "create a mount namespace";
    case Stage::kOpenSource: return "open a mount source";
    case Stage::kIdmap: return "map the owner of a mount";
    case Stage::kTree: return "build the root tree";
    case Stage::kAttach: return "attach a mount";
    case Stage::kPivot: return "switch to the new root";
    case Stage::kReadOnlyRoot: return "make the root read-only";
    case Stage::kClone: return "create the namespaces";
    case Stage::kMapIds: return "map user and group ids";
    case Stage::kJoinCgroup: return "join the cgroup";
    case Stage::kSetIds: return "change user and group id";
    case Stage::kScratch: return "mount the private file system";
    case Stage::kProc: return "mount /proc";
    case Stage::kPts: return "mount /dev/pts";
    case Stage::kLoopback: return "bring up loopback";
    case Stage::kHostname: return "set the host name";
    case Stage::kNamespaceQuota: return "forbid nested namespaces";
    case Stage::kLandlock: return "apply Landlock";
    case Stage::kCapabilities: return "drop capabilities";
    case Stage::kNoNewPrivileges: return "set no_new_privs";
    case Stage::kSeccomp: return "load the system call filter";
    case Stage::kFork: return "start a process";
    case Stage::kLimits: return "set resource limits";
    case Stage::kDescriptors: return "set up descriptors";
    case Stage::kWorkingDirectory: return "enter the working directory";
    case Stage::kExec: return "execute the program";
    case Stage::kJoinNamespaces: return "join the namespaces";
  }
  return "an unknown step";
}

}  // namespace cella::jail
