// What a policy shows of the host, held against what no guest may have: Cella's own files and sockets, and the sockets
// of the machine's services. A socket in a directory that a guest sees can be connected to, also when the mount is
// read-only. Every executor that shows guests a part of the host asks CheckShares before it does.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cella/policy.h"

namespace cella::confine {

// A file or directory of the host that guests see, with all that lies below it.
struct HostShare {
  std::string name;  // "workdir", for messages
  std::string path;  // real
  bool writable = false;
};

// The shares of a policy, and of the directories that interpreters need (read-only).
std::vector<HostShare> SharesOf(const Policy& policy, std::span<const std::string> visible = {});

// A path of the host that guests must not have. It need not exist.
struct GuardedPath {
  enum class Kind {
    kPrivate,  // Cella's own: no share may hold it, or lie in it
    kProgram,  // programs of Cella: the same for writable shares
    kShared,   // where programs put private directories (/tmp): no writable share may hold it, but may lie in it
    kService,  // a service's socket, or a directory of such: no share may hold it, unless it is the socket itself
  };
  Kind kind = Kind::kPrivate;
  std::string what;  // "the state directory"
  std::string path;  // absolute, without "." and ".."
};

// Parts of Cella's own directories that a policy may show nevertheless, because the engine put their paths there:
// finished Python environments. Real paths; empty: there is none.
struct OpenedPaths {
  std::string readable;
  std::string writable;

  // Whether the share lies in one of them, by its real path.
  bool Hold(const HostShare& share) const;
};

// kPermission: a share shows what it must not; the message names both and the remedy. Other errors: it could not be
// found out. Besides `guarded`, every socket that some program of this network namespace has bound to a path counts as
// a service's. Blocks on the file system, so not for a loop that serves.
Status CheckShares(std::span<const HostShare> shares, std::span<const GuardedPath> guarded);

}  // namespace cella::confine
