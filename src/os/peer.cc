#include "os/peer.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "os/io.h"
#include "os/syscalls.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77  // Linux 6.5
#endif

namespace cella::os {
namespace {

constexpr uint64_t kMaxIdMap = 1 << 16;  // 340 lines at most

NamespaceId NamespaceAt(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) < 0) return {};
  return {info.st_dev, info.st_ino};
}

// The kernel's own descriptor of the process that connected. Before Linux 6.5 the process that has the number now: it
// is another one only if the peer ended and all numbers were used once since it connected.
UniqueFd OpenPeer(int socket, pid_t pid) {
  int pidfd = -1;
  socklen_t size = sizeof pidfd;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) == 0) return UniqueFd(pidfd);
  return errno == ENOPROTOOPT ? UniqueFd(PidfdOpen(pid)) : UniqueFd();
}

// The links in /proc/PID/ns of a process with more rights than ours cannot be read. The map of ids is readable for
// every user; only root of the namespace above can give a namespace below the same map as its own.
bool HasOwnIdMap(const std::string& process) {
  auto theirs = ReadFile(process + "/uid_map", kMaxIdMap);
  auto ours = ReadFile("/proc/self/uid_map", kMaxIdMap);
  return theirs && ours && *theirs == *ours;
}

bool SharesNamespaces(int pidfd, uid_t uid, const OwnNamespaces& own) {
  if (own.user == NamespaceId{} || own.pid == NamespaceId{}) return false;
  auto pids = NamespacePids(pidfd);
  // More than one number: it lives in a pid namespace below that of /proc.
  if (!pids || pids->size() != 1) return false;
  const std::string process = fmt::format("/proc/{}", pids->front());
  const NamespaceId user = NamespaceAt(process + "/ns/user");
  const NamespaceId pid = NamespaceAt(process + "/ns/pid");
  if (user == NamespaceId{} && uid == 0 && geteuid() != 0) return HasOwnIdMap(process);
  return user == own.user && pid == own.pid;
}

}  // namespace

OwnNamespaces OwnNamespaces::Read() { return {NamespaceAt("/proc/self/ns/user"), NamespaceAt("/proc/self/ns/pid")}; }

PeerProcess DescribePeer(int socket, const OwnNamespaces& own) {
  PeerProcess peer;
  ucred credentials = {};
  socklen_t size = sizeof credentials;
  // A peer that cannot be identified counts as the user "nobody", not as root.
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0) return peer;
  peer.uid = credentials.uid;
  peer.pid = credentials.pid;
  if (credentials.pid <= 0) return peer;  // of a pid namespace that ours does not contain
  UniqueFd pidfd = OpenPeer(socket, credentials.pid);
  // Looked up by number, hence alive still when everything was read: then the number was its own all the time.
  peer.shares_namespaces = pidfd && SharesNamespaces(pidfd.get(), peer.uid, own) && !HasEnded(pidfd.get());
  return peer;
}

}  // namespace cella::os
