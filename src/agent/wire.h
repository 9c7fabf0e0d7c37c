// The frames between the supervisor and an agent: a header, then `size` bytes. Both sides are built together; the first
// frame in each direction has the number of the protocol. Fixed-size structures of the machine's own byte order, since
// an engine runs images of its own architecture. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "jail/protocol.h"
#include "jail/spec.h"

namespace cella::agent {

inline constexpr uint32_t kProtocol = 0x43410007;
inline constexpr size_t kMaxFrame = size_t{4} << 20;
inline constexpr uint32_t kWindow = 256u << 10;   // of a channel, in each direction
inline constexpr size_t kFileChunk = 128u << 10;  // of kPut and kGet
inline constexpr uint32_t kMaxTag = (1u << 30) - 1;
// From here on the agent gives the tags: to connections of the guest's call socket and to checkpoints, which have a
// session channel alone.
inline constexpr uint32_t kFirstCallTag = 1u << 29;
inline constexpr int kSilenceSeconds = 30;  // without a frame, the agent ends
inline constexpr int kPingSeconds = 4;
inline constexpr int kAnswerSeconds = 14;  // without a frame, the supervisor gives the agent up
inline constexpr int kRefusedExit = 126;   // the agent's exit code when the token is wrong

enum class Kind : uint16_t {
  // To the agent.
  kHello = 1,  // Hello, then the token; answered by kReady
  kExec,       // ExecOptions, then an exec block (jail/spec.h); `channel` is the tag. Opens the program's channels
  kRequest,    // a jail::Request without descriptors, for init; kListen is for the agent itself
  kPut,        // PutOptions, the path, the content; `channel` numbers the request, as in all that kAnswer answers
  kGet,        // GetOptions, the path
  kList,       // ListOptions
  kRemove,     // the path
  kPing,
  kEnd,      // the session is over: the agent ends everything, and itself unless it stays
  kMeasure,  // empty; the content of the answer is a Measured
  // In both directions, on a channel.
  kData = 32,
  kCredit,  // a number of 32 bits: so many bytes were taken
  kClose,   // nothing more is sent (input, session), or is wanted (output)
  // From the agent.
  kReady = 64,  // Ready
  kReport,      // a jail::Report of init
  kAnswer,      // Answer, then content
  kLeft,        // after kEnd, from an agent that stays: everything else has ended, and nothing more is sent
  kConnect,     // a process of the guest has connected to the call socket, on this channel
  kCopy,        // Copy: a runner has made a checkpoint, whose socket is this channel; ahead of the frame about it
  kCopyEnded,   // on that channel: the process of the checkpoint has ended, and all that it wrote was sent
  kPong,        // answers kPing
};

struct Header {
  uint32_t size;
  Kind kind;
  uint16_t reserved;
  uint32_t channel;
};

// A program's channels, from its tag.
enum class Port : uint32_t { kInput, kOutput, kErrors, kSession };
constexpr uint32_t ChannelOf(uint32_t tag, Port port) { return tag << 2 | static_cast<uint32_t>(port); }
constexpr uint32_t TagOf(uint32_t channel) { return channel >> 2; }
constexpr Port PortOf(uint32_t channel) { return static_cast<Port>(channel & 3); }

struct Hello {
  uint32_t protocol;
  uint32_t is_session;  // init serves several programs
  uint32_t stays;       // the agent ends everything but itself when the stream ends
  uint32_t reserved;
  jail::WatchLimits watch;
};

struct Counters {
  uint64_t oom_kills;
  uint64_t refused_forks;
  uint64_t memory;  // charged now; 0: unknown
};

struct Ready {
  uint32_t protocol;
  uint32_t uid;
  uint32_t has_memory_cgroup, has_pids_cgroup;  // the agent can read their counters
  uint32_t has_cgroup_v2;
  uint32_t seccomp_mode;  // 2: a filter
  Counters counters;
};

// What the programs of the container use now.
struct Measured {
  uint64_t memory;
  uint64_t cpu_ns;
  uint64_t processes;
};

struct ExecOptions {
  uint32_t has_input;    // else the program's input is /dev/null
  uint32_t has_session;  // a socket as jail::kSessionFd
};

// Before every kReport: what the cgroup counts.
struct ReportFrame {
  Counters counters;
  jail::Report report;
};

struct Copy {
  uint32_t source;  // the session channel of the runner that made it
  int32_t pid;      // as init numbers it
};

// Where paths begin.
enum class PutRoot : uint32_t {
  kWorkspace,
  kPackages,  // kPackagesInside, where there is one
};
inline constexpr const char* kPackagesInside = "/run/cella-packages";

struct PutOptions {
  uint32_t mode;
  uint32_t path_size;
  uint32_t is_first;  // creates the file; else the content follows what was put before
  uint32_t replaces;  // of the first: an existing file is replaced, else it is an error
  PutRoot root;
  uint32_t reserved;
};

struct GetOptions {
  uint64_t offset;
  uint64_t size;
};

struct ListOptions {
  uint32_t limit;
};

struct Answer {
  uint32_t error;  // 0: none; else an ErrorCode plus one, and the content is the message
  int32_t sys_errno;
  uint32_t complete;  // kList: everything was looked at. kGet: the file ends here
  uint32_t mode;      // kGet
  uint64_t size;      // kGet: of the file
};

// kList's content: so many of these, each followed by its path.
struct ListedFile {
  uint64_t size;
  int64_t changed_ns;
  uint64_t inode;
  uint32_t path_size;
  uint32_t reserved;
};

}  // namespace cella::agent
