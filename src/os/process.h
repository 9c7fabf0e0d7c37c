// A child process, addressed by its pidfd and never by its number. Owned by one place; the destructor kills and reaps.
// The child is started with a shared address space until exec (as vfork), so the cost does not grow with our memory.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace cella::os {

struct SpawnOptions {
  std::string program;            // absolute path
  std::vector<std::string> argv;  // includes argv[0]
  std::vector<std::string> env;   // the whole environment: nothing is inherited
  struct Fd {
    int source;
    int target;
  };
  std::vector<Fd> fds;  // everything else is closed
  std::string cwd;      // empty: ours
};

class Process {
 public:
  static Result<Process> Spawn(const SpawnOptions& options);

  // Takes over a child that another process made for us (CLONE_PARENT).
  static Process Adopt(UniqueFd pidfd) { return Process(std::move(pidfd)); }

  Process(Process&&) = default;
  Process& operator=(Process&& other) noexcept;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  int pidfd() const { return pidfd_.get(); }

  // "Already gone" is success.
  Status Signal(int signal) const;

  // Neither kills nor waits: for a process that the kernel does not let die. It stays until this one ends.
  void Abandon() { pidfd_.Reset(); }

  // Blocks until the process has ended; its wait status. Call it when the pidfd is readable to not block.
  Result<int> Wait();

 private:
  explicit Process(UniqueFd pidfd) : pidfd_(std::move(pidfd)) {}

  UniqueFd pidfd_;  // empty once reaped
};

}  // namespace cella::os
