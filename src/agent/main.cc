// cella-agent: PID 1 of a container. See README.md.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "agent/idle.h"
#include "agent/relay.h"
#include "base/sha256.h"
#include "jail/build.h"
#include "os/io.h"
#include "os/syscalls.h"

namespace {

using namespace cella;
using namespace cella::agent;

constexpr std::string_view kAuth = "--auth=";
// The container was asked to stay: people may start and enter it later, without a supervisor.
constexpr std::string_view kKeep = "--keep";
constexpr size_t kMaxToken = 4096;

int Fail(const char* why) {
  fprintf(stderr, "cella-agent: %s\n", why);
  return kRefusedExit;
}

// "none", or "SALT:SHA256 of SALT:TOKEN" in hexadecimal.
bool Accepts(const std::string& auth, std::string_view token) {
  if (auth == "none") return token.empty();
  const size_t colon = auth.find(':');
  if (colon == auth.npos || colon == 0 || token.empty()) return false;
  const std::string expected = auth.substr(colon + 1);
  const std::string digest = Sha256Hex(auth.substr(0, colon + 1) + std::string(token));
  if (expected.size() != digest.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < digest.size(); ++i) difference |= static_cast<unsigned char>(digest[i] ^ expected[i]);
  return difference == 0;
}

// The first frame, whole; what was read behind it stays in `received`.
bool ReadHello(std::string& received, std::string& payload) {
  for (;;) {
    Header header = {};
    if (received.size() >= sizeof header) {
      std::memcpy(&header, received.data(), sizeof header);
      if (header.kind != Kind::kHello || header.size > sizeof(Hello) + kMaxToken) return false;
      if (received.size() - sizeof header >= header.size) {
        payload = received.substr(sizeof header, header.size);
        received.erase(0, sizeof header + header.size);
        return true;
      }
    }
    pollfd ready = {STDIN_FILENO, POLLIN, 0};
    if (poll(&ready, 1, kSilenceSeconds * 1000) <= 0) return false;
    std::array<char, 4096> buffer;
    const ssize_t n = os::RetryOnEintr([&] { return read(STDIN_FILENO, buffer.data(), buffer.size()); });
    if (n <= 0) return false;
    received.append(buffer.data(), static_cast<size_t>(n));
  }
}

// Init in a process of its own; the socket is ours.
Result<UniqueFd> StartInit(const Hello& hello) {
  TRY(os::SocketPair sockets, os::MakeMessageSockets());
  const pid_t pid = fork();
  if (pid < 0) return SysErr(errno, "start init");
  if (pid == 0) {
    static jail::JailSpec spec = {};
    spec.magic = jail::kSpecMagic;
    spec.size = sizeof spec;
    spec.flags = jail::kUnconfined | (hello.is_session != 0 ? jail::kSession : 0u);
    spec.watch = hello.watch;
    // Its stream is not init's.
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd : {0, 1}) (void)dup2(null, fd);
    (void)signal(SIGPIPE, SIG_DFL);
    jail::RunUnconfined(spec, {}, sockets.theirs.get());
  }
  return std::move(sockets.ours);
}

bool SetNonBlocking(int fd) { return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0; }

}  // namespace

int main(int argc, char** argv) {
  // Before anything is read: processes of the guest have our user id.
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) return Fail("it stays traceable");
  std::string auth;
  bool keep = false;
  for (int i = 1; i < argc; ++i) {
    if (argv[i] == kKeep) keep = true;
    if (!std::string_view(argv[i]).starts_with(kAuth)) continue;
    auth = argv[i] + kAuth.size();
    std::memset(argv[i] + kAuth.size(), '*', auth.size());
  }
  if (auth.empty()) return Fail("started by cella, not by people; it needs --auth");
  (void)signal(SIGPIPE, SIG_IGN);
  umask(022);
  std::string received, payload;
  Hello hello = {};
  if (!ReadHello(received, payload) || payload.size() < sizeof hello) {
    if (keep && received.empty()) return Idle();
    return Fail("the first frame is no hello");
  }
  std::memcpy(&hello, payload.data(), sizeof hello);
  if (hello.protocol != kProtocol) return Fail("it was built with another version of cella");
  const bool accepted = Accepts(auth, std::string_view(payload).substr(sizeof hello));
  explicit_bzero(payload.data(), payload.size());
  if (!accepted) return Fail("the first frame does not carry the token");
  auto control = StartInit(hello);
  if (!control) return Fail(control.error().message.c_str());
  UniqueFd workspace(open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!workspace) return Fail("the workspace cannot be opened");
  std::optional<os::Directory> packages;
  if (UniqueFd fd(open(kPackagesInside, O_RDONLY | O_DIRECTORY | O_CLOEXEC)); fd) {
    packages.emplace(std::move(fd), std::nullopt);
  }
  if (!SetNonBlocking(STDIN_FILENO) || !SetNonBlocking(STDOUT_FILENO)) return Fail("the stream cannot be read");
  const Meter meter;
  Ready ready = {};
  ready.protocol = kProtocol;
  ready.uid = getuid();
  ready.has_memory_cgroup = meter.has_memory() ? 1 : 0;
  ready.has_pids_cgroup = meter.has_pids() ? 1 : 0;
  ready.has_cgroup_v2 = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0 ? 1 : 0;
  const int seccomp = prctl(PR_GET_SECCOMP, 0, 0, 0, 0);
  ready.seccomp_mode = seccomp < 0 ? 0 : static_cast<uint32_t>(seccomp);
  ready.counters = meter.Read();
  const Header header = {sizeof ready, Kind::kReady, 0, 0};
  std::string first(reinterpret_cast<const char*>(&header), sizeof header);
  first.append(reinterpret_cast<const char*>(&ready), sizeof ready);
  if (!os::WriteAll(STDOUT_FILENO, first)) return 1;
  {
    Relay relay(STDIN_FILENO, STDOUT_FILENO, std::move(*control),
                Files(os::Directory(std::move(workspace), std::nullopt), std::move(packages)), meter);
    const bool init_is_there = relay.Run(std::move(received));
    if (hello.stays == 0 || !init_is_there) return 0;
    EndOthers();
    relay.TakeLeave();
  }
  return Idle();
}
