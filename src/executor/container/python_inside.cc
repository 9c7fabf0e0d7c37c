#include "executor/container/python_inside.h"

#include <chrono>

#include "executor/container/inside.h"
#include "executor/container/program_to_end.h"

namespace cella::executor {
namespace {

using namespace std::chrono_literals;
using async::Task;

constexpr auto kPatience = 10s;
constexpr size_t kMostText = size_t{512} << 10;

// The names of directories are enough, and faster than reading metadata. The answer is the last line: the image may
// have a sitecustomize that writes, too.
constexpr const char* kQuestion = R"(
import json, os, sys
try:
    libc = os.confstr('CS_GNU_LIBC_VERSION') or ''
except (ValueError, OSError):
    libc = ''
if not libc:
    libc = 'musl' if any(name.startswith('ld-musl-') for name in os.listdir('/lib')) else ''
packages = {}
for path in sys.path:
    if not path.endswith(('site-packages', 'dist-packages')) or not os.path.isdir(path):
        continue
    for name in os.listdir(path):
        if name.endswith(('.dist-info', '.egg-info')):
            parts = name.rsplit('.', 1)[0].split('-')
            if len(parts) > 1:
                packages.setdefault(parts[0], parts[1])
print()
print(json.dumps({'version': sys.version_info[:3], 'implementation': sys.implementation.name,
                  'flags': getattr(sys, 'abiflags', ''), 'machine': os.uname().machine, 'libc': libc,
                  'packages': packages}))
)";

}  // namespace

Task<Result<std::string>> AskPython(confine::ProgramPlace place, const Policy& policy, run::StopToken stop) {
  confine::Program program;
  // -I: neither the guest's directory nor its environment variables have a say.
  program.plan.commands.push_back({language::Purpose::kRun, {"python3", "-I", "-c", kQuestion}, {"python3", "python"}});
  const confine::EnvVars variables = confine::GuestEnvVars(VariablesInside(), program.plan, policy);
  program.env = variables.Encode();
  program.search_path = *variables.Find("PATH");
  program.cwd = "/";
  ProgramBounds bounds{kPatience, kMostText, policy.limits};
  auto ended = co_await RunToEnd(place, std::move(program), bounds, stop);
  if (!ended && ended.error().code == ErrorCode::kNotFound) {
    co_return Err(ErrorCode::kUnsupported, "the image has no python3 for which packages could be installed");
  }
  if (!ended) co_return std::unexpected(std::move(ended.error()));
  if (ended->outcome.status != RunStatus::kOk || ended->timed_out) {
    co_return Err(ErrorCode::kUnsupported, "the image's python3 did not describe itself");
  }
  std::string text = std::move(ended->output);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  co_return text.substr(text.rfind('\n') + 1);
}

}  // namespace cella::executor
