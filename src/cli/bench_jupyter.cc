#include "cli/bench_jupyter.h"

#include <algorithm>

#include "cli/bench_script.h"

namespace cella::cli {
namespace {

// Each takes seconds.
constexpr int kVenvs = 3;

// For each kernel: milliseconds to the first result, and of `x = 1` in it afterwards.
constexpr const char* kScript = R"(
import sys, time
from jupyter_client.manager import start_new_kernel

def run(client, code):
    client.execute_interactive(code, output_hook=lambda message: None, timeout=60)

for _ in range(int(sys.argv[1])):
    start = time.perf_counter()
    manager, client = start_new_kernel()
    run(client, "1 + 1")
    first = time.perf_counter() - start
    start = time.perf_counter()
    run(client, "x = 1")
    again = time.perf_counter() - start
    for _ in range(100):
        start = time.perf_counter()
        run(client, "1 + 1")
        print("value", (time.perf_counter() - start) * 1e3)
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    print("first", first * 1e3)
    print("again", again * 1e3, flush=True)
)";

// A virtual environment that sees the packages of this Python, and a kernel in it: milliseconds to the first result.
constexpr const char* kVenvScript = R"(
import os, shutil, site, subprocess, sys, tempfile, time
from jupyter_client.manager import KernelManager

for _ in range(int(sys.argv[1])):
    place = tempfile.mkdtemp()
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "venv", place + "/v"], check=True)
    modules = "%s/v/lib/python%d.%d/site-packages/all.pth" % ((place,) + sys.version_info[:2])
    with open(modules, "w") as file:
        for path in sys.path:
            if path.endswith("-packages"):
                print(path, file=file)
    manager = KernelManager()
    manager.kernel_spec.argv = [place + "/v/bin/python", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    client.execute_interactive("1 + 1", output_hook=lambda message: None, timeout=60)
    print("venv", (time.perf_counter() - start) * 1e3, flush=True)
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    shutil.rmtree(place)
)";

}  // namespace

std::vector<BenchRow> MeasureJupyter(const std::string& python, int kernels) {
  BenchRow first{"ipykernel: new kernel", "no isolation", {}, ""};
  BenchRow again{"ipykernel: x = 1, live", "no isolation", {}, ""};
  BenchRow value{"ipykernel: 1 + 1, live", "no isolation", {}, ""};
  auto samples = MeasureByScript(python, kScript, {std::to_string(kernels)});
  if (!samples) {
    const bool failed = samples.error().code == ErrorCode::kUnsupported;
    first.unavailable = failed ? "ipykernel or jupyter_client is not installed" : samples.error().message;
    return {std::move(first)};
  }
  first.milliseconds = std::move((*samples)["first"]);
  again.milliseconds = std::move((*samples)["again"]);
  value.milliseconds = std::move((*samples)["value"]);
  if (first.milliseconds.empty()) first.unavailable = again.unavailable = value.unavailable = "it printed no figures";
  BenchRow venv{"ipykernel: new venv and kernel", "python -m venv, no isolation", {}, ""};
  auto made = MeasureByScript(python, kVenvScript, {std::to_string(std::min(kernels, kVenvs))});
  if (made) {
    venv.milliseconds = std::move((*made)["venv"]);
  } else {
    venv.unavailable = made.error().message;
  }
  if (made && venv.milliseconds.empty()) venv.unavailable = "it printed no figures";
  return {std::move(first), std::move(again), std::move(value), std::move(venv)};
}

}  // namespace cella::cli
