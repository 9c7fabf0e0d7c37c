#include "installer/installer_jail.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "async/task_group.h"
#include "session/session.h"

namespace cella::installer {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kTimeout = std::chrono::minutes(15);
constexpr uint64_t kMemory = uint64_t{2} << 30;
constexpr uint64_t kDisk = uint64_t{16} << 30;  // also the largest file
constexpr uint64_t kProcesses = 256;
constexpr uint64_t kMaxAnswer = uint64_t{16} << 20;
constexpr size_t kMaxLine = 300;

// Every jail shows these already.
bool IsShownAnyway(const std::string& path) {
  for (const char* shown : {"/usr/", "/etc/ssl/certs/", "/etc/pki/tls/certs/", "/etc/pki/ca-trust/"}) {
    if (path.starts_with(shown)) return true;
  }
  return false;
}

Result<Policy> PolicyFor(const Operation& operation) {
  Policy policy;
  policy.limits.timeout.value = kTimeout;
  policy.limits.cpu_time.value = kTimeout;
  policy.limits.memory.value = kMemory;
  policy.limits.disk.value = kDisk;
  policy.limits.pids.value = kProcesses;
  policy.network = operation.network ? Network::kHost : Network::kNone;
  policy.python = operation.python.executable;
  policy.env = operation.variables;
  policy.mounts.push_back({operation.writable, operation.writable, MountMode::kReadWrite});
  for (const std::string& path : operation.read_only) {
    std::error_code error;
    const std::string real = std::filesystem::canonical(path, error);
    if (error) return SysErr(error.value(), "'{}'", path);
    if (!IsShownAnyway(path) || !IsShownAnyway(real)) policy.mounts.push_back({real, path, MountMode::kReadOnly});
  }
  return policy;
}

// Hands whole lines of standard error on.
class LineSplitter {
 public:
  explicit LineSplitter(Progress progress) : progress_(std::move(progress)) {}
  void Take(Stream stream, std::string_view bytes) {
    if (stream != Stream::kStderr || !progress_) return;
    for (char c : bytes) {
      if (c == '\n') {
        if (!line_.empty()) progress_(line_);
        line_.clear();
      } else if (line_.size() < kMaxLine && c >= ' ') {
        line_ += c;
      }
    }
  }

 private:
  Progress progress_;
  std::string line_;
};

Result<Json> ReadAnswer(const RunResult& result) {
  const Outcome& outcome = result.outcome;
  if (outcome.status == RunStatus::kCancelled) return Err(ErrorCode::kClosed, "the installation was stopped");
  Json answer = Json::parse(result.stdout_text, nullptr, false);
  if (outcome.status != RunStatus::kOk || !answer.is_object() || !answer.contains("ok")) {
    std::string why = outcome.error ? outcome.error->message : result.stderr_text;
    if (why.size() > 1000) why.erase(0, why.size() - 1000);
    return Err(outcome.status == RunStatus::kTimeout ? ErrorCode::kExhausted : ErrorCode::kUnsupported,
               "the installer ended with '{}': {}", ToString(outcome.status), why);
  }
  if (answer.value("ok", false)) return answer;
  const std::string kind = answer.value("kind", "failed");
  return std::unexpected(Error{
      kind == "unsolvable" || kind == "conflict" || kind == "hostile" ? ErrorCode::kInvalid : ErrorCode::kUnsupported,
      answer.value("message", "the installer gave no reason"), 0});
}

// One program in a jail of its own, from its start to its end.
async::Task<Result<RunResult>> RunAlone(InstallerJail& jail, Policy policy, RunSpec spec, session::OutputShape shape,
                                        run::StopToken stop) {
  session::SessionOptions options;
  options.guest.policy = std::move(policy);
  options.guest.checkpoint = CheckpointMode::kOff;
  spec.as = RunAs::kProgram;
  spec.list_files = false;
  shape.cap = kMaxAnswer;
  auto session = co_await session::Session::Open(jail.loop, jail.executor, std::move(options), &spec, stop);
  if (!session) co_return std::unexpected(std::move(session.error()));
  Result<RunResult> result = Err(ErrorCode::kInternal, "the installer did not run");
  auto submitted = (*session)->Submit(std::move(spec), nullptr, std::move(shape));
  if (submitted) {
    const std::shared_ptr<session::Run> run = std::move(*submitted);
    async::TaskGroup watcher(jail.loop);
    auto watch = [](run::StopToken token, std::shared_ptr<session::Run> watched) -> async::Task<void> {
      if (co_await token.Ending()) (void)watched->Stop(StopReason::kCancel);
    };
    watcher.Add(watch(stop, run));
    (void)co_await run->Ended();
    watcher.Cancel();
    co_await watcher.Join();
    result = run->result();
  } else {
    result = std::unexpected(std::move(submitted.error()));
  }
  co_await (*session)->Close();
  co_return result;
}

bool IsModuleName(std::string_view name) {
  return !name.empty() && name.size() <= 200 && !name.starts_with('.') &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.") ==
             std::string_view::npos;
}

}  // namespace

async::Task<Result<Json>> Perform(InstallerJail& jail, Operation operation, Progress progress, run::StopToken stop) {
  CO_TRY(Policy policy, PolicyFor(operation));
  RunSpec spec;
  spec.blocks.push_back({"python", jail.script});
  spec.file = "installer.py";
  spec.stdin_text = operation.request.dump();
  LineSplitter lines(std::move(progress));
  session::OutputShape shape;
  shape.tap = [&](Stream stream, std::string_view bytes) { lines.Take(stream, bytes); };
  auto result = co_await RunAlone(jail, std::move(policy), std::move(spec), std::move(shape), stop);
  if (!result) co_return std::unexpected(std::move(result.error()));
  co_return ReadAnswer(*result);
}

async::Task<Status> ImportModules(InstallerJail& jail, std::string venv, std::vector<std::string> modules,
                                  run::StopToken stop) {
  for (const std::string& module : modules) {
    if (!IsModuleName(module)) co_return Err(ErrorCode::kInvalid, "preload: '{}' is not the name of a module", module);
    Policy policy;
    policy.venv = venv;
    RunSpec spec;
    spec.blocks.push_back({"python", "import importlib, sys\nimportlib.import_module(sys.argv[1])\n"});
    spec.args = {module};
    auto result = co_await RunAlone(jail, std::move(policy), std::move(spec), {}, stop);
    if (!result) co_return std::unexpected(std::move(result.error()));
    if (result->outcome.status == RunStatus::kOk) continue;
    std::string why = result->stderr_text.substr(0, result->stderr_text.find_last_not_of('\n') + 1);
    why = why.substr(why.rfind('\n') + 1);
    co_return Err(ErrorCode::kInvalid, "preload: the module '{}' cannot be imported: {}", module,
                  why.empty() ? ToString(result->outcome.status) : std::string_view(why));
  }
  co_return Status{};
}

}  // namespace cella::installer
