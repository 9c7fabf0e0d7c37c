#include "library/embedded/python_executor.h"

#include <algorithm>

#include "library/embedded/libpython.h"
#include "library/embedded/python_guest.h"
#include "policy/keys.h"

namespace cella::library {
namespace {

using async::Task;

// A limit that nothing can enforce in the application's own process: refused where it was asked for.
Status CheckLimits(const SessionSpec& spec, Isolation* isolation) {
  static constexpr std::string_view kEnforced[] = {"limits.timeout", "limits.output", "limits.calls",
                                                   "limits.calls_at_once", "limits.call_size"};
  for (const policy::Key& key : policy::Keys()) {
    if (!key.name.starts_with("limits.") || std::ranges::find(kEnforced, key.name) != std::end(kEnforced)) continue;
    if (!policy::IsAsked(key, spec)) continue;
    if (!spec.policy.best_effort) {
      return Err(ErrorCode::kUnsupported,
                 "{}: the code shares this process, whose own limits apply; use the executor sandbox, or best_effort",
                 key.name);
    }
    isolation->unenforced.emplace_back(policy::LastPart(key.name));
  }
  const Limits& limits = spec.policy.limits;
  const auto seconds = std::chrono::duration<double>(limits.timeout.value).count();
  isolation->limits["timeout"] = {seconds, "supervisor", ""};
  isolation->limits["output"] = {static_cast<double>(limits.output.value), "supervisor", ""};
  return {};
}

Status CheckPolicy(const Policy& policy) {
  if (!policy.workdir.empty()) {
    return Err(ErrorCode::kUnsupported,
               "workdir: the code shares this process and its working directory: use the executor sandbox or local");
  }
  if (!policy.env.empty()) {
    return Err(ErrorCode::kUnsupported,
               "env: the code shares this process and its environment variables: use the executor sandbox or local");
  }
  return {};
}

}  // namespace

PythonExecutor::PythonExecutor(async::Loop& loop, engine::Installation installation, language::HostEnv host,
                               std::string tmpdir, const language::LanguageTable& table, const sigset_t& signals)
    : loop_(loop),
      installation_(std::move(installation)),
      host_(std::move(host)),
      tmpdir_(std::move(tmpdir)),
      table_(table),
      signals_(signals),
      pool_(loop, {.threads = 2}) {
  executor::LocalScratch::Sweep(tmpdir_);
}

Task<Result<std::unique_ptr<run::Guest>>> PythonExecutor::Open(run::GuestSpec spec, const RunSpec*, run::StopToken) {
  Isolation isolation;
  isolation.executor = "inprocess";
  CO_TRY_VOID(CheckPolicy(spec.policy));
  CO_TRY_VOID(CheckLimits(spec, &isolation));
  auto start = [&] { return StartPython(installation_, host_, spec.policy, signals_); };
  auto started = co_await pool_.Run(start);
  CO_TRY(const EmbeddedPython python, std::move(started));
  isolation.start = "embedded: Python " + python.version;
  isolation.details["runs_as"] = run::kRunsInThisProcess;
  isolation.details["python"] = python.prefix;
  auto guest =
      co_await PythonGuest::Open({loop_, pool_, table_, tmpdir_, python.serve}, std::move(isolation), std::move(spec));
  co_return guest;
}

}  // namespace cella::library
