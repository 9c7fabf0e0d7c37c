#include "cli/bench_jupyter.h"

#include <fcntl.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "cli/bench_programs.h"
#include "os/io.h"
#include "os/syscalls.h"

namespace cella::cli {
namespace {

// A line for each kernel: milliseconds to the first result, and of `x = 1` in it afterwards.
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
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    print(first * 1e3, again * 1e3, flush=True)
)";

Result<std::string> OutputOf(const std::string& python, int kernels) {
  TRY(language::Python found, BenchPython(python));
  UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  TRY(os::Pipe out, os::MakePipe());
  TRY(os::Process process, StartOnHost({found.executable, "-c", kScript, std::to_string(kernels)},
                                       {{null.get(), 0}, {out.write.get(), 1}, {null.get(), 2}}));
  out.write.Reset();
  std::string text;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t n = os::RetryOnEintr([&] { return read(out.read.get(), buffer.data(), buffer.size()); });
    if (n <= 0) break;
    text.append(buffer.data(), static_cast<size_t>(n));
  }
  TRY(int status, process.Wait());
  if (status != 0) return Err(ErrorCode::kUnsupported, "ipykernel or jupyter_client is not installed");
  return text;
}

std::optional<double> NumberOf(std::string_view text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::vector<BenchRow> MeasureJupyter(const std::string& python, int kernels) {
  BenchRow first{"ipykernel: new kernel", "no isolation", {}, ""};
  BenchRow again{"ipykernel: x = 1, live", "no isolation", {}, ""};
  auto text = OutputOf(python, kernels);
  if (!text) {
    first.unavailable = text.error().message;
    return {std::move(first)};
  }
  for (std::string_view rest = *text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const size_t space = line.find(' ');
    if (space == std::string_view::npos) continue;
    const auto started = NumberOf(line.substr(0, space)), ran = NumberOf(line.substr(space + 1));
    if (started && ran) {
      first.milliseconds.push_back(*started);
      again.milliseconds.push_back(*ran);
    }
  }
  if (first.milliseconds.empty()) first.unavailable = again.unavailable = "it printed no figures";
  return {std::move(first), std::move(again)};
}

}  // namespace cella::cli
