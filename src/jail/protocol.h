// What supervisor, launcher and init say to each other over one SOCK_SEQPACKET pair: fixed-size messages, descriptors
// beside them. Requests go in, reports come out; the guest never holds either end.
#pragma once

#include <cstdint>

namespace cella::jail {

inline constexpr int kControlFd = 3;  // where the launcher finds its end
inline constexpr int kMaxMessageFds = 12;

enum class RequestKind : uint32_t {
  kBuild = 1,   // fds: spec memfd, then the cgroup descriptors that the spec announces
  kExec = 2,    // fds: exec memfd, stdin, stdout, stderr
  kSignal = 3,  // `signal` to every process of the guest
  kKill = 4,    // SIGKILL to every process of the guest; kExited still follows
};

struct Request {
  RequestKind kind;
  int32_t signal;
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
};

const char* StageText(Stage stage);

enum class ReportKind : uint32_t {
  kCreated = 1,  // from the launcher; fd: pidfd of init
  kReady = 2,    // from init; fd: the workspace directory (absent when unconfined)
  kFailed = 3,   // stage and error say what; nothing runs
  kStarted = 4,  // the program was exec'ed
  kExited = 5,
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
  uint64_t cpu_ns;        // kExited: processor time of all that were reaped
  uint64_t peak_rss;      // kExited: bytes; the largest single process, or the watched sum where that is larger
  char detail[128];       // kFailed: the object, e.g. a path
};

}  // namespace cella::jail
