// The pathname sockets of this network namespace: the names that programs bound, as the kernel keeps them. A name is
// what its program wrote, in that program's mount namespace and (when it is relative) current directory; the file may
// have been moved or removed since.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cella::os {

// Names of sockets that another process may connect or send to, each once. Asks the kernel through netlink, which is
// ten times faster than /proc/net/unix; reads that file where the kernel has no unix_diag. kExhausted: there are more
// sockets than this reads. Never waits for another process.
Result<std::vector<std::string>> BoundSockets();

// The names in a text with the format of /proc/net/unix. Pure.
std::vector<std::string> ParseBoundSockets(std::string_view proc_net_unix);

}  // namespace cella::os
