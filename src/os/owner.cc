#include "os/owner.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/unique_fd.h"

namespace cella::os {
namespace {

struct ProcessStat {
  pid_t pid = 0;
  uint64_t start_time = 0;
};

template <typename T>
bool TakeNumber(std::string_view& rest, char terminator, T& value) {
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (error != std::errc() || end == rest.data() + rest.size() || *end != terminator) return false;
  rest.remove_prefix(static_cast<size_t>(end - rest.data()) + 1);
  return true;
}

// By how much this time namespace moves the start times that /proc shows, in the ticks that it shows them in. Without
// it a process that looks from another time namespace would take those of living ones for those of strangers.
uint64_t ShiftOfStartTimes() {
  const UniqueFd file(open("/proc/self/timens_offsets", O_RDONLY | O_CLOEXEC));
  if (!file) return 0;  // a kernel without time namespaces
  std::array<char, 256> buffer = {};
  const ssize_t size = read(file.get(), buffer.data(), buffer.size() - 1);
  if (size <= 0) return 0;
  const char* line = std::strstr(buffer.data(), "boottime");
  long long seconds = 0;
  long nanoseconds = 0;
  if (line == nullptr || std::sscanf(line, "boottime %lld %ld", &seconds, &nanoseconds) != 2) return 0;
  const long long ticks = sysconf(_SC_CLK_TCK);
  return static_cast<uint64_t>(seconds * ticks + nanoseconds / (1'000'000'000 / ticks));
}

std::optional<ProcessStat> ReadStat(const char* path) {
  const UniqueFd file(open(path, O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::array<char, 1024> buffer;
  const ssize_t size = read(file.get(), buffer.data(), buffer.size());
  if (size <= 0) return std::nullopt;
  std::string_view text(buffer.data(), static_cast<size_t>(size));
  ProcessStat stat;
  if (!TakeNumber(text, ' ', stat.pid)) return std::nullopt;
  // The command name is the process's own choice and may hold spaces and parentheses: count from the last ')'.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  text.remove_prefix(name_end + 1);
  for (int field = 3; field <= 22; ++field) {
    const size_t space = text.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    text.remove_prefix(space + 1);
  }
  if (!TakeNumber(text, ' ', stat.start_time)) return std::nullopt;
  stat.start_time -= ShiftOfStartTimes();
  return stat;
}

}  // namespace

Owner CurrentOwner() {
  Owner owner{.pid = getpid()};
  const auto stat = ReadStat("/proc/self/stat");
  // A /proc of another pid namespace numbers processes differently: no judging by it.
  if (!stat || stat->pid != owner.pid) return owner;
  owner.start_time = stat->start_time;
  struct ::stat ns;
  if (::stat("/proc/self/ns/pid", &ns) == 0) owner.pid_namespace = ns.st_ino;
  return owner;
}

bool IsAlive(const Owner& owner) {
  const auto stat = ReadStat(fmt::format("/proc/{}/stat", owner.pid).c_str());
  if (stat && owner.start_time != 0) return stat->start_time == owner.start_time;
  // /proc mounted with hidepid hides other users' processes; the signal check does not.
  return kill(owner.pid, 0) == 0 || errno != ESRCH;
}

std::string FormatOwnedName(std::string_view prefix, const Owner& owner, std::string_view name) {
  return fmt::format("{}{}-{}-{}-{}", prefix, owner.pid_namespace, owner.pid, owner.start_time, name);
}

std::optional<OwnedName> ParseOwnedName(std::string_view prefix, std::string_view text) {
  if (!text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  OwnedName owned;
  if (!TakeNumber(text, '-', owned.owner.pid_namespace) || !TakeNumber(text, '-', owned.owner.pid) ||
      !TakeNumber(text, '-', owned.owner.start_time)) {
    return std::nullopt;
  }
  if (owned.owner.pid <= 0 || text.empty()) return std::nullopt;
  owned.name = text;
  return owned;
}

}  // namespace cella::os
