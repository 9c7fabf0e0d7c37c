#include "executor/subprocess/subprocess_guest.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/text.h"
#include "confine/guest_usage.h"
#include "executor/subprocess/kernel_execution.h"
#include "executor/subprocess/kernel_messages.h"
#include "executor/subprocess/prelude.h"
#include "executor/values.h"
#include "language/plan.h"
#include "os/unix_listener.h"

namespace cella::executor {
namespace {

using namespace std::chrono_literals;
using jupyter::Channel;
using jupyter::Json;

// The first completion of a session reads the modules that it knows.
constexpr auto kAnswerPatience = 20s;

constexpr const char* kConnectionDetail = "connection_file";

// R shows values as displays.
constexpr run::Traits kCellsWithoutValue{
    .state = true, .value = false, .errors = true, .display = true, .input = true, .interrupt = true};

// What assigns values in a kernel of this language; null: none is known.
const char* ValuesCode(std::string_view language) {
  if (language == "python") return kValuesPrelude;
  return language == "javascript" || language == "typescript" ? kJavaScriptValues : nullptr;
}

Json CompletionOf(const Json& reply) {
  std::vector<std::string> matches;
  if (auto found = reply.find("matches"); found != reply.end() && found->is_array()) {
    for (const Json& match : *found) {
      if (match.is_string()) matches.push_back(match.get<std::string>());
    }
  }
  auto start = std::max<int64_t>(0, jupyter::Number(reply, "cursor_start"));
  const auto end = std::max<int64_t>(0, jupyter::Number(reply, "cursor_end"));
  // Without jedi IPython 9 completes "os.pa" by ".path". The dot is there already.
  const auto has_dot = [](const std::string& match) { return match.starts_with('.'); };
  if (start < end && !matches.empty() && std::ranges::all_of(matches, has_dot)) {
    for (std::string& match : matches) match.erase(0, 1);
    ++start;
  }
  return {{"type", "completion"}, {"matches", matches}, {"start", start}, {"end", end}};
}

}  // namespace

async::Task<Result<std::unique_ptr<SubprocessGuest>>> SubprocessGuest::Open(Host host, LocalScratch scratch,
                                                                            run::GuestSpec spec, run::StopToken stop) {
  std::unique_ptr<SubprocessGuest> guest(new SubprocessGuest(host, std::move(scratch), std::move(spec)));
  const Policy& policy = guest->spec_.policy;
  const auto confinement = policy.jail ? confine::Confinement::kJail : confine::Confinement::kNone;
  const auto machine = confine::ObserveMachine(host.context.cgroups, confinement, policy.workdir.empty());
  CO_TRY(guest->limits_, confine::PlanSessionLimits(policy, machine));
  for (const char* name : {"/workspace", "/scratch", "/kernel"}) {
    const std::string path = guest->scratch_.path() + name;
    if (mkdir(path.c_str(), 0700) < 0) co_return SysErr(errno, "create '{}'", path);
  }
  auto chosen = co_await guest->Choose(stop);
  if (!chosen) co_return std::unexpected(std::move(chosen.error()));
  if (!policy.jail) CO_TRY_VOID(guest->OpenWorkdir());
  if (!guest->spec_.spaces.empty()) {
    confine::AddCalls(guest->CallSocketPath(), guest->RunnersSeen(), &guest->choice_.variables);
    if (guest->MayAddPackages()) guest->AddPackagePrograms(&guest->choice_.variables);
    guest->choice_.command.env = guest->choice_.variables.Encode();
    guest->choice_.command.search_path = *guest->choice_.variables.Find("PATH");
  }
  auto started = co_await guest->EnsureKernel(stop);
  if (!started) {
    co_await guest->Close();
    co_return std::unexpected(std::move(started.error()));
  }
  co_return guest;
}

async::Task<bool> SubprocessGuest::IsReady() {
  if (!kernel_) co_return false;
  // The report of its end, if it ended.
  co_await kernel_->Wait(async::Clock::now());
  co_return !kernel_->ended();
}

async::Task<Status> SubprocessGuest::Choose(run::StopToken stop) {
  Policy policy = spec_.policy;
  if (policy.kernel.empty()) {
    auto python = co_await ChooseSessionPython(context_, host_.environments, policy, scratch_.path() + "/venv", stop);
    if (!python) co_return std::unexpected(std::move(python.error()));
    python_ = std::move(*python);
    policy.venv = python_.venv;
    policy.python = python_.python;
  }
  auto choice =
      co_await ChooseKernel(context_, host_.local, host_.kernels, policy, python_.bins, scratch_.path() + "/scratch");
  if (!choice) co_return std::unexpected(std::move(choice.error()));
  choice_ = std::move(*choice);
  if (python_.fresh) {
    kind_ = KernelKind{.base = python_.base,
                       .version = python_.version,
                       .sites = python_.sites,
                       .named = {policy.env.begin(), policy.env.end()},
                       .inherit_env = policy.inherit_env,
                       .lease = python_.lease};
    zygote_env_ = choice_.command.env;
  }
  co_return Status{};
}

async::Task<std::optional<confine::InitProcess>> SubprocessGuest::TakeCopy() {
  if (!kind_) co_return std::nullopt;
  if (host_.ahead) co_await host_.zygotes.Prepare(*kind_, zygote_env_, python_.venv);
  auto copy = co_await host_.zygotes.Take(*kind_);
  co_return copy;
}

async::Task<Result<bool>> SubprocessGuest::AddKernelTo(const Error& failure, run::StopToken stop) {
  const bool lacks_it = failure.message.find("No module named 'ipykernel'") != std::string::npos;
  if (choice_.python.empty() || !lacks_it) co_return false;
  const bool named = !spec_.policy.venv.empty() && python_.environment.empty() && !python_.fresh;
  if (!named || !spec_.runtime_deps || host_.environments == nullptr) {
    co_return Err(ErrorCode::kNotFound, "'{}' has no ipykernel: run '{} -m pip install ipykernel', or name a kernel",
                  choice_.python, choice_.python);
  }
  auto added = co_await AddIpykernel(context_, *host_.environments, spec_.policy, stop);
  if (!added) {
    co_return std::unexpected(std::move(added.error())
                                  .WithContext(fmt::format("'{}' has no ipykernel, and it cannot be "
                                                           "installed",
                                                           choice_.python)));
  }
  co_return true;
}

// Without a jail the directory of the session is private to the user who runs cella.
std::string SubprocessGuest::CallSocketPath() const {
  return spec_.policy.jail ? jail::kCallSocket : scratch_.path() + "/calls";
}

async::Task<Result<UniqueFd>> SubprocessGuest::Listen() {
  if (!place_->is_jail()) co_return os::ListenUnix(CallSocketPath(), run::kCallBacklog);
  auto listener = co_await place_->jail.Listen();
  co_return listener;
}

Status SubprocessGuest::OpenWorkdir() {
  const std::string workspace = scratch_.path() + "/workspace";
  const std::string& workdir = spec_.policy.workdir.empty() ? workspace : spec_.policy.workdir;
  std::array<char, PATH_MAX> real;
  if (realpath(workdir.c_str(), real.data()) == nullptr) return SysErr(errno, "workdir '{}'", workdir);
  choice_.command.cwd = real.data();
  UniqueFd directory(open(real.data(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return SysErr(errno, "workdir '{}'", workdir);
  files_.emplace(os::Directory(std::move(directory), std::nullopt), confine::WhoseFiles(spec_.policy), *context_.files);
  return {};
}

// Without a jail the tree ends with the kernel; a jail stays, since it holds the files.
async::Task<Status> SubprocessGuest::EnsurePlace() {
  if (place_ && !place_->jail.gone()) co_return Status{};
  if (place_ && place_->is_jail()) co_return Err(ErrorCode::kClosed, "the session's jail was ended from outside");
  const Policy& policy = spec_.policy;
  Result<std::unique_ptr<KernelPlace>> place;
  if (policy.jail) {
    place = co_await OpenJail(context_, spec_, choice_.plan, &limits_);
  } else {
    auto root = co_await TakeCopy();
    place = co_await OpenTree(context_, limits_, std::move(root));
  }
  if (!place) co_return std::unexpected(std::move(place.error()));
  place_ = std::move(*place);
  isolation_ = place_->isolation;
  if (place_->is_jail()) {
    CO_TRY(os::Directory workspace, place_->workspace->Duplicate());
    files_.emplace(std::move(workspace), confine::WhoseFiles(policy), *context_.files);
    choice_.command.cwd = "/workspace";
  } else {
    isolation_.cgroup = os::Name(context_.cgroups.version());
    isolation_.limits = limits_.enforced;
    isolation_.unenforced = limits_.unenforced;
  }
  isolation_.executor = "subprocess";
  isolation_.start =
      fmt::format("{}: {}", place_->forks ? "fork" : "exec",
                  choice_.python.empty() ? fmt::format("kernel '{}'", choice_.command.name) : python_.description);
  co_return Status{};
}

async::Task<Result<std::unique_ptr<KernelProcess>>> SubprocessGuest::StartKernel(bool tcp, run::StopToken stop) {
  const std::string host = fmt::format("{}/kernel/{}", scratch_.path(), ++starts_);
  if (mkdir(host.c_str(), 0700) < 0) co_return SysErr(errno, "create '{}'", host);
  CO_TRY(KernelDirectory directory, MakeKernelDirectory(*place_, host));
  const async::TimePoint deadline = async::Clock::now() + spec_.policy.startup_timeout;
  auto kernel = co_await KernelProcess::Start(context_, *place_, limits_, choice_.command, std::move(directory), tcp,
                                              deadline, stop);
  co_return kernel;
}

// Between the choice of free ports and the kernel's start another process may take one. The kernel then ends.
async::Task<Result<std::unique_ptr<KernelProcess>>> SubprocessGuest::StartWithPorts(run::StopToken stop) {
  constexpr int kAttempts = 3;
  for (int attempt = 1;; ++attempt) {
    auto kernel = co_await StartKernel(true, stop);
    const bool taken = !kernel && kernel.error().message.find("ddress already in use") != std::string::npos;
    if (!taken || attempt == kAttempts) co_return kernel;
    co_await EndKernel();
    auto placed = co_await EnsurePlace();
    if (!placed) co_return std::unexpected(std::move(placed.error()));
  }
}

async::Task<Status> SubprocessGuest::EnsureKernel(run::StopToken stop) {
  if (kernel_ && !kernel_->ended()) {
    // It may have ended since the last run: its report is there then.
    co_await kernel_->Wait(async::Clock::now());
    if (!kernel_->ended()) co_return Status{};
  }
  co_await EndKernel();
  auto placed = co_await EnsurePlace();
  if (!placed) co_return placed;
  bool tcp = host_.tcp_kernels.contains(spec_.policy.kernel);
  auto kernel = tcp ? co_await StartWithPorts(stop) : co_await StartKernel(false, stop);
  if (!kernel) {
    auto added = co_await AddKernelTo(kernel.error(), stop);
    if (!added) co_return std::unexpected(std::move(added.error()));
    if (*added) {
      co_await EndKernel();
      placed = co_await EnsurePlace();
      if (!placed) co_return placed;
      auto again = co_await StartKernel(tcp, stop);
      kernel = std::move(again);
    }
  }
  // A kernelspec may know no sockets but ports.
  const bool retries = !kernel && !tcp && !spec_.policy.kernel.empty() && !spec_.policy.jail &&
                       kernel.error().code == ErrorCode::kUnsupported;
  if (retries) {
    co_await EndKernel();
    placed = co_await EnsurePlace();
    if (!placed) co_return placed;
    auto again = co_await StartWithPorts(stop);
    if (again) {
      host_.tcp_kernels.insert(spec_.policy.kernel);
      kernel = std::move(again);
    } else if (again.error().message != kernel.error().message) {
      kernel = Err(kernel.error().code, "{}; started with ports: {}", kernel.error().message, again.error().message);
    }
  }
  if (!kernel) {
    const bool may_need_ports =
        spec_.policy.jail && !spec_.policy.kernel.empty() && kernel.error().code == ErrorCode::kUnsupported;
    if (may_need_ports)
      kernel.error().message += "; a kernel that needs ports (transport tcp) does not start in a jail";
    co_return std::unexpected(std::move(kernel.error()));
  }
  kernel_ = std::move(*kernel);
  if (!place_->is_jail()) isolation_.details[kConnectionDetail] = kernel_->connection_file();
  auto prepared = co_await Prepare();
  if (!prepared) co_await EndKernel();  // no run must begin in it
  co_return prepared;
}

// What an IPython kernel executes first, silently: the user's first cell is In[1].
async::Task<Status> SubprocessGuest::Prepare() {
  const bool assignments = spec_.policy.values_of_assignments;
  if (kernel_->info().implementation != "ipython") {
    if (!assignments) co_return Status{};
    co_return Err(ErrorCode::kUnsupported, "value_of: kernel '{}' has no values of assignments", choice_.command.name);
  }
  std::string code = std::string(kPrelude) + (assignments ? kValuesOfAssignments : "");
  if (!spec_.spaces.empty()) {
    code +=
        fmt::format(kCallsPrelude, jupyter::Dump(Json(RunnersSeen() + "/python")), jupyter::Dump(Json(spec_.spaces)));
  }
  takes_packages_ = MayAddPackages();
  packages_changed_ = false;
  if (takes_packages_) code += PackagesCode();
  auto ran = co_await RunQuietly(std::move(code), async::Clock::now() + spec_.policy.startup_timeout);
  co_return ran;
}

// An Error also if the code raised.
async::Task<Status> SubprocessGuest::RunQuietly(std::string code, async::TimePoint deadline) {
  Json content = {{"code", std::move(code)}, {"silent", true},         {"store_history", false},
                  {"allow_stdin", false},    {"stop_on_error", false}, {"user_expressions", Json::object()}};
  auto reply = co_await kernel_->Query(Channel::kShell, "execute_request", jupyter::Dump(content), deadline);
  if (!reply) co_return std::unexpected(std::move(reply.error()));
  const auto answer = jupyter::ParseObject(reply->content);
  if (answer && jupyter::Text(*answer, "status") == "error") {
    co_return Err(ErrorCode::kInvalid, "{}: {}", jupyter::Text(*answer, "ename"), jupyter::Text(*answer, "evalue"));
  }
  co_return Status{};
}

bool SubprocessGuest::takes_values(std::string_view language) const {
  return ValuesCode(choice_.language) != nullptr && CheckLanguage(std::string(language)).has_value();
}

// The values are in files, so that no size is too large for the kernel's messages.
async::Task<Status> SubprocessGuest::AssignValues(const std::vector<Variable>& variables) {
  PlacedValues placed;
  const ValueWriter writer = WriterInto(*context_.decoding, files_->directory());
  auto done = co_await PlaceValues(variables, choice_.command.cwd, PlaceInFiles::kAll, writer, &placed);
  if (done) {
    Json values = Json::array();
    for (const runner::Value& value : placed.values) {
      values.push_back({value.name, runner::WordOf(value.kind), value.file});
    }
    std::string code = fmt::format(fmt::runtime(ValuesCode(choice_.language)), jupyter::Dump(values));
    done = co_await RunQuietly(std::move(code), async::Clock::now() + kAnswerPatience);
  }
  RemoveValues(files_->directory(), &placed.files);
  co_return done;
}

async::Task<void> SubprocessGuest::EndKernel() {
  if (kernel_) co_await kernel_->End();
  kernel_.reset();
  // A run reports it before the next kernel has started.
  if (isolation_.details.contains(kConnectionDetail)) {
    isolation_.details[kConnectionDetail] =
        fmt::format("{}/kernel/{}/{}", scratch_.path(), starts_ + 1, kConnectionFile);
  }
  if (place_ && !place_->is_jail()) {
    co_await place_->jail.End();
    place_.reset();
  }
  std::error_code ignored;
  std::filesystem::remove_all(fmt::format("{}/kernel/{}", scratch_.path(), starts_), ignored);
}

const run::Traits& SubprocessGuest::traits(std::string_view) const {
  return choice_.language == "r" || choice_.language == "R" ? kCellsWithoutValue : run::kCells;
}

// The kernel decides the language.
Status SubprocessGuest::CheckLanguage(const std::string& asked) const {
  if (asked.empty() || asked == choice_.language) return {};
  const language::Language* language = context_.table.Find(asked);
  if (language != nullptr && language->name == choice_.language) return {};
  return Err(ErrorCode::kInvalid, "this session's kernel '{}' runs {}, not '{}': use another session for it",
             choice_.command.name, choice_.language.empty() ? "its own language" : choice_.language, asked);
}

async::Task<Result<std::unique_ptr<run::Execution>>> SubprocessGuest::Begin(const run::BlockTurn& turn,
                                                                            run::StopToken stop) {
  CO_TRY_VOID(CheckLanguage(turn.block.language));
  auto ensured = co_await EnsureKernel(stop);
  if (!ensured) co_return std::unexpected(std::move(ensured.error()));
  if (stop.ending()) co_return Err(ErrorCode::kClosed, "stopped before it began");
  auto shown = co_await ShowPackages();
  if (!shown) co_return std::unexpected(std::move(shown.error()));
  if (!turn.run.out_dir.empty()) {
    auto opened = co_await files_->OpenOut(turn.run.out_dir, spec_.policy.limits.disk.value);
    if (!opened) co_return std::unexpected(std::move(opened.error()));
  }
  reports_files_ = turn.run.list_files || !turn.run.out_dir.empty();
  Status ready;
  if (turn.first) ready = co_await files_->WriteInputs(turn.run.files);
  if (!ready) co_return std::unexpected(std::move(ready.error()));
  if (turn.first && !turn.run.variables.empty()) {
    auto assigned = co_await AssignValues(turn.run.variables);
    if (!assigned) co_return std::unexpected(std::move(assigned.error()).WithContext("variables"));
  }
  if (reports_files_) ready = co_await files_->Remember();
  if (!ready) co_return std::unexpected(std::move(ready.error()));
  auto execution = std::make_unique<KernelExecution>(context_.loop, *kernel_, *context_.planning, limits_);
  CO_TRY_VOID(execution->Begin(turn));
  co_return std::unique_ptr<run::Execution>(std::move(execution));
}

async::Task<Result<run::StateReport>> SubprocessGuest::AfterBlock(const run::RunFacts& facts, run::EventSink& sink) {
  if (reports_files_) {
    auto reported = co_await files_->Report(sink);
    if (!reported) co_return std::unexpected(std::move(reported.error()));
  }
  const bool lost = !facts.answer || facts.still_running || kernel_->ended();
  if (lost) co_await EndKernel();
  co_return run::StateReport{lost ? StateAfter::kLost : StateAfter::kKept, "off"};
}

async::Task<Result<std::string>> SubprocessGuest::Ask(const std::string& language, CodeQuestion question,
                                                      std::string code, size_t cursor) {
  CO_TRY_VOID(CheckLanguage(language));
  auto ensured = co_await EnsureKernel({});
  if (!ensured) co_return std::unexpected(std::move(ensured.error()));
  Json content = {{"code", ToUtf8Lossy(code)}, {"cursor_pos", cursor}};
  const char* type = "complete_request";
  if (question == CodeQuestion::kInspect) {
    type = "inspect_request";
    content["detail_level"] = 0;
  } else if (question == CodeQuestion::kIsComplete) {
    type = "is_complete_request";
    content.erase("cursor_pos");
  }
  auto reply =
      co_await kernel_->Query(Channel::kShell, type, jupyter::Dump(content), async::Clock::now() + kAnswerPatience);
  if (!reply) co_return std::unexpected(std::move(reply.error()));
  const auto parsed = jupyter::ParseObject(reply->content);
  if (!parsed) co_return Err(ErrorCode::kInternal, "the kernel's {} cannot be read", reply->type);
  Json answer;
  switch (question) {
    case CodeQuestion::kComplete: answer = CompletionOf(*parsed); break;
    case CodeQuestion::kInspect:
      answer = {{"type", "inspection"},
                {"found", jupyter::Flag(*parsed, "found")},
                {"text", StripAnsi(jupyter::Text(jupyter::Object(*parsed, "data"), "text/plain"))}};
      break;
    case CodeQuestion::kIsComplete: {
      const std::string status = jupyter::Text(*parsed, "status");
      answer = {{"type", "completeness"},
                {"status", status == "incomplete" || status == "invalid" ? status : "complete"}};
      break;
    }
  }
  co_return jupyter::Dump(answer);
}

async::Task<Status> SubprocessGuest::Reset() {
  co_await EndKernel();
  auto ensured = co_await EnsureKernel({});
  co_return ensured;
}

std::optional<uint64_t> SubprocessGuest::MemoryUsed() const {
  return place_ && place_->cgroup ? place_->cgroup.MemoryUsed() : std::nullopt;
}

async::Task<run::GuestUsage> SubprocessGuest::MeasureUsage() {
  if (!place_) co_return run::GuestUsage{};
  const bool has_kernel = kernel_ && !kernel_->ended();
  auto usage = co_await confine::MeasureGuest(context_, &place_->jail, place_->cgroup, {});
  usage.alive = usage.alive && has_kernel;
  co_return usage;
}

async::Task<void> SubprocessGuest::Close() {
  co_await EndKernel();
  if (place_) co_await place_->jail.End();
  place_.reset();
}

}  // namespace cella::executor
