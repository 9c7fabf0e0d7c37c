#include "doctor/engine_probe.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "base/unique_fd.h"
#include "doctor/host_probe.h"

namespace cella::doctor {
namespace {

int Connect(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return ENAMETOOLONG;
  memcpy(address.sun_path, path.c_str(), path.size() + 1);
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno;
  // A full queue of a Unix socket answers EAGAIN at once: a process listens.
  bool there = connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 || errno == EAGAIN;
  return there ? 0 : errno;
}

}  // namespace

std::vector<EngineAddress> TryEngines(const std::vector<std::string>& environment) {
  std::vector<EngineAddress> found;
  auto add = [&](std::string engine, std::string address) {
    constexpr std::string_view kScheme = "unix://";
    EngineAddress entry{.engine = std::move(engine), .address = std::move(address)};
    if (entry.address.starts_with(kScheme)) entry.address.erase(0, kScheme.size());
    entry.remote = !entry.address.starts_with('/');
    if (!entry.remote) entry.error = Connect(entry.address);
    found.push_back(std::move(entry));
  };
  std::string runtime(Lookup(environment, "XDG_RUNTIME_DIR"));
  if (std::string_view host = Lookup(environment, "DOCKER_HOST"); !host.empty()) {
    add("docker", std::string(host));
  } else {
    add("docker", "/var/run/docker.sock");
    if (!runtime.empty()) add("docker", runtime + "/docker.sock");
  }
  if (!runtime.empty()) add("podman", runtime + "/podman/podman.sock");
  add("podman", "/run/podman/podman.sock");
  return found;
}

}  // namespace cella::doctor
