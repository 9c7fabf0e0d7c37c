#include "os/cgroup_tree.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

namespace cella::os {

const CgroupDirectoryCalls kKernelDirectoryCalls = {
    .make = [](int parent, const char* name) { return mkdirat(parent, name, 0755); },
    .remove = [](int parent, const char* name) { return unlinkat(parent, name, AT_REMOVEDIR); },
};

namespace internal {
namespace {

using std::chrono::steady_clock;

UniqueFd OpenControl(int base, std::string_view group, std::string_view file, int flags) {
  std::string path;
  path.reserve(group.size() + file.size() + 1);
  path.append(group).append("/").append(file);
  return UniqueFd(openat(base, path.c_str(), flags | O_CLOEXEC));
}

int MillisecondsUntil(Deadline deadline, int most) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, most));
}

void Pause(std::chrono::nanoseconds duration) {
  const timespec time{.tv_sec = 0, .tv_nsec = static_cast<long>(duration.count())};
  (void)nanosleep(&time, nullptr);
}

// One pass over the members: SIGKILL to each and a wait for their deaths. Returns how many there were.
size_t KillRound(int base, std::string_view group, Deadline deadline) {
  const std::vector<pid_t> listed = ReadMembers(base, group);
  if (listed.empty()) return 0;
  const pid_t self = getpid();
  if (std::ranges::find(listed, self) == listed.end()) (void)WriteControl(base, group, "cgroup.kill", "1");

  std::vector<UniqueFd> pidfds;
  std::vector<pid_t> pids;
  for (const pid_t pid : listed) {
    if (pid == 0 || pid == self) continue;
    pids.push_back(pid);
    pidfds.emplace_back(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  }
  // A listed pid may have died and been given to another process before its pidfd was opened. A process that is still
  // listed after the opening is the one that the pidfd names, or that one is dead and the signal goes nowhere.
  const std::vector<pid_t> still = ReadMembers(base, group);
  std::vector<pollfd> waiting;
  for (size_t i = 0; i < pids.size(); ++i) {
    if (std::ranges::find(still, pids[i]) == still.end()) continue;
    if (pidfds[i]) {
      (void)syscall(SYS_pidfd_send_signal, pidfds[i].get(), SIGKILL, nullptr, 0);
      waiting.push_back({.fd = pidfds[i].get(), .events = POLLIN, .revents = 0});
    } else {
      (void)kill(pids[i], SIGKILL);  // out of descriptors: the guest must die all the same
    }
  }
  // A pass waits briefly only: members that were born meanwhile need the next one.
  const Deadline pass = std::min(deadline, steady_clock::now() + std::chrono::milliseconds(50));
  if (waiting.empty()) Pause(std::chrono::microseconds(200));
  for (size_t died = 0; died < waiting.size(); ++died) {
    if (poll(&waiting[died], 1, MillisecondsUntil(pass, 50)) <= 0) break;
  }
  return listed.size();
}

}  // namespace

const CgroupHierarchy* CgroupTree::With(unsigned controller) const {
  for (const CgroupHierarchy& hierarchy : hierarchies) {
    if ((hierarchy.controllers & controller) != 0) return &hierarchy;
  }
  return nullptr;
}

int WriteControl(int base, std::string_view group, std::string_view file, std::string_view value) {
  const UniqueFd control = OpenControl(base, group, file, O_WRONLY);
  if (!control) return errno;
  ssize_t written;
  do {
    written = write(control.get(), value.data(), value.size());
  } while (written < 0 && errno == EINTR);
  return written < 0 ? errno : 0;
}

std::optional<std::string_view> ReadControl(int base, std::string_view group, std::string_view file,
                                            std::span<char> buffer) {
  const UniqueFd control = OpenControl(base, group, file, O_RDONLY);
  if (!control) return std::nullopt;
  size_t size = 0;
  while (size < buffer.size()) {
    const ssize_t got = read(control.get(), buffer.data() + size, buffer.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  return std::string_view(buffer.data(), size);
}

std::optional<uint64_t> ReadNumber(int base, std::string_view group, std::string_view file) {
  std::array<char, 32> buffer;
  const auto text = ReadControl(base, group, file, buffer);
  uint64_t value = 0;
  if (!text || std::from_chars(text->data(), text->data() + text->size(), value).ec != std::errc()) return std::nullopt;
  return value;
}

std::optional<uint64_t> ReadKeyed(int base, std::string_view group, std::string_view file, std::string_view key) {
  std::array<char, 4096> buffer;
  const auto text = ReadControl(base, group, file, buffer);
  if (!text) return std::nullopt;
  for (std::string_view rest = *text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ' ') continue;
    uint64_t value = 0;
    const char* number = line.data() + key.size() + 1;
    if (std::from_chars(number, line.data() + line.size(), value).ec == std::errc()) return value;
  }
  return std::nullopt;
}

std::vector<pid_t> ReadMembers(int base, std::string_view group) {
  std::array<char, 4096> buffer;
  std::vector<pid_t> pids;
  const auto text = ReadControl(base, group, "cgroup.procs", buffer);
  if (!text) return pids;
  // Only numbers with their newline: the last one may be cut.
  for (std::string_view rest = *text; rest.find('\n') != std::string_view::npos;) {
    pid_t pid = 0;
    if (std::from_chars(rest.data(), rest.data() + rest.size(), pid).ec == std::errc()) pids.push_back(pid);
    rest.remove_prefix(rest.find('\n') + 1);
  }
  return pids;
}

KillReport KillGroup(const CgroupTree& tree, unsigned hierarchies, std::string_view group, Deadline deadline) {
  KillReport report;
  const CgroupHierarchy* pids = tree.With(kPids);
  for (size_t i = 0; i < tree.hierarchies.size(); ++i) {
    if ((hierarchies & (1u << i)) == 0) continue;
    for (int round = 0; KillRound(tree.hierarchies[i].base.get(), group, deadline) != 0; ++round) {
      if (steady_clock::now() >= deadline) {
        report.emptied = false;
        break;
      }
      // A fork bomb can outrun the passes; not when it cannot fork. Its refused forks are not the guest's fault.
      if (round == 1 && pids != nullptr && !report.forks_barred) {
        report.pids_refused_before = ReadKeyed(pids->base.get(), group, "pids.events", "max");
        report.forks_barred = WriteControl(pids->base.get(), group, "pids.max", "0") == 0;
      }
    }
  }
  return report;
}

bool RemoveGroup(const CgroupTree& tree, unsigned hierarchies, const std::string& group, Deadline deadline) {
  bool removed = true;
  for (size_t i = tree.hierarchies.size(); i-- > 0;) {
    if ((hierarchies & (1u << i)) == 0) continue;
    const int base = tree.hierarchies[i].base.get();
    // A member is off the list a little before its group is free to go, hence some attempts after the last death.
    std::chrono::nanoseconds pause = std::chrono::microseconds(20);
    for (int attempt = 0; tree.calls.remove(base, group.c_str()) != 0; ++attempt) {
      if (errno == ENOENT) break;
      if (errno != EBUSY || attempt == 24 || steady_clock::now() >= deadline) {
        removed = false;
        break;
      }
      (void)KillGroup(tree, hierarchies, group, deadline);
      if (attempt == 0) continue;
      Pause(pause);
      pause = std::min<std::chrono::nanoseconds>(pause * 2, std::chrono::milliseconds(10));
    }
  }
  return removed;
}

}  // namespace internal
}  // namespace cella::os
