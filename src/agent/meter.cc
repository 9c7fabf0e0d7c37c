#include "agent/meter.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

#include "os/io.h"
#include "os/process_usage.h"

namespace cella::agent {

struct Meter::Files {
  const char* events;
  const char* key;    // of the counter in `events`
  const char* usage;  // memory only
};

namespace {

constexpr uint64_t kLimit = 65536;

// Of cgroup version 2 in microseconds, of version 1 in nanoseconds.
constexpr const char* kCpuStat = "/sys/fs/cgroup/cpu.stat";
constexpr const char* kCpuAcct = "/sys/fs/cgroup/cpuacct/cpuacct.usage";

uint64_t ValueOf(const char* path, std::string_view key) {
  auto text = os::ReadFile(path, kLimit);
  if (!text) return 0;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    rest = end == rest.npos ? std::string_view() : rest.substr(end + 1);
    if (line.starts_with(key) && line.substr(key.size()).starts_with(' ')) {
      return std::strtoull(std::string(line.substr(key.size() + 1)).c_str(), nullptr, 10);
    }
  }
  return 0;
}

}  // namespace

Meter::Meter() {
  static constexpr Files kMemory[] = {
      {"/sys/fs/cgroup/memory.events", "oom_kill", "/sys/fs/cgroup/memory.current"},
      {"/sys/fs/cgroup/memory/memory.oom_control", "oom_kill", "/sys/fs/cgroup/memory/memory.usage_in_bytes"}};
  static constexpr Files kPids[] = {{"/sys/fs/cgroup/pids.events", "max", nullptr},
                                    {"/sys/fs/cgroup/pids/pids.events", "max", nullptr}};
  for (const Files& files : kMemory) {
    if (memory_ == nullptr && access(files.events, R_OK) == 0) memory_ = &files;
  }
  for (const Files& files : kPids) {
    if (pids_ == nullptr && access(files.events, R_OK) == 0) pids_ = &files;
  }
}

Measured Meter::Measure() const {
  const std::array<os::ProcessRoot, 1> agent = {{{getpid(), false}}};
  const os::ProcessUsage below = os::MeasureTrees(agent);
  Measured measured = {};
  measured.processes = below.processes > 0 ? below.processes - 1 : 0;  // init is the agent's child
  measured.memory = Read().memory;
  if (measured.memory == 0) measured.memory = below.memory;
  measured.cpu_ns = ValueOf(kCpuStat, "usage_usec") * 1000;
  if (auto text = os::ReadFile(kCpuAcct, kLimit); text && measured.cpu_ns == 0) {
    measured.cpu_ns = std::strtoull(text->c_str(), nullptr, 10);
  }
  if (measured.cpu_ns == 0) measured.cpu_ns = static_cast<uint64_t>(below.cpu.count());
  return measured;
}

Counters Meter::Read() const {
  Counters counters = {};
  if (memory_ != nullptr) {
    counters.oom_kills = ValueOf(memory_->events, memory_->key);
    if (auto text = os::ReadFile(memory_->usage, kLimit)) counters.memory = std::strtoull(text->c_str(), nullptr, 10);
  }
  if (pids_ != nullptr) counters.refused_forks = ValueOf(pids_->events, pids_->key);
  return counters;
}

}  // namespace cella::agent
