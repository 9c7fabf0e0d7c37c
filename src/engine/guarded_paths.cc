#include "engine/guarded_paths.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "engine/default_directories.h"
#include "language/visible.h"
#include "os/io.h"

namespace cella::engine {
namespace {

using Kind = confine::GuardedPath::Kind;
using Paths = std::vector<confine::GuardedPath>;

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void Add(Paths* paths, Kind kind, std::string what, std::string_view path) {
  if (path.starts_with('/') && path != "/") paths->push_back({kind, std::move(what), language::Normalize(path, "/")});
}

// The path in "unix:PATH", "unix://PATH" or "unix:path=PATH,guid=…;…" (D-Bus); empty: it is another kind of address.
std::string SocketOf(std::string_view address) {
  if (!address.starts_with("unix:")) return {};
  address.remove_prefix(5);
  if (address.starts_with("path="))
    address = address.substr(5, std::min(address.find_first_of(",;"), address.size()) - 5);
  if (address.starts_with("//")) address.remove_prefix(1);
  return std::string(address);
}

void AddOwn(const Installation& installation, const std::string& cache_dir, Paths* paths) {
  const Surroundings surroundings = Surroundings::FromProcess();
  const std::string state_dir = DefaultStateDirectory(surroundings);
  Add(paths, Kind::kPrivate, "the state of cella", UserStateDirectory(surroundings));
  Add(paths, Kind::kPrivate, "the state of cella", state_dir);
  Add(paths, Kind::kPrivate, "the state of cella (CELLA_STATE_DIR)", Variable("CELLA_STATE_DIR"));
  Add(paths, Kind::kPrivate, "the sockets of cella", DefaultRuntimeDirectory(surroundings, state_dir));
  Add(paths, Kind::kPrivate, "the cache of cella", cache_dir);
  Add(paths, Kind::kPrivate, "the socket of CELLA_URL", SocketOf(Variable("CELLA_URL")));
  // Each process has links there to its files, its variables and its root directory.
  Add(paths, Kind::kPrivate, "the processes of the host", "/proc");
  constexpr const char* kPrograms = "programs of cella";
  for (const std::string& path : {installation.launcher, installation.languages, installation.runners}) {
    Add(paths, Kind::kProgram, kPrograms, path);
  }
  if (auto here = os::ProgramDirectory()) Add(paths, Kind::kProgram, kPrograms, *here + "/cella");
  Add(paths, Kind::kProgram, "the program of CELLA_BIN", Variable("CELLA_BIN"));
  // A private server of the Python package and the local executor make directories there whenever they start.
  for (const std::string& directory :
       {std::string("/tmp"), std::string("/var/tmp"), std::string("/dev/shm"), Variable("TMPDIR")}) {
    Add(paths, Kind::kShared, "the temporary directory", directory);
  }
}

void AddServices(Paths* paths) {
  auto service = [&](const char* what, std::string_view path) { Add(paths, Kind::kService, what, path); };
  const std::string home = Variable("HOME"), runtime = Variable("XDG_RUNTIME_DIR");
  service("the sockets of the user's services (XDG_RUNTIME_DIR)", runtime);
  service("the D-Bus session bus", SocketOf(Variable("DBUS_SESSION_BUS_ADDRESS")));
  service("the D-Bus system bus", SocketOf(Variable("DBUS_SYSTEM_BUS_ADDRESS")));
  service("the D-Bus system bus", "/run/dbus/system_bus_socket");
  service("the SSH agent (SSH_AUTH_SOCK)", Variable("SSH_AUTH_SOCK"));
  const std::string gnupg = Variable("GNUPGHOME");
  service("the GnuPG agent", (gnupg.empty() ? home + "/.gnupg" : gnupg) + "/S.gpg-agent");
  service("the GnuPG agent", (gnupg.empty() ? home + "/.gnupg" : gnupg) + "/S.gpg-agent.ssh");
  for (const char* name : {"DOCKER_HOST", "CONTAINER_HOST"}) service("a container engine", SocketOf(Variable(name)));
  for (const char* socket :
       {"/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock", "/run/crio/crio.sock"}) {
    service("a container engine", socket);
  }
  service("a container engine", home + "/.docker/run/docker.sock");
}

}  // namespace

Paths GuardedPaths(const Installation& installation, const std::string& cache_dir) {
  Paths paths;
  AddOwn(installation, cache_dir, &paths);
  AddServices(&paths);
  return paths;
}

}  // namespace cella::engine
