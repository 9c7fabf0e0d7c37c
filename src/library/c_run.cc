// cella.h: what to run, and runs.
#include "library/embedded/libpython.h"
#include "library/handles.h"

using namespace cella;
using namespace cella::library;

static_assert(static_cast<int>(Variable::Kind::kText) == CELLA_VARIABLE_TEXT);
static_assert(static_cast<int>(Variable::Kind::kBytes) == CELLA_VARIABLE_BYTES);
static_assert(static_cast<int>(Variable::Kind::kJson) == CELLA_VARIABLE_JSON);

namespace {

bool IsInThisProcess(const SessionCore& session) { return session.isolation().executor == ToString(kInThisProcess); }

// Nothing is thrown out of here: memory that is exhausted ends the process, as in most C programs.
template <typename Change>
void ChangeSpec(cella_run_spec* spec, Change change) noexcept {
  if (spec != nullptr) change(spec->spec);
}

Status CheckStart(const cella_session* session, const RunSpec& spec) {
  if (session == nullptr) return Err(ErrorCode::kInvalid, "there is no session");
  if (IsInThisProcess(*session->core)) TRY_VOID(CheckInterpreterIsFree());
  if (spec.timeout && spec.timeout->count() <= 0) {
    return Err(ErrorCode::kInvalid, "the time-out of a run must be more than 0");
  }
  return {};
}

Result<std::shared_ptr<RunCore>> Start(cella_session* session, RunSpec spec) {
  TRY_VOID(CheckStart(session, spec));
  auto run = std::make_shared<RunCore>(*session->host, RunCore::Events::kTaken);
  auto submit = [core = session->core, run, spec = std::move(spec)]() mutable -> async::Task<Status> {
    co_return core->Submit(std::move(spec), run);
  };
  TRY_VOID(session->host->Call<void>(std::move(submit)));
  return run;
}

cella_result* RunToEnd(cella_session* session, RunSpec spec, cella_error** error) {
  auto ran = Guarded(error, [&]() -> Result<cella_result*> {
    TRY_VOID(CheckStart(session, spec));
    TRY_VOID(CheckMayWaitForTurn(*session->core->serving()));
    // One message to the loop and one back: the calling thread does not wake up while the code runs.
    TRY(RunResult result, session->core->RunToEnd(std::move(spec)));
    return new cella_result{std::move(result), {}};
  });
  return ran ? *ran : nullptr;
}

Status CheckOurs(const cella_run* run) {
  if (run == nullptr) return Err(ErrorCode::kInvalid, "there is no run");
  if (!run->host->is_ours())
    return Err(ErrorCode::kClosed, "this run belongs to the process that this one is a fork of");
  return {};
}

Status CheckMayWait(const cella_run* run) {
  TRY_VOID(CheckOurs(run));
  TRY_VOID(CheckMayWaitForTurn(*run->serving));
  return run->is_in_this_process ? CheckInterpreterIsFree() : Status{};
}

}  // namespace

