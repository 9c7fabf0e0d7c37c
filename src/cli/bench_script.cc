#include "cli/bench_script.h"

#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/unique_fd.h"
#include "cli/bench_programs.h"
#include "os/io.h"

namespace cella::cli {
namespace {

constexpr uint64_t kMostText = uint64_t{64} << 20;

Samples Parse(std::string_view text) {
  Samples samples;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t space = line.find(' ');
    if (space == std::string_view::npos) continue;
    const char* const end = line.data() + line.size();
    double value = 0;
    auto [stop, error] = std::from_chars(line.data() + space + 1, end, value);
    if (error == std::errc() && stop == end) samples[std::string(line.substr(0, space))].push_back(value);
  }
  return samples;
}

}  // namespace

Result<Samples> MeasureByScript(const std::string& python, const char* script,
                                const std::vector<std::string>& arguments) {
  TRY(language::Python found, BenchPython(python));
  std::vector<std::string> argv = {found.executable, "-c", script};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return SysErr(errno, "open '/dev/null'");
  TRY(os::Pipe out, os::MakePipe());
  TRY(os::Process process, StartOnHost(argv, {{null.get(), 0}, {out.write.get(), 1}, {null.get(), 2}}));
  out.write.Reset();
  TRY(std::string text, os::ReadFd(out.read.get(), kMostText));
  TRY(int status, process.Wait());
  if (status != 0) return Err(ErrorCode::kUnsupported, "the script failed with wait status {}", status);
  return Parse(text);
}

}  // namespace cella::cli
