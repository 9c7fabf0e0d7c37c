#include "cli/run_command.h"

#include <string.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "async/deadline.h"
#include "async/signals.h"
#include "async/task_group.h"
#include "base/units.h"
#include "cli/install_progress.h"
#include "cli/output_sinks.h"
#include "cli/progress_events.h"
#include "cli/run_notes.h"
#include "cli/storage_use.h"
#include "engine/engine.h"
#include "installer/session_packages.h"
#include "policy/keys.h"
#include "session/fold.h"
#include "session/json.h"
#include "session/rejected.h"
#include "session/session.h"

namespace cella::cli {
namespace {

// For our own last words: a terminal that is stopped does not keep us.
constexpr auto kPatience = std::chrono::seconds(2);

// "sandbox: 7 namespaces, seccomp, landlock 7, cgroup v1, network none; memory 1g by cgroup, pids 128 by cgroup"
std::string DescribeIsolation(const Isolation& isolation) {
  std::string text = isolation.executor + ":";
  if (isolation.namespaces.empty()) {
    text += " no jail";
  } else {
    text += fmt::format(" {} namespaces", isolation.namespaces.size());
    if (isolation.seccomp) text += ", seccomp";
    if (isolation.landlock > 0) text += fmt::format(", landlock {}", isolation.landlock);
  }
  text += fmt::format(", cgroup {}, network {}", isolation.cgroup, isolation.network);
  auto memory = isolation.limits.find("memory");
  auto pids = isolation.limits.find("pids");
  if (memory != isolation.limits.end() && pids != isolation.limits.end()) {
    text += fmt::format("; memory {} by {}, pids {} by {}", FormatByteSize(static_cast<uint64_t>(memory->second.value)),
                        memory->second.by, pids->second.value, pids->second.by);
  }
  return text;
}

std::string WithNote(std::string json_object, const std::string& note) {
  if (note.empty()) return json_object;
  json_object.pop_back();  // the last brace
  return fmt::format("{},\"note\":{}}}", json_object, nlohmann::json(note).dump());
}

class Runner {
 public:
  Runner(async::Loop& loop, ParsedRun run)
      : loop_(loop),
        run_(std::move(run)),
        out_(loop, STDOUT_FILENO),
        err_(loop, STDERR_FILENO),
        plain_(out_, err_),
        run_id_(session::NewRunId()),
        ndjson_(out_, run_id_),
        progress_events_(loop, ndjson_),
        stop_(loop) {
    run_.run.id = run_id_;
  }

  ParsedRun& run() { return run_; }

  // For what is installed before the session begins.
  InstallView View() {
    if (run_.rendering != Rendering::kEvents) return {};
    return {[this](std::string_view line) { progress_events_.Show(line); },
            [this] { return progress_events_.Finish(); }};
  }

  async::Task<int> Run(Result<std::unique_ptr<engine::Engine>> engine) {
    const Rendering rendering = run_.rendering;
    run::EventSink* sink = rendering == Rendering::kJson     ? nullptr
                           : rendering == Rendering::kEvents ? static_cast<run::EventSink*>(&ndjson_)
                                                             : &plain_;
    Result<RunResult> result = std::unexpected(Error{});
    if (engine) {
      result = co_await RunUntilSignal(*(*engine)->executor, sink);
    } else {
      result = std::unexpected(std::move(engine.error()));
    }
    if (!result) result = co_await Refused(result.error(), sink);
    if (tells_discarded_) discarded_ = DiscardedFiles(result->files);
    const Outcome& outcome = result->outcome;

    if (rendering == Rendering::kJson) (void)co_await out_.Write(WithNote(session::ToJson(*result), discarded_) + "\n");
    int exit_code = outcome.exit_code;
    if (rendering == Rendering::kPlain) {
      (void)co_await async::WithDeadline(Explain(outcome), async::Clock::now() + kPatience);
    } else if (out_.closed()) {
      exit_code = kExitRejected;
    }
    if (out_.closed()) {
      std::string note =
          fmt::format("cella: standard output is closed ({}); what came after was dropped\n", out_.failure());
      (void)co_await err_.Write(note);
    }
    co_return exit_code;
  }