extern "C" {

cella_run_spec* cella_run_spec_new(void) { return new (std::nothrow) cella_run_spec; }
void cella_run_spec_free(cella_run_spec* spec) { delete spec; }
void cella_run_spec_set_id(cella_run_spec* spec, const char* id) {
  ChangeSpec(spec, [&](RunSpec& run) { run.id = TextOf(id); });
}
void cella_run_spec_add_block(cella_run_spec* spec, const char* language, const char* code, size_t size) {
  ChangeSpec(spec, [&](RunSpec& run) { run.blocks.push_back({TextOf(language), TextOf(code, size)}); });
}
void cella_run_spec_set_program(cella_run_spec* spec, const char* file, const char* cwd) {
  ChangeSpec(spec, [&](RunSpec& run) {
    run.as = RunAs::kProgram;
    run.file = TextOf(file);
    run.cwd = TextOf(cwd);
  });
}
void cella_run_spec_add_argument(cella_run_spec* spec, const char* argument, size_t size) {
  ChangeSpec(spec, [&](RunSpec& run) { run.args.push_back(TextOf(argument, size)); });
}
void cella_run_spec_set_timeout(cella_run_spec* spec, int64_t nanoseconds) {
  ChangeSpec(spec, [&](RunSpec& run) { run.timeout = std::chrono::nanoseconds(nanoseconds); });
}
void cella_run_spec_set_stdin(cella_run_spec* spec, const void* data, size_t size) {
  ChangeSpec(spec, [&](RunSpec& run) { run.stdin_text = TextOf(static_cast<const char*>(data), size); });
}
void cella_run_spec_set_answers_input(cella_run_spec* spec, bool answers) {
  ChangeSpec(spec, [&](RunSpec& run) { run.answers_input = answers; });
}
void cella_run_spec_add_file(cella_run_spec* spec, const char* name, const void* data, size_t size, bool executable) {
  ChangeSpec(spec, [&](RunSpec& run) {
    run.files.push_back({TextOf(name), TextOf(static_cast<const char*>(data), size), executable});
  });
}
void cella_run_spec_add_variable(cella_run_spec* spec, const char* name, cella_variable_kind kind, const void* data,
                                 size_t size) {
  ChangeSpec(spec, [&](RunSpec& run) {
    run.variables.push_back(
        {TextOf(name), static_cast<Variable::Kind>(kind), TextOf(static_cast<const char*>(data), size)});
  });
}
void cella_run_spec_set_list_files(cella_run_spec* spec, bool list) {
  ChangeSpec(spec, [&](RunSpec& run) { run.list_files = list; });
}

cella_result* cella_session_run(cella_session* session, const char* code, size_t size, cella_error** error) {
  RunSpec spec;
  auto fill = Guarded(error, [&]() -> Status {
    spec.blocks.push_back({"python", TextOf(code, size)});
    return {};
  });
  return fill ? RunToEnd(session, std::move(spec), error) : nullptr;
}

cella_result* cella_session_run_spec(cella_session* session, const cella_run_spec* spec, cella_error** error) {
  auto copy = Guarded(error, [&]() -> Result<RunSpec> {
    if (spec == nullptr) return Err(ErrorCode::kInvalid, "there is no spec");
    return spec->spec;
  });
  return copy ? RunToEnd(session, std::move(*copy), error) : nullptr;
}

cella_run* cella_session_start(cella_session* session, const cella_run_spec* spec, cella_error** error) {
  auto started = Guarded(error, [&]() -> Result<cella_run*> {
    if (spec == nullptr) return Err(ErrorCode::kInvalid, "there is no spec");
    TRY(std::shared_ptr<RunCore> run, Start(session, spec->spec));
    return new cella_run{session->host, std::move(run), session->core->serving(), IsInThisProcess(*session->core)};
  });
  return started ? *started : nullptr;
}

cella_next cella_run_next(cella_run* run, int64_t nanoseconds, cella_event** event, cella_error** error) {
  if (event != nullptr) *event = nullptr;
  auto next = Guarded(error, [&]() -> Result<cella_next> {
    TRY_VOID(CheckMayWait(run));
    if (event == nullptr) return Err(ErrorCode::kInvalid, "there is no place for the event");
    std::optional<std::chrono::steady_clock::time_point> until;
    if (nanoseconds >= 0) until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(nanoseconds);
    auto taken = std::make_unique<cella_event>();
    switch (run->core->Take(until, &taken->event)) {
      case RunCore::Next::kNothingYet: return CELLA_NEXT_NOTHING_YET;
      case RunCore::Next::kEnd: return CELLA_NEXT_END;
      case RunCore::Next::kEvent: break;
    }
    if (auto* failed = std::get_if<ErrorEvent>(&taken->event)) {
      taken->failure.emplace().status = RunStatus::kError;
      taken->failure->error = std::move(failed->error);
    }
    *event = taken.release();
    return CELLA_NEXT_EVENT;
  });
  return next ? *next : CELLA_NEXT_ERROR;
}

cella_result* cella_run_wait(cella_run* run, cella_error** error) {
  auto waited = Guarded(error, [&]() -> Result<cella_result*> {
    TRY_VOID(CheckMayWait(run));
    return new cella_result{run->core->Wait(), {}};
  });
  return waited ? *waited : nullptr;
}

void cella_run_cancel(cella_run* run) {
  if (CheckOurs(run)) run->core->Stop(StopReason::kCancel);
}
void cella_run_interrupt(cella_run* run) {
  if (CheckOurs(run)) run->core->Stop(StopReason::kInterrupt);
}

bool cella_run_reply(cella_run* run, const char* text, size_t size, cella_error** error) {
  return Guarded(error,
                 [&]() -> Status {
                   TRY_VOID(CheckOurs(run));
                   std::optional<std::string> line;
                   if (text != nullptr) line = std::string(text, size);
                   return run->core->Reply(std::move(line));
                 })
      .has_value();
}

void cella_run_free(cella_run* run) {
  if (run == nullptr || !run->host->is_ours()) return;
  run->core->Discard();
  delete run;
}

}  // extern "C"
