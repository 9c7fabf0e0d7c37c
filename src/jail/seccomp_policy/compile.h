// Compiles a Policy to a BPF program for one architecture: a binary search over ranges of system call numbers, so that
// loading it (the kernel tries every number) and running it stay cheap.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <string>
#include <vector>

#include "jail/seccomp_policy/policy.h"

namespace cella::jail::policy {

struct Architecture {
  uint32_t scmp;   // SCMP_ARCH_*: resolves names to numbers
  uint32_t audit;  // AUDIT_ARCH_*: what the filter compares
  bool has_x32;    // numbers with bit 30 set are another ABI of the same architecture
};

Architecture NativeArchitecture();

struct Compiled {
  std::vector<sock_filter> program;
  std::vector<std::string> unknown;  // names that this architecture does not have, or libseccomp does not know
};

Compiled Compile(const Policy& policy, const Architecture& architecture);

}  // namespace cella::jail::policy
