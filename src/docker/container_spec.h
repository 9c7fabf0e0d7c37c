// What a container is created with, and what an engine reports of one. Plain values; nothing is asked here.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace cella::docker {

struct BindMount {
  std::string source;  // as the engine's machine names it
  std::string target;
  bool read_only = true;
};

struct TmpfsMount {
  std::string target;
  std::string options;  // "rw,exec,nosuid,nodev,size=…"
};

struct ContainerSpec {
  std::string image;
  std::vector<std::string> entrypoint;
  std::vector<std::string> env;  // "K=V", beside the image's
  std::string working_dir;
  std::string user;  // "UID:GID"; empty: the image's
  std::map<std::string, std::string> labels;
  std::vector<BindMount> binds;
  std::vector<std::string> volumes;  // targets of anonymous volumes, removed with the container
  std::vector<TmpfsMount> tmpfs;
  std::string network = "none";
  std::vector<std::string> extra_hosts;  // "NAME:ADDRESS"
  std::string runtime;                   // empty: the engine's default
  std::string device_requests = "[]";    // JSON, as the engine takes it
  std::vector<std::string> cap_add;
  uint64_t memory = 0;  // 0: no limit. Swap is not allowed beyond it
  double cpus = 0;      // 0: no limit
  uint64_t pids = 0;    // 0: no limit
  uint64_t shm_bytes = 0;
  uint64_t open_files = 0;  // 0: the engine's default
  uint64_t processes = 0;   // RLIMIT_NPROC; 0: the engine's default
  bool read_only_root = true;
  bool auto_remove = true;
};

// The body of "create".
std::string EncodeContainer(const ContainerSpec& spec);

// What "inspect" reports. Absent numbers are 0.
struct ContainerFacts {
  std::string id;
  std::string name;    // without the slash
  std::string status;  // "created", "running", "paused", "exited", …
  bool running = false;
  bool oom_killed = false;
  int exit_code = 0;
  int pid = 0;        // as the engine's machine counts
  std::string error;  // why it did not start
  std::string user;
  std::string network;
  std::string runtime;
  int64_t memory = 0;
  int64_t memory_swap = 0;
  int64_t nano_cpus = 0;
  int64_t pids_limit = 0;
  bool read_only_root = false;
  bool auto_remove = false;
  bool privileged = false;
  std::vector<std::string> cap_add, cap_drop, security_opt;
  std::map<std::string, std::string> labels, tmpfs;
  std::map<std::string, std::pair<int64_t, int64_t>> ulimits;  // name to soft and hard
  std::string log_driver;
};
// kInvalid: not what an engine sends.
Result<ContainerFacts> DecodeContainer(std::string_view json);

// A limit or restriction that the engine dropped.
struct Missing {
  std::string name;   // "memory", "cpus", "pids", "network", "read_only", "capabilities", "cap_add", …
  std::string found;  // what the container has instead
};
std::vector<Missing> CompareWithRequest(const ContainerSpec& wanted, const ContainerFacts& found);

}  // namespace cella::docker
