#include "cli/bench_floor.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "cli/bench_script.h"
#include "os/io.h"
#include "os/syscalls.h"

namespace cella::cli {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Pauses and numbers of clients as in bench_sessions.cc. A fork answers on a socket that is there already, and a live
// interpreter does no more than to compile and to execute.
constexpr const char* kScript = R"(
import gc, os, socket, sys, time

runs, clients = int(sys.argv[1]), int(sys.argv[2])
for name in sys.argv[3:]:
    __import__(name)
repr(eval(compile(b"1 + 1", "<cell>", "eval"), {})).encode()  # what the first time makes is made before the fork
gc.collect()
gc.freeze()
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

def answer():
    theirs.send(repr(eval(compile(theirs.recv(65536), "<cell>", "eval"), {})).encode())

def ask(code):
    ours.send(code)
    ours.recv(65536)

for _ in range(runs):
    time.sleep(0.02)
    start = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        answer()
        os._exit(0)
    ask(b"1 + 1")
    print("fork", (time.perf_counter() - start) * 1e3)
    os.waitpid(pid, 0)

sys.stdout.flush()
pid = os.fork()
if pid == 0:
    ours.close()
    names = {}
    while True:
        code = theirs.recv(65536)
        if not code:
            os._exit(0)
        exec(compile(code, "<cell>", "exec"), names)
        theirs.send(b"done")
theirs.close()
for name, pause in ("live", 0.005), ("back", 0):
    for _ in range(runs * 3):
        if pause:
            time.sleep(pause)
        start = time.perf_counter()
        ask(b"x = 1")
        print(name, (time.perf_counter() - start) * 1e3)
ours.close()
os.waitpid(pid, 0)

sys.stdout.flush()
alive = made = 0
start = time.perf_counter()
while time.perf_counter() - start < 1:
    if alive == clients:
        os.wait()
        alive, made = alive - 1, made + 1
    if os.fork() == 0:
        eval(compile("1 + 1", "<cell>", "eval"), {})
        os._exit(0)
    alive += 1
print("rate", made / (time.perf_counter() - start))
while alive:
    os.wait()
    alive -= 1
)";

// The namespaces of a jail, from a child that then ends; -1: the kernel refuses.
double MakeNamespaces() {
  auto pipe = os::MakePipe();
  if (!pipe) return -1;
  const pid_t child = fork();
  if (child < 0) return -1;
  if (child == 0) {
    const auto start = Clock::now();
    double took = -1;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
                CLONE_NEWCGROUP) == 0) {
      took = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    }
    (void)!write(pipe->write.get(), &took, sizeof took);
    _exit(0);
  }
  pipe->write.Reset();
  double took = -1;
  if (os::RetryOnEintr([&] { return read(pipe->read.get(), &took, sizeof took); }) != sizeof took) took = -1;
  (void)os::RetryOnEintr([&] { return waitpid(child, nullptr, 0); });
  return took;
}

BenchRow NamespacesRow(int runs) {
  BenchRow row{"floor: seven namespaces", "made, and nothing in them", {}, ""};
  for (int run = 0; run < runs; ++run) {
    std::this_thread::sleep_for(20ms);
    const double took = MakeNamespaces();
    if (took < 0) {
      row.unavailable = "this kernel, or its settings, refuse them here";
      break;
    }
    row.milliseconds.push_back(took);
  }
  return row;
}

}  // namespace

Result<SessionBench> MeasureFloor(const SessionBenchOptions& options) {
  SessionBench bench;
  bench.rows.push_back(NamespacesRow(options.runs));
  const int clients = 2 * static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  for (const bool heavy : {false, true}) {
    const std::string label = heavy ? ", numpy + pandas" : "";
    std::vector<std::string> arguments = {std::to_string(options.runs), std::to_string(clients)};
    if (heavy) arguments.insert(arguments.end(), {"numpy", "pandas"});
    auto samples = MeasureByScript(options.python, kScript, arguments);
    if (!samples && heavy && samples.error().code == ErrorCode::kUnsupported) break;  // it lacks the modules
    if (!samples) return std::unexpected(std::move(samples.error()));
    for (auto [key, name, note] : {std::tuple{"fork", kFloorOfNew, "no isolation"},
                                   std::tuple{"live", kFloorOfLive, "with pauses, no isolation"},
                                   std::tuple{"back", kFloorOfBackToBack, "no isolation"}}) {
      bench.rows.push_back({name + label, note, std::move((*samples)[key]), ""});
    }
    bench.figures.push_back({"floor: bare forks, run and ended" + label, (*samples)["rate"].at(0), "/s"});
  }
  return bench;
}

void AddToFloor(const SessionBench& again, SessionBench* floor) {
  for (size_t i = 0; i < std::min(again.rows.size(), floor->rows.size()); ++i) {
    auto& samples = floor->rows[i].milliseconds;
    samples.insert(samples.end(), again.rows[i].milliseconds.begin(), again.rows[i].milliseconds.end());
  }
  for (size_t i = 0; i < std::min(again.figures.size(), floor->figures.size()); ++i) {
    floor->figures[i].value = (floor->figures[i].value + again.figures[i].value) / 2;
  }
}

}  // namespace cella::cli
