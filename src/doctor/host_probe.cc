#include "doctor/host_probe.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <sstream>

#include "jail/steps.h"
#include "os/io.h"

namespace cella::doctor {
namespace {

constexpr uint64_t kMaxFile = uint64_t{4} << 20;  // mountinfo of a machine full of containers is large

std::string ReadOr(const char* path, std::string otherwise = "") {
  auto text = os::ReadFile(path, kMaxFile);
  return text ? std::move(*text) : std::move(otherwise);
}

std::optional<int64_t> ReadSwitch(const char* path) {
  std::string text = ReadOr(path);
  int64_t value = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc()) return std::nullopt;
  return value;
}

// "Key:   value rest" of files like /proc/self/status: the first number behind the key.
uint64_t NumberAfter(std::string_view text, std::string_view key) {
  size_t at = text.starts_with(key) ? 0 : text.find("\n" + std::string(key));
  if (at == std::string_view::npos) return 0;
  size_t digits = text.find_first_of("0123456789", at);
  if (digits == std::string_view::npos) return 0;
  uint64_t value = 0;
  (void)std::from_chars(text.data() + digits, text.data() + text.size(), value);
  return value;
}

// A process whose root is not a mount point was chroot'ed, and the kernel then refuses it a user namespace.
bool IsChrooted() {
  std::string text = ReadOr("/proc/self/mountinfo");
  if (text.empty()) return false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string id, parent, device, root, point;
    if (fields >> id >> parent >> device >> root >> point && point == "/") return false;
  }
  return true;
}

std::string RecogniseContainer(const std::vector<std::string>& environment) {
  if (!Lookup(environment, "KUBERNETES_SERVICE_HOST").empty()) return "kubernetes";
  if (access("/.dockerenv", F_OK) == 0) return "docker";
  if (access("/run/.containerenv", F_OK) == 0) return "podman";
  // What systemd-nspawn, lxc and others tell.
  if (std::string_view name = Lookup(environment, "container"); !name.empty()) return std::string(name);
  std::string marker = ReadOr("/run/systemd/container");
  return marker.substr(0, marker.find('\n'));
}

}  // namespace

std::string_view Lookup(const std::vector<std::string>& environment, std::string_view name) {
  for (std::string_view entry : environment) {
    if (entry.starts_with(name) && entry.size() > name.size() && entry[name.size()] == '=') {
      return entry.substr(name.size() + 1);
    }
  }
  return {};
}

HostFacts ObserveHost(const std::vector<std::string>& environment) {
  HostFacts host;
  utsname names = {};
  if (uname(&names) == 0) {
    host.kernel_release = names.release;
    host.machine = names.machine;
  }
  host.uid = geteuid();
  host.unprivileged_userns_clone = ReadSwitch("/proc/sys/kernel/unprivileged_userns_clone");
  host.max_user_namespaces = ReadSwitch("/proc/sys/user/max_user_namespaces");
  host.apparmor_restrict_userns = ReadSwitch("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
  host.chrooted = IsChrooted();
  host.container = RecogniseContainer(environment);
  host.seccomp_filtered = NumberAfter(ReadOr("/proc/self/status"), "Seccomp:") == 2;
  host.landlock_abi = jail::LandlockAbi();
  host.landlock_error = host.landlock_abi == 0 ? errno : 0;
  host.lsm = ReadOr("/sys/kernel/security/lsm");
  host.lsm.erase(host.lsm.find_last_not_of(" \n") + 1);
  host.swap_bytes = NumberAfter(ReadOr("/proc/meminfo"), "SwapTotal:") * 1024;
  return host;
}

}  // namespace cella::doctor
