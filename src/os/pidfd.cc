#include "os/pidfd.h"

#include <poll.h>
#include <sys/stat.h>

#include <sstream>

#include "os/io.h"

namespace cella::os {

Result<std::vector<int>> NamespacePids(int pidfd) {
  TRY(std::string info, ReadFile(fmt::format("/proc/self/fdinfo/{}", pidfd), 4096));
  size_t at = info.find("NSpid:");
  if (at == std::string::npos) return Err(ErrorCode::kUnsupported, "not a pidfd");
  std::istringstream line(info.substr(at + 6, info.find('\n', at) - at - 6));
  std::vector<int> pids;
  for (int pid; line >> pid;) pids.push_back(pid);
  if (pids.empty() || pids.front() <= 0) return Err(ErrorCode::kNotFound, "the process is gone");
  return pids;
}

NamespaceId IdOf(int descriptor) {
  struct stat info;
  if (fstat(descriptor, &info) < 0) return {};
  return {info.st_dev, info.st_ino};
}

bool LivesIn(int pidfd, const NamespaceId& pid_namespace) {
  auto pids = NamespacePids(pidfd);
  if (!pids || pid_namespace == NamespaceId{}) return false;
  struct stat actual;
  if (stat(fmt::format("/proc/{}/ns/pid", pids->front()).c_str(), &actual) < 0) return false;
  // Still alive: then the number was its own when it was looked up.
  return pid_namespace == NamespaceId{actual.st_dev, actual.st_ino} && !HasEnded(pidfd);
}

bool HasEnded(int pidfd) { return WaitUntilEnded(pidfd, std::chrono::milliseconds(0)); }

bool WaitUntilEnded(int pidfd, std::chrono::milliseconds patience) {
  pollfd poll_fd = {pidfd, POLLIN, 0};
  return poll(&poll_fd, 1, static_cast<int>(patience.count())) > 0 && (poll_fd.revents & POLLIN) != 0;
}

}  // namespace cella::os
