// Kernel releases as numbers.
#pragma once

#include <compare>
#include <optional>
#include <string_view>

namespace cella::doctor {

struct KernelVersion {
  int major = 0;
  int minor = 0;

  auto operator<=>(const KernelVersion&) const = default;
};

// mount_setattr: without it the tree of a jail cannot be made read-only.
inline constexpr KernelVersion kNeededKernel{5, 12};
// RLIMIT_NPROC counted per user namespace, and cgroup.kill.
inline constexpr KernelVersion kSupportedKernel{5, 14};

// {6, 1} of "6.1.0-18-amd64", "6.1" and "6.1-rc3".
std::optional<KernelVersion> ParseKernelVersion(std::string_view release);

}  // namespace cella::doctor
