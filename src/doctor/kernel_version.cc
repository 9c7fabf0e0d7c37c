#include "doctor/kernel_version.h"

#include <charconv>

namespace cella::doctor {

std::optional<KernelVersion> ParseKernelVersion(std::string_view release) {
  KernelVersion version;
  const char* end = release.data() + release.size();
  auto major = std::from_chars(release.data(), end, version.major);
  if (major.ec != std::errc() || major.ptr == end || *major.ptr != '.') return std::nullopt;
  auto minor = std::from_chars(major.ptr + 1, end, version.minor);
  if (minor.ec != std::errc() || version.major < 0 || version.minor < 0) return std::nullopt;
  return version;
}

}  // namespace cella::doctor
