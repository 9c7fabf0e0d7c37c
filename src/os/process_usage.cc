#include "os/process_usage.h"

#include <dirent.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <set>
#include <sstream>
#include <string>

#include "os/io.h"

namespace cella::os {
namespace {

// The kernel's files about one process are short; only the list of children can be long.
constexpr uint64_t kShort = 4096;
constexpr uint64_t kList = uint64_t{1} << 20;

// Appends the children that any thread of the process has started.
void AppendChildren(int pid, std::vector<ProcessRoot>* found) {
  const std::string tasks = fmt::format("/proc/{}/task", pid);
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(tasks.c_str()), closedir);
  if (!directory) return;
  while (const dirent* entry = readdir(directory.get())) {
    if (entry->d_name[0] == '.') continue;
    auto text = ReadFile(fmt::format("{}/{}/children", tasks, entry->d_name), kList);
    if (!text) continue;
    std::istringstream numbers(*text);
    for (int child; found->size() < kMostProcesses && numbers >> child;) found->push_back({child, true});
  }
}

void Add(int pid, ProcessUsage* sum) {
  auto stat = ReadFile(fmt::format("/proc/{}/stat", pid), kShort);
  // The name in parentheses may contain anything.
  const size_t name_end = stat ? stat->rfind(')') : std::string::npos;
  if (name_end == std::string::npos) return;
  std::istringstream fields(stat->substr(name_end + 1));
  std::string state, skipped;
  fields >> state;
  constexpr int kFieldsBeforeTimes = 10;  // ppid up to cmajflt
  for (int i = 0; i < kFieldsBeforeTimes; ++i) fields >> skipped;
  uint64_t times[4] = {};  // user and system, then those of children that were waited for
  for (uint64_t& time : times) fields >> time;
  if (!fields || state == "Z" || state == "X") return;
  ++sum->processes;
  const auto ticks = static_cast<double>(times[0] + times[1] + times[2] + times[3]);
  const std::chrono::duration<double> seconds(ticks / static_cast<double>(sysconf(_SC_CLK_TCK)));
  sum->cpu += std::chrono::duration_cast<std::chrono::nanoseconds>(seconds);
  if (auto statm = ReadFile(fmt::format("/proc/{}/statm", pid), kShort)) {
    uint64_t size = 0, resident = 0, shared = 0;
    std::istringstream(*statm) >> size >> resident >> shared;
    if (resident > shared) sum->memory += (resident - shared) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  }
}

}  // namespace

ProcessUsage MeasureTrees(std::span<const ProcessRoot> roots) {
  ProcessUsage sum;
  std::vector<ProcessRoot> open(roots.begin(), roots.end());
  std::set<int> seen;  // two roots may be of one tree
  for (size_t next = 0; next < open.size() && seen.size() < kMostProcesses; ++next) {
    const ProcessRoot root = open[next];
    if (root.pid <= 0 || !seen.insert(root.pid).second) continue;
    if (root.counts) Add(root.pid, &sum);
    AppendChildren(root.pid, &open);
  }
  return sum;
}

}  // namespace cella::os