 private:
  async::Task<Result<RunResult>> RunUntilSignal(run::Executor& executor, run::EventSink* sink) {
    async::StopSignals signals(loop_);
    async::TaskGroup watcher(loop_);
    auto watch = [&]() -> async::Task<void> {
      auto signal = co_await signals.Wait();
      if (signal) (void)stop_.Request(StopReason::kCancel);
    };
    watcher.Add(watch());
    auto result = co_await RunInSession(executor, sink);
    watcher.Cancel();
    co_await watcher.Join();
    co_return result;
  }

  // A session for this run alone.
  async::Task<Result<RunResult>> RunInSession(run::Executor& executor, run::EventSink* sink) {
    session::SessionOptions options;
    options.guest = run_.spec;
    options.guest.checkpoint = CheckpointMode::kOff;
    options.guest.progress = [this](const std::string& line) {
      progress_.Show(line);
      if (run_.rendering == Rendering::kEvents) progress_events_.Show(line);
    };
    session::OutputShape shape;
    const bool keeps = !run_.run.out_dir.empty() || !run_.spec.policy.workdir.empty();
    const bool for_people = run_.summary || isatty(STDERR_FILENO) != 0;
    tells_discarded_ =
        !keeps && (run_.rendering == Rendering::kJson || (for_people && run_.rendering == Rendering::kPlain));
    if (tells_discarded_) run_.run.list_files = true;
    shape.tap = [this](Stream stream, std::string_view bytes) { notes_.See(stream, bytes); };
    const bool caps = run_.rendering != Rendering::kPlain || run_.cap_plain_output;
    if (caps) shape.cap = run_.spec.policy.limits.output.value;
    auto stored = co_await storage_.Open(loop_, run_.spec, &options.spaces);
    if (!stored) co_return std::unexpected(std::move(stored.error()));
    auto session = co_await session::Session::Open(loop_, executor, std::move(options), &run_.run, stop_.token());
    progress_.Clear();
    co_await progress_events_.Finish();
    if (!session) co_return std::unexpected(std::move(session.error()));
    storage_.Attach(**session);
    auto submitted = (*session)->Submit(std::move(run_.run), sink, std::move(shape));
    Result<RunResult> result = Err(ErrorCode::kInternal, "nothing ran");
    if (submitted) {
      const std::shared_ptr<session::Run> run = std::move(*submitted);
      auto pass_on = [&] {
        if (stop_.reason()) (void)run->Stop(*stop_.reason());
      };
      stop_.SetListener(pass_on);
      pass_on();
      (void)co_await run->Ended();
      stop_.SetListener(nullptr);
      result = run->result();
    } else {
      result = std::unexpected(std::move(submitted.error()));
    }
    co_await (*session)->Close();
    storage_.Detach();
    co_return result;
  }

  async::Task<RunResult> Refused(const Error& error, run::EventSink* sink) {
    RunResult result;
    result.id = run_id_;
    result.outcome = session::Rejected(error);
    if (stop_.reason() && error.code == ErrorCode::kClosed) {
      // While the place was made: the image was fetched, say.
      result.outcome.status = RunStatus::kCancelled;
      result.outcome.exit_code = kExitCancelled;
      result.outcome.error = RunError{"Cancelled", "cancelled before the code began", ""};
    }
    if (sink != nullptr) {
      Event finished = FinishedEvent{result.outcome, StateAfter::kNone};
      (void)co_await sink->Emit(std::move(finished));
    }
    co_return result;
  }

  async::Task<bool> Explain(const Outcome& outcome) {
    std::string note;
    if (outcome.error && !(plain_.shows_error() && outcome.status == RunStatus::kError)) {
      note = fmt::format("cella: {}\n", outcome.error->message);
    } else if (outcome.status == RunStatus::kCrashed && outcome.signal) {
      note = fmt::format("cella: ended by signal {} ({})\n", *outcome.signal, strsignal(*outcome.signal));
    }
    if (outcome.status == RunStatus::kError) note += notes_.Advice(run_.spec.executor, run_.spec.policy.network);
    if (!discarded_.empty()) note += fmt::format("cella: {}\n", discarded_);
    const auto& details = plain_.isolation().details;
    if (auto kept = details.find("kept"); kept != details.end()) {
      note += fmt::format("cella: the container stays: {}\n", kept->second);
    }
    if (run_.summary && !plain_.isolation().executor.empty()) {
      note += fmt::format("cella: {} in {:.1f} ms (processor {:.1f} ms, peak {}); {}\n", ToString(outcome.status),
                          outcome.usage.wall_ms, outcome.usage.cpu_ms, FormatByteSize(outcome.usage.peak_memory),
                          DescribeIsolation(plain_.isolation()));
    }
    if (note.empty()) co_return true;
    bool written = co_await err_.Write(note);
    co_return written;
  }

