#include "cli/bench_jupyter.h"

#include "cli/bench_script.h"

namespace cella::cli {
namespace {

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
  return {std::move(first), std::move(again), std::move(value)};
}

}  // namespace cella::cli
