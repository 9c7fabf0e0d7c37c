#include "installer/installer_jail.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "async/task_group.h"
#include "base/text.h"
#include "os/directory.h"
#include "os/io.h"
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
constexpr uint64_t kBuildMemory = uint64_t{4} << 30;
constexpr uint64_t kMaxBuildOutput = uint64_t{64} << 10;
constexpr uint64_t kMaxWheel = uint64_t{1} << 30;
constexpr size_t kShownOutput = 2000;
constexpr size_t kMaxRequires = 100;
constexpr const char* kSourceInside = "/source";

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
// `after`: what is done with the jail's files once the program has ended.
using After = std::function<async::Task<Status>(const RunResult& result, const os::Directory* workspace)>;
async::Task<Result<RunResult>> RunAlone(InstallerJail& jail, Policy policy, RunSpec spec, session::OutputShape shape,
                                        run::StopToken stop, After after = {}) {
  auto pass = co_await jail.turn.EnterOr(stop.Ending());
  if (!pass) co_return Err(ErrorCode::kClosed, "the installation was stopped");
  session::SessionOptions options;
  options.guest.policy = std::move(policy);
  options.guest.checkpoint = CheckpointMode::kOff;
  spec.as = RunAs::kProgram;
  spec.list_files = false;
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
    if (after) {
      auto done = co_await after(*result, (*session)->workspace());
      if (!done) result = std::unexpected(std::move(done.error()));
    }
  } else {
    result = std::unexpected(std::move(submitted.error()));
  }
  co_await (*session)->Close();
  co_return result;
}

// What the program claims of a build. Foreign code ran in it, so that every part is checked.
struct BuildAnswer {
  std::string wheel;
  std::vector<std::string> requires_more;
};

Result<BuildAnswer> ReadBuildAnswer(const RunResult& result, const std::string& package) {
  if (result.outcome.status == RunStatus::kCancelled) return Err(ErrorCode::kClosed, "the installation was stopped");
  const Json json = Json::parse(result.stdout_text, nullptr, false);
  const auto text_of = [&](const char* key) -> std::string {
    auto found = json.is_object() ? json.find(key) : json.end();
    return found != json.end() && found->is_string() ? found->get<std::string>() : "";
  };
  BuildAnswer answer;
  if (result.outcome.status == RunStatus::kOk && json.is_object()) {
    answer.wheel = text_of("wheel");
    if (auto found = json.find("requires"); found != json.end() && found->is_array() && found->size() <= kMaxRequires) {
      for (const Json& each : *found) {
        if (each.is_string()) answer.requires_more.push_back(each.get<std::string>());
      }
    }
    if (!answer.wheel.empty() || !answer.requires_more.empty()) return answer;
  }
  std::string why = text_of("message").substr(0, kShownOutput);
  if (why.empty()) why = fmt::format("it ended with '{}'", ToString(result.outcome.status));
  std::string output = result.stderr_text;
  if (output.size() > kShownOutput) output.erase(0, output.size() - kShownOutput);
  return Err(ErrorCode::kInvalid, "{} cannot be built from its source: {}\n{}", package, ToUtf8Lossy(why),
             ToUtf8Lossy(output));
}

// Blocks.
Status CopyWheel(const os::Directory& workspace, const std::string& name, const std::string& place) {
  if (name.contains('/') || name.contains('\0') || !name.ends_with(".whl") || name.size() > 255) {
    return Err(ErrorCode::kInvalid, "the build left no wheel");
  }
  TRY(os::OpenedFile from, workspace.OpenWithInfo("built/" + name));
  if (from.info.size > kMaxWheel) return Err(ErrorCode::kExhausted, "the build left a wheel that is too large");
  UniqueFd to(::open((place + "/" + name).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!to) return SysErr(errno, "create the wheel");
  std::vector<char> buffer(size_t{1} << 20);
  for (uint64_t copied = 0; copied < from.info.size;) {
    const ssize_t count = ::read(from.fd.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SysErr(errno, "read the wheel");
    if (count == 0) break;
    copied += static_cast<uint64_t>(count);
    if (copied > kMaxWheel) return Err(ErrorCode::kExhausted, "the build left a wheel that is too large");
    TRY_VOID(os::WriteAll(to.get(), std::string_view(buffer.data(), static_cast<size_t>(count))));
  }
  return {};
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
  const bool sources = operation.script == InstallerScript::kSources;
  spec.blocks.push_back({"python", sources ? jail.scripts.sources : jail.scripts.installer});
  spec.file = sources ? "sources.py" : "installer.py";
  spec.stdin_text = operation.request.dump();
  LineSplitter lines(std::move(progress));
  session::OutputShape shape;
  shape.cap = kMaxAnswer;
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
    session::OutputShape shape;
    shape.cap = kMaxAnswer;
    auto result = co_await RunAlone(jail, std::move(policy), std::move(spec), std::move(shape), stop);
    if (!result) co_return std::unexpected(std::move(result.error()));
    if (result->outcome.status == RunStatus::kOk) continue;
    std::string why = result->stderr_text.substr(0, result->stderr_text.find_last_not_of('\n') + 1);
    why = why.substr(why.rfind('\n') + 1);
    co_return Err(ErrorCode::kInvalid, "preload: the module '{}' cannot be imported: {}", module,
                  why.empty() ? ToString(result->outcome.status) : std::string_view(why));
  }
  co_return Status{};
}

async::Task<Result<SourceBuild>> RunSourceBuild(InstallerJail& jail, SourceBuildJob job, Progress progress,
                                                run::StopToken stop) {
  Policy policy;
  policy.limits.timeout.value = kTimeout;
  policy.limits.cpu_time.value = kTimeout;
  policy.limits.memory.value = kBuildMemory;
  policy.limits.disk.value = kBuildMemory;  // the workspace is in memory
  policy.limits.pids.value = kProcesses;
  policy.venv = job.venv;
  policy.mounts.push_back({job.source, kSourceInside, MountMode::kReadOnly});
  RunSpec spec;
  spec.blocks.push_back({"python", jail.scripts.build_source});
  spec.file = "build_source.py";
  const Json request = {
      {"source", fmt::format("{}/{}", kSourceInside, job.file)}, {"backend", job.backend}, {"paths", job.paths}};
  spec.stdin_text = request.dump();
  LineSplitter lines(std::move(progress));
  session::OutputShape shape;
  shape.cap = kMaxBuildOutput;
  shape.tap = [&](Stream stream, std::string_view bytes) { lines.Take(stream, bytes); };
  SourceBuild built;
  auto take = [&](const RunResult& result, const os::Directory* workspace) -> async::Task<Status> {
    CO_TRY(const BuildAnswer answer, ReadBuildAnswer(result, job.package));
    built.requires_more = answer.requires_more;
    if (!built.requires_more.empty()) co_return Status{};
    if (workspace == nullptr) co_return Err(ErrorCode::kInternal, "the build's jail has no workspace");
    auto copy = [&] { return CopyWheel(*workspace, answer.wheel, job.place); };
    auto copied = co_await jail.pool.Run(copy);
    co_return copied;
  };
  auto result = co_await RunAlone(jail, std::move(policy), std::move(spec), std::move(shape), stop, take);
  if (!result) co_return std::unexpected(std::move(result.error()));
  co_return built;
}

}  // namespace cella::installer
