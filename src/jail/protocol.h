// What the supervisor says to launcher, maker, zygote and init, and what they answer, each over a SOCK_SEQPACKET pair
// of its own: fixed-size messages, descriptors beside them. Requests go in, reports come out; the guest never holds
// either end.
#pragma once

#include <cstdint>

namespace cella::jail {

inline constexpr int kControlFd = 3;  // where the launcher finds its end
// Where the guest reaches the host, once the supervisor asked for it. The guest can remove it, to its own harm alone.
inline constexpr const char* kCallSocket = "/tmp/.cella-calls";
inline constexpr int kCallBacklog = 128;
inline constexpr int kSessionFd = 3;        // where a program finds its session's socket, when it has one
inline constexpr int kMaxMessageFds = 160;  // a jail with as many mounts as there may be
inline constexpr int kNamespaceCount = 7;
inline constexpr int kEntryCount = kNamespaceCount + 1;  // with the Landlock ruleset

enum class RequestKind : uint32_t {
  kBuild = 1,      // to a launcher. fds: spec memfd, then the cgroup descriptors that the spec announces
  kExec = 2,       // to init. fds: exec memfd, stdin, stdout, stderr, and the session's socket if the program has one
  kSignal = 3,     // to init: `signal` to the process group, or to every process of the guest
  kKill = 4,       // to init: the same with SIGKILL; kExited still follows
  kWatch = 5,      // to init: a run of the process group begins, or (0) has ended
  kEmptyJail = 6,  // to a maker: one more jail. fds: the control socket of its init, cgroup descriptors, mounts
  kSpawn = 7,      // to a maker: a zygote. fds: exec memfd, the zygote's control socket, cgroup descriptors
  kFork = 8,       // to a zygote: a copy of itself as a guest. fds: see ForkFd
  // to a zygote or init:
  kAdopt = 9,    // to a zygote: remember how its child number `group` ends as well (a checkpoint that was woken)
  kStatus = 10,  // to a zygote: how the one with this tag ended; kExited follows, with an error if it is unknown
  kLend = 11,    // to the init of a session: the descriptors for kFork once more; kLent follows
  kNudge = 12,   // to init: SIGURG to the leader of the process group alone
  kEcho = 13,    // to init: kEchoed follows, when what was asked before is done
  kListen = 14,  // to the init of a jail: bind kCallSocket; kListening follows
};

// What distinguishes the jails of one maker.
struct EmptyJailSpec {
  uint32_t cgroup_count;   // descriptors into which init writes "0"
  uint32_t mount_count;    // detached mounts: for /workspace if has_workspace, then for each mount point of the tree
  uint32_t has_workspace;  // 0: /workspace is part of the scratch file system
  uint64_t scratch_bytes;
  uint64_t scratch_inodes;
  uint64_t watch_memory_bytes;
  uint64_t watch_cpu_ns;
  uint64_t watch_processes;
};

// Resource limits of one program; 0 leaves the inherited one.
struct ProcessLimits {
  uint64_t cpu_seconds;
  uint64_t data_bytes;
  uint64_t file_bytes;
  uint64_t open_files;
  uint64_t processes;
};

struct ForkSpec {
  uint32_t namespace_count;  // 7, or 6 with the host's network
  uint32_t cgroup_count;     // descriptors into which the newborn writes "0"
  uint32_t has_ruleset;      // Landlock
  uint32_t strict_memory;    // which filter
  ProcessLimits limits;      // data_bytes on top of what the zygote has
};

// The descriptors of kFork, in order; then the namespaces (user first, pid second), the Landlock ruleset if there is
// one, and the cgroup descriptors.
enum ForkFd { kForkSession, kForkStdin, kForkStdout, kForkStderr, kForkFirstNamespace };

struct Request {
  RequestKind kind;
  int32_t signal;
  int32_t group;  // of processes, as init numbers it; 0: all
  uint32_t tag;   // comes back with the reports about what this request started
  EmptyJailSpec jail;
  ForkSpec fork;
};

// The step of building a jail that failed; the text is for people.
enum class Stage : uint32_t {
  kNone,
  kRequest,
  kDropToUid,
  kUserNamespace,
  kMountNamespace,
  kOpenSource,
  kIdmap,
  kTree,
  kAttach,
  kPivot,
  kReadOnlyRoot,
  kClone,
  kMapIds,
  kJoinCgroup,
  kSetIds,
  kScratch,
  kProc,
  kPts,
  kLoopback,
  kHostname,
  kNamespaceQuota,
  kLandlock,
  kCapabilities,
  kNoNewPrivileges,
  kSeccomp,
  kFork,
  kLimits,
  kDescriptors,
  kWorkingDirectory,
  kExec,
  kJoinNamespaces,
};

const char* StageText(Stage stage);

enum class ReportKind : uint32_t {
  kCreated = 1,  // from a launcher or maker; fd: pidfd of init (or of the maker, or of a zygote)
  kReady = 2,  // from init; fds: the workspace directory (absent when unconfined); for a session also what kFork wants:
               // the namespaces, then the Landlock ruleset if there is one. From a maker or zygote: it serves. From
               // a launcher that only opens sources; fds: those
  kFailed = 3,      // stage and error say what; nothing runs
  kStarted = 4,     // the program was exec'ed; `pid` is its number inside
  kExited = 5,      // from init; from a zygote as an answer to kStatus
  kForked = 6,      // from a zygote; fd: pidfd
  kKilled = 8,      // from the init of a session: every process got SIGKILL
  kBreached = 7,    // from init: a watched limit was passed, and the group of the run was killed for it
  kEchoed = 10,     // from init, with the tag of kEcho
  kListening = 11,  // from init; fd: the listening socket, of which init keeps no copy. Without one, error says why
  kLent = 9,        // from the init of a session; fds: the namespaces, then the Landlock ruleset if there is one
};

// Why init ended the guest by itself.
enum class KillReason : uint32_t { kNone, kMemory, kCpuTime, kProcesses };

struct Report {
  ReportKind kind;
  Stage stage;
  int32_t error;
  int32_t wait_status;  // kExited: as from waitpid
  KillReason killed_for;
  uint32_t landlock_abi;  // kReady
  uint32_t own_proc;      // kReady: 1 when /proc is the jail's own
  uint32_t tag;           // of the request
  int32_t pid;            // kStarted, kForked: as the reporter sees it
  uint64_t cpu_ns;        // kExited: processor time of all that were reaped
  uint64_t peak_rss;      // kExited: bytes; the largest single process, or the watched sum where that is larger
  char detail[128];       // kFailed: the object, e.g. a path
};

}  // namespace cella::jail
