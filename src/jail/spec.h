// JailSpec: everything that the launcher needs to know to build one jail, as one flat block of memory. The supervisor
// writes it into a memfd (executor/spec_builder.h), the launcher maps it read-only. No pointers: strings are offsets
// from the start of the block, 0 meaning "absent". Both sides are built together, so there is one version.
#pragma once

#include <cstdint>

#include "jail/protocol.h"

namespace cella::jail {

using StringRef = uint32_t;

inline constexpr uint32_t kSpecMagic = 0x43454c31;
inline constexpr uint32_t kMaxMounts = 128;
inline constexpr uint32_t kMaxLinks = 64;
inline constexpr uint32_t kMaxFiles = 16;

// The one user inside. Outside it is JailSpec::host_uid.
inline constexpr uint32_t kGuestUid = 1000;
inline constexpr uint32_t kGuestGid = 1000;

enum SpecFlag : uint32_t {
  kPrivileged = 1u << 0,        // started by root with CAP_SYS_ADMIN: the guest gets host_uid, an unprivileged id
  kHostNetwork = 1u << 1,       // no network namespace
  kPrivateWorkspace = 1u << 2,  // /workspace is part of the scratch tmpfs; else a mount entry provides it
  kStrictMemory = 1u << 3,      // no memory cgroup: the filter refuses memory that only a cgroup could count
  kUnconfined = 1u << 4,        // the `local` executor: no jail, only the watched process tree
  kDropToUid = 1u << 5,         // root without CAP_SYS_ADMIN: become host_uid first, then build as an ordinary user
  kMaker = 1u << 6,             // not one jail, but a process that makes many of the same tree
  kSession = 1u << 7,           // init serves several programs and reports what a zygote needs to fork into the jail
  kOpenSources = 1u << 8,       // no jail: the sources of the mounts are handed over as detached mounts, in order
};

enum MountFlag : uint32_t {
  kMountWritable = 1u << 0,
  kMountOptional = 1u << 1,  // a missing source is not an error
  kMountIdmapped = 1u << 2,  // the owner of the source appears as the guest, and new files belong to that owner
  kMountDevice = 1u << 3,    // a device node: keeps dev, gets noexec
  kMountPoint = 1u << 4,     // of a maker: no source; each jail comes with a mount of its own for it
  kMountOnFile = 1u << 5,    // that mount point is a file
};

struct MountEntry {
  StringRef source;  // absolute, on the host
  StringRef target;  // absolute, inside
  uint32_t flags;
};

struct LinkEntry {
  StringRef target;
  StringRef path;
};

// A small file of the tree with given content: /etc/passwd and the like.
struct FileEntry {
  StringRef path;
  StringRef data;
  uint32_t size;
};

// What init watches where no cgroup does; 0 means "not watched".
struct WatchLimits {
  uint64_t memory_bytes;
  uint64_t cpu_ns;
  uint64_t processes;
};

struct JailSpec {
  uint32_t magic;
  uint32_t size;  // of the whole block
  uint32_t flags;
  uint32_t host_uid;
  uint32_t host_gid;
  uint32_t cgroup_v1_count;  // descriptors of `tasks` files that came with the request
  uint32_t cgroup_v2;        // 1: a cgroup directory came with the request
  uint64_t scratch_bytes;    // size of the one tmpfs behind /workspace, /tmp and /dev/shm
  uint64_t scratch_inodes;
  WatchLimits watch;
  StringRef hostname;
  StringRef rootfs;  // absent: a skeleton with the host's system directories
  uint32_t mount_count;
  uint32_t link_count;
  uint32_t file_count;
  MountEntry mounts[kMaxMounts];
  LinkEntry links[kMaxLinks];
  FileEntry files[kMaxFiles];
  // strings follow
};

// One program to run inside. Layout: ExecSpec, argc offsets, envc offsets, strings.
struct ExecSpec {
  uint32_t magic;
  uint32_t size;
  uint32_t argc;
  uint32_t envc;
  StringRef program;  // a path, or a bare name searched in search_path inside the jail
  StringRef search_path;
  StringRef cwd;
  uint32_t flags;
  ProcessLimits limits;
};

enum ExecFlag : uint32_t {
  kKillRest = 1u << 0,  // when the main process ends, everything else in the jail is killed before the report
};

inline const char* At(const void* block, StringRef ref) {
  return ref == 0 ? nullptr : static_cast<const char*>(block) + ref;
}

}  // namespace cella::jail
