// cella-soak N [PRELOAD...]: opens, uses and closes N sessions in one process, and fails if that leaves more
// descriptors, memory, cgroups or mounts than a few hundred of them did. Bounded to minutes; `make soak` runs 10,000.
#include <dirent.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "async/task_group.h"
#include "engine/engine.h"
#include "session/json.h"
#include "session/session.h"

namespace cella {
namespace {

struct Footprint {
  size_t descriptors = 0;
  size_t resident_kb = 0;
  size_t cgroups = 0;
  size_t mounts = 0;
  size_t processes = 0;
};

size_t CountEntries(const char* path) {
  size_t count = 0;
  DIR* directory = opendir(path);
  if (directory == nullptr) return 0;
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

size_t CountLines(const std::string& path, const std::string& needle) {
  std::ifstream file(path);
  size_t count = 0;
  for (std::string line; std::getline(file, line);) count += line.find(needle) != std::string::npos;
  return count;
}

size_t CountDescendants() {
  std::map<int, int> parents;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    int pid = atoi(entry.path().filename().c_str());
    std::ifstream stat(entry.path() / "stat");
    std::string line;
    if (pid <= 0 || !std::getline(stat, line)) continue;
    int parent = 0;
    if (sscanf(line.c_str() + line.rfind(')') + 1, " %*c %d", &parent) == 1) parents[pid] = parent;
  }
  size_t count = 0;
  for (auto [pid, parent] : parents) {
    while (parent > 1 && parent != getpid() && parents.contains(parent)) parent = parents[parent];
    count += parent == getpid();
  }
  return count;
}

Footprint Measure() {
  malloc_trim(0);
  Footprint now;
  now.descriptors = CountEntries("/proc/self/fd");
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) now.resident_kb = strtoul(line.c_str() + 6, nullptr, 10);
  }
  // Directories of the controllers that hold groups of ours; the number of all groups is the kernel's own count.
  std::ifstream groups("/proc/cgroups");
  for (std::string line; std::getline(groups, line);) {
    char name[64];
    unsigned long hierarchy = 0, count = 0;
    if (sscanf(line.c_str(), "%63s %lu %lu", name, &hierarchy, &count) == 3) now.cgroups += count;
  }
  now.mounts = CountLines("/proc/self/mountinfo", " ");
  now.processes = CountDescendants();
  return now;
}

bool IsSame(const Footprint& before, const Footprint& after) {
  // The pools may be fuller or emptier at the two looks: four sessions of some thirty descriptors and three groups.
  return after.descriptors <= before.descriptors + 160 && after.resident_kb <= before.resident_kb + 2048 &&
         after.cgroups <= before.cgroups + 40 && after.mounts == before.mounts &&
         after.processes <= before.processes + 12;
}

async::Task<bool> Churn(async::Loop& loop, run::Executor& executor, const session::SessionOptions& options,
                        int sessions, int* left) {
  bool fine = true;
  auto client = [&]() -> async::Task<void> {
    while (fine && *left > 0) {
      --*left;
      auto session = co_await session::Session::Open(loop, executor, options);
      if (!session) {
        std::cerr << session.error().message << "\n";
        fine = false;
        co_return;
      }
      RunSpec input;
      // Every tenth one crashes and goes on from its checkpoint.
      const bool crashes = *left % 10 == 0;
      input.blocks = {{"python", "x = 41"}};
      auto first = co_await (*session)->RunToEnd(input);
      Result<RunResult> crashed = RunResult{};
      if (crashes) {
        input.blocks.front().code = "import os; os.kill(os.getpid(), 11)";
        crashed = co_await (*session)->RunToEnd(input);
      }
      input.blocks.front().code = "print(x); x + 1";
      auto result = co_await (*session)->RunToEnd(input);
      if (!result || result->value != "42" || result->stdout_text != "41\n") {
        std::cerr << "wrong answer: " << (result ? session::ToJson(*result) : result.error().message) << "\nafter "
                  << (first ? session::ToJson(*first) : first.error().message) << "\nand "
                  << (crashed ? session::ToJson(*crashed) : crashed.error().message) << "\n";
        fine = false;
      }
      co_await (*session)->Close();
    }
  };
  *left = sessions;
  async::TaskGroup group(loop);
  for (int i = 0; i < 3; ++i) group.Add(client());
  co_await group.Join();
  co_return fine;
}

int Main(int argc, char** argv) {
  const int count = argc > 1 ? atoi(argv[1]) : 300;
  async::Loop loop;
  auto engine = engine::MakeEngine(loop, ExecutorKind::kSandbox, {.pool = {2, 2}});
  if (!engine) {
    std::cerr << engine.error().message << "\n";
    return 1;
  }
  session::SessionOptions options;
  options.guest.policy.python = "/usr/bin/python3";
  options.guest.preload.assign(argv + std::min(argc, 2), argv + argc);
  Footprint before, after;
  bool fine = false;
  auto all = [&]() -> async::Task<void> {
    int left = 0;
    run::Executor& executor = *(*engine)->executor;
    fine = co_await Churn(loop, executor, options, std::min(200, count), &left);
    co_await async::SleepUntil(async::Clock::now() + std::chrono::milliseconds(500));
    before = Measure();
    for (int done = 0; fine && done < count; done += 500) {
      fine = co_await Churn(loop, executor, options, std::min(500, count - done), &left);
      if (isatty(2) == 1) fprintf(stderr, "\r%d of %d", done, count);
    }
    // The kernel may still be at work on the last groups and processes.
    const auto limit = async::Clock::now() + std::chrono::seconds(20);
    do {
      co_await async::SleepUntil(async::Clock::now() + std::chrono::milliseconds(500));
      after = Measure();
    } while (!IsSame(before, after) && async::Clock::now() < limit);
    co_await executor.Close();
  };
  loop.Run(all());
  printf(
      "descriptors %zu -> %zu, resident %zu -> %zu kB, cgroups %zu -> %zu, mounts %zu -> %zu, processes %zu -> %zu\n",
      before.descriptors, after.descriptors, before.resident_kb, after.resident_kb, before.cgroups, after.cgroups,
      before.mounts, after.mounts, before.processes, after.processes);
  const bool same = IsSame(before, after);
  if (!same) printf("something is left behind\n");
  return fine && same ? 0 : 1;
}

}  // namespace
}  // namespace cella

int main(int argc, char** argv) { return cella::Main(argc, argv); }