  async::Loop& loop_;
  ParsedRun run_;
  OwnOutput out_;
  OwnOutput err_;
  PlainSink plain_;
  std::string run_id_;
  NdjsonSink ndjson_;
  ProgressEvents progress_events_;
  run::StopSource stop_;
  StorageUse storage_;
  RunNotes notes_;
  InstallProgress progress_;  // of what is fetched before the code begins
  bool tells_discarded_ = false;
  std::string discarded_;
};

// The code whose metadata block names packages; empty: it is not Python's.
std::string_view ScriptOf(const RunOptions& options, const RunSpec& run) {
  const std::string& language = run.blocks.front().language;
  const bool is_python = language == "python" || language == "python3" || language == "py";
  const bool may_be = language.empty() &&
                      (options.has_code || options.file == "-" || run.file.ends_with(".py") || !run.file.contains('.'));
  return is_python || may_be ? std::string_view(run.blocks.front().code) : std::string_view();
}

// The environment that the run is to use; the lease in it lasts as long as the run.
Result<UsedEnvironment> PrepareEnvironment(async::Loop& loop, const RunOptions& options, Runner& runner) {
  ParsedRun& run = runner.run();
  auto used = UseEnvironment(loop, options.packages, ScriptOf(options, run.run), &run.spec.policy, runner.View());
  // Nothing ran: an interpreter or environment that is missing is a refusal like any other.
  if (!used && used.error().code == ErrorCode::kNotFound) used.error().code = ErrorCode::kInvalid;
  return used;
}

}  // namespace

int WrongCommandLine(const Error& error) {
  std::fprintf(stderr, "cella: %s\n", error.message.c_str());
  return kExitWrongCommandLine;
}

int RunCommand(const RunOptions& options) {
  if (auto checked = CheckCommandLine(options); !checked) return WrongCommandLine(checked.error());
  async::Loop loop;
  // Also a refused request is answered in the form that was asked for.
  ParsedRun refused;
  refused.rendering = options.json ? Rendering::kJson : options.events ? Rendering::kEvents : Rendering::kPlain;
  Result<std::unique_ptr<engine::Engine>> engine = nullptr;
  Result<UsedEnvironment> used = UsedEnvironment{};
  std::optional<installer::PackageService> packages;  // outlives the engine's executor
  auto parsed = ParseRun(options);
  Runner runner(loop, parsed ? std::move(*parsed) : std::move(refused));
  if (parsed) {
    used = PrepareEnvironment(loop, options, runner);
    if (used) {
      const SessionSpec& spec = runner.run().spec;
      engine::EngineOptions engine_options{.opened = used->opened};
      if (policy::Takes(spec.executor, "kernel")) {
        packages.emplace(loop, installer::PackageService::Settings{.state_dir = {}, .of_the_user = true, .rules = {}});
        engine_options.opened.readable = packages->ready();
        engine_options.kernel_environments = &*packages;
      }
      engine = engine::MakeEngine(loop, spec.executor, std::move(engine_options));
    } else {
      engine = std::unexpected(std::move(used.error()));
    }
  } else {
    engine = std::unexpected(std::move(parsed.error()));
  }
  auto main = [&]() -> async::Task<int> {
    int exit_code = kExitWrongCommandLine;
    Status known = engine ? CheckLanguage(options.lang, (*engine)->table) : Status{};
    if (known) {
      exit_code = co_await runner.Run(std::move(engine));
    } else {
      (void)WrongCommandLine(known.error());
    }
    if (packages) co_await packages->Close();
    co_return exit_code;
  };
  return loop.Run(main());
}

}  // namespace cella::cli
