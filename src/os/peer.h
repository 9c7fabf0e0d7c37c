// Which process connected to a Unix socket of ours, and whether it shares our user and pid namespaces. A guest of a
// rootless jail has the uid of its caller, so that the uid alone does not tell it from that caller.
#pragma once

#include <sys/types.h>

#include "os/pidfd.h"

namespace cella::os {

// The user and pid namespaces of this process; empty members where /proc cannot be read.
struct OwnNamespaces {
  NamespaceId user;
  NamespaceId pid;

  static OwnNamespaces Read();
};

struct PeerProcess {
  uid_t uid = static_cast<uid_t>(-1);  // as the kernel noted it when the process connected
  pid_t pid = 0;                       // for logs: the number may belong to another process by now
  // It lives, and in our own namespaces. False also when that cannot be read.
  bool shares_namespaces = false;
};

// `socket` is connected. Never waits.
PeerProcess DescribePeer(int socket, const OwnNamespaces& own);

}  // namespace cella::os
