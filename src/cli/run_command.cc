#include "cli/run_command.h"

#include <string.h>
#include <unistd.h>

#include <memory>

#include "async/deadline.h"
#include "async/event.h"
#include "async/signals.h"
#include "async/task_group.h"
#include "base/units.h"
#include "cli/output_sinks.h"
#include "session/capped_sink.h"
#include "session/engine.h"
#include "session/fold.h"
#include "session/json.h"
#include "session/rejected.h"

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

class Runner {
 public:
  Runner(async::Loop& loop, ParsedRun run)
      : loop_(loop),
        run_(std::move(run)),
        out_(loop, STDOUT_FILENO),
        err_(loop, STDERR_FILENO),
        plain_(out_, err_),
        run_id_(session::NewRunId()),
        fold_(run_id_),
        ndjson_(out_, run_id_) {}

  async::Task<int> Run(Result<std::unique_ptr<session::Engine>> engine) {
    const Rendering rendering = run_.rendering;
    executor::EventSink& last = rendering == Rendering::kJson     ? static_cast<executor::EventSink&>(fold_)
                                : rendering == Rendering::kEvents ? static_cast<executor::EventSink&>(ndjson_)
                                                                  : plain_;
    session::CappedSink capped(last, run_.request.policy.limits.output.value);
    const bool caps = rendering != Rendering::kPlain || run_.cap_plain_output;
    executor::EventSink& sink = caps ? static_cast<executor::EventSink&>(capped) : last;

    Result<Outcome> result = std::unexpected(Error{});
    if (engine) {
      result = co_await RunCancellable(*(*engine)->executor, sink);
    } else {
      result = std::unexpected(std::move(engine.error()));
    }
    Outcome outcome = result ? std::move(*result) : session::Rejected(result.error());
    if (caps) co_await capped.Flush();
    Event finished = FinishedEvent{outcome, StateAfter::kNone};
    (void)co_await last.Emit(std::move(finished));

    if (rendering == Rendering::kJson) (void)co_await out_.Write(session::ToJson(fold_.Take()) + "\n");
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
  async::Task<Result<Outcome>> RunCancellable(executor::Executor& executor, executor::EventSink& sink) {
    async::Event cancel(loop_);
    async::StopSignals stop(loop_);
    async::TaskGroup watcher(loop_);
    auto watch = [&]() -> async::Task<void> {
      auto signal = co_await stop.Wait();
      if (signal) cancel.Set();
    };
    watcher.Add(watch());
    auto outcome = co_await executor.Run(std::move(run_.request), sink, cancel);
    watcher.Cancel();
    co_await watcher.Join();
    co_return outcome;
  }

  async::Task<bool> Explain(const Outcome& outcome) {
    std::string note;
    if (outcome.error) {
      note = fmt::format("cella: {}\n", outcome.error->message);
    } else if (outcome.status == RunStatus::kCrashed && outcome.signal) {
      note = fmt::format("cella: ended by signal {} ({})\n", *outcome.signal, strsignal(*outcome.signal));
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
  session::ResultFold fold_;
  NdjsonSink ndjson_;
};

}  // namespace

int RunCommand(const RunOptions& options) {
  async::Loop loop;
  ParsedRun run;
  // Also a refused request is answered in the form that was asked for.
  run.rendering = options.json ? Rendering::kJson : options.events ? Rendering::kEvents : Rendering::kPlain;
  Result<std::unique_ptr<session::Engine>> engine = nullptr;
  if (auto parsed = ParseRun(options)) {
    run = std::move(*parsed);
    engine = session::MakeEngine(loop, run.executor);
  } else {
    engine = std::unexpected(std::move(parsed.error()));
  }
  Runner runner(loop, std::move(run));
  return loop.Run(runner.Run(std::move(engine)));
}

}  // namespace cella::cli
