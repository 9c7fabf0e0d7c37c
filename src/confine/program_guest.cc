#include "confine/program_guest.h"

#include <fcntl.h>

#include "confine/guest_usage.h"
#include "language/detect.h"
#include "os/io.h"

namespace cella::confine {

namespace {

constexpr size_t kPlannedAtOnce = size_t{64} << 10;

// Notes that a program must be asked, and asks none.
class PostponingAsker : public language::ToolAsker {
 public:
  Result<std::string> AskProgram(const language::ToolQuery& query) const override {
    postponed_ = true;
    return Err(ErrorCode::kClosed, "'{}' is asked later", query.argv[0]);
  }
  bool postponed() const { return postponed_; }

 private:
  mutable bool postponed_ = false;
};

}  // namespace

async::Task<Result<language::Plan>> MakePlan(LaunchContext& context, const Policy& policy, const run::BlockTurn& turn,
                                             language::Destination destination, const std::string& scratch_dir,
                                             const std::string& workspace) {
  language::PlanOptions options;
  if (!turn.run.cwd.empty()) options.directory = workspace;
  options.args = turn.run.args;
  options.file_name = turn.run.file;
  options.python = policy.python;
  options.venv = policy.venv;
  options.rootfs = policy.rootfs;
  options.scratch_dir = scratch_dir;
  options.destination = destination;
  options.host = context.HostFor(policy);
  // Its name is made of the code's hash, and of megabytes that takes the time of many requests.
  if (turn.block.code.size() <= kPlannedAtOnce) {
    auto postponing = std::make_shared<PostponingAsker>();
    auto asker = std::exchange(options.host.asker, postponing);
    auto plan = language::MakePlan(context.table, turn.block, options);
    if (!postponing->postponed()) co_return plan;
    options.host.asker = std::move(asker);
  }
  auto ask = [&] { return language::MakePlan(context.table, turn.block, options); };
  auto plan = co_await context.planning->Run(ask);
  co_return plan;
}

std::string ProgramGuest::LanguageOf(const RunSpec& run, const Block& block) const {
  auto found = language::Detect(context_.table, {block.language, run.file, block.code});
  return found ? (*found)->name : block.language;
}

std::string DirectoryOf(const RunSpec& run, const std::string& workspace) {
  if (run.cwd.empty()) return workspace;
  return run.cwd.starts_with('/') ? run.cwd : workspace + "/" + run.cwd;
}

async::Task<Result<std::unique_ptr<run::Execution>>> ProgramGuest::Begin(const run::BlockTurn& turn,
                                                                         run::StopToken stop) {
  auto prepared = co_await Prepare(turn);
  if (!prepared) co_return std::unexpected(std::move(prepared.error()));
  if (stop.ending()) co_return Err(ErrorCode::kClosed, "stopped before it began");
  Program program;
  auto made = co_await PlanFor(turn);
  CO_TRY(program.plan, std::move(made));
  if (!turn.run.out_dir.empty()) {
    auto opened = co_await files_->OpenOut(turn.run.out_dir, spec_.policy.limits.disk.value);
    if (!opened) co_return std::unexpected(std::move(opened.error()));
  }
  reports_files_ = turn.run.list_files || !turn.run.out_dir.empty();
  // What is only saved is itself the result; otherwise the code is not a change that the run made.
  const bool save_only = program.plan.save_only;
  Status ready;
  if (reports_files_ && save_only) ready = co_await files_->Remember();
  static const std::vector<InputFile> kNone;
  if (ready) ready = co_await files_->Fill(turn.first ? turn.run.files : kNone, program.plan, turn.run.runs_file);
  if (ready && reports_files_ && !save_only) ready = co_await files_->Remember();
  if (!ready) co_return std::unexpected(std::move(ready.error()));

  EnvVars variables = GuestEnvVars(Variables(program.plan), program.plan, spec_.policy);
  if (turn.calls && !spec_.spaces.empty() && !call_socket_.empty()) AddCalls(call_socket_, runners_, &variables);
  AddToVariables(&variables);
  program.env = variables.Encode();
  program.search_path = *variables.Find("PATH");
  program.cwd = DirectoryOf(turn.run, cwd_);
  if (turn.stdin_text) {
    CO_TRY(program.standard_input,
           os::MakeMemfd("cella-stdin", std::as_bytes(std::span<const char>(*turn.stdin_text))));
  } else if (turn.first && turn.run.stdin_fd >= 0) {
    program.standard_input.Reset(fcntl(turn.run.stdin_fd, F_DUPFD_CLOEXEC, 3));
    if (!program.standard_input) co_return SysErr(errno, "standard input");
  }
  co_return StartProgram({context_.loop, *jail_, cgroup_, limits_, SharesTree()}, std::move(program));
}

async::Task<Result<run::StateReport>> ProgramGuest::AfterBlock(const run::RunFacts&, run::EventSink& sink) {
  if (reports_files_) {
    auto reported = co_await files_->Report(sink);
    if (!reported) co_return std::unexpected(std::move(reported.error()));
  }
  files_->RemoveCode();
  co_return run::StateReport{};
}

std::optional<uint64_t> ProgramGuest::MemoryUsed() const { return cgroup_ ? cgroup_.MemoryUsed() : std::nullopt; }

async::Task<run::GuestUsage> ProgramGuest::MeasureUsage() {
  return MeasureGuest(context_, jail_ ? &*jail_ : nullptr, cgroup_, {});
}

async::Task<void> ProgramGuest::Close() {
  if (jail_) co_await jail_->End();
}

}  // namespace cella::confine
