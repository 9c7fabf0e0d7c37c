// cella.h: what results and events consist of.
#include "library/handles.h"
#include "session/json.h"

using namespace cella;

static_assert(static_cast<int>(RunStatus::kOk) == CELLA_OK && static_cast<int>(RunStatus::kError) == CELLA_ERROR);
static_assert(static_cast<int>(RunStatus::kTimeout) == CELLA_TIMEOUT);
static_assert(static_cast<int>(RunStatus::kCancelled) == CELLA_CANCELLED);
static_assert(static_cast<int>(RunStatus::kOom) == CELLA_OOM && static_cast<int>(RunStatus::kLimit) == CELLA_LIMIT);
static_assert(static_cast<int>(RunStatus::kCrashed) == CELLA_CRASHED);
static_assert(static_cast<int>(RunStatus::kRejected) == CELLA_REJECTED);
static_assert(static_cast<int>(StateAfter::kKept) == CELLA_STATE_KEPT);
static_assert(static_cast<int>(StateAfter::kRolledBack) == CELLA_STATE_ROLLED_BACK);
static_assert(static_cast<int>(StateAfter::kLost) == CELLA_STATE_LOST);
static_assert(static_cast<int>(StateAfter::kNone) == CELLA_STATE_NONE);
static_assert(static_cast<int>(Stream::kStdout) == CELLA_STDOUT && static_cast<int>(Stream::kStderr) == CELLA_STDERR);
static_assert(static_cast<int>(FileChange::Kind::kCreated) == CELLA_CREATED);
static_assert(static_cast<int>(FileChange::Kind::kModified) == CELLA_MODIFIED);
static_assert(static_cast<int>(FileChange::Kind::kDeleted) == CELLA_DELETED);

namespace {

// The parts are what they stand for.
const Outcome& Of(const cella_outcome* outcome) { return *reinterpret_cast<const Outcome*>(outcome); }
const Isolation& Of(const cella_isolation* isolation) { return *reinterpret_cast<const Isolation*>(isolation); }
const MimeBundle& Of(const cella_bundle* bundle) { return *reinterpret_cast<const MimeBundle*>(bundle); }
const FileChange& Of(const cella_file* file) { return *reinterpret_cast<const FileChange*>(file); }
const cella_outcome* Part(const Outcome& outcome) { return reinterpret_cast<const cella_outcome*>(&outcome); }
const cella_isolation* Part(const Isolation& isolation) { return reinterpret_cast<const cella_isolation*>(&isolation); }
const cella_bundle* Part(const MimeBundle& bundle) { return reinterpret_cast<const cella_bundle*>(&bundle); }
const cella_file* Part(const FileChange& file) { return reinterpret_cast<const cella_file*>(&file); }

const char* Text(const std::string& text, size_t* size = nullptr) {
  if (size != nullptr) *size = text.size();
  return text.c_str();
}

const char* Nothing(size_t* size = nullptr) {
  if (size != nullptr) *size = 0;
  return nullptr;
}

template <typename T>
const T* As(const cella_event* event) {
  return std::get_if<T>(&event->event);
}

}  // namespace

extern "C" {

const char* cella_status_name(cella_status status) { return ToString(static_cast<RunStatus>(status)).data(); }

const char* cella_result_id(const cella_result* result) { return Text(result->result.id); }
const char* cella_result_session(const cella_result* result) { return Text(result->result.session); }
const cella_outcome* cella_result_outcome(const cella_result* result) { return Part(result->result.outcome); }
const char* cella_result_output(const cella_result* result, cella_stream stream, size_t* size) {
  return Text(stream == CELLA_STDOUT ? result->result.stdout_text : result->result.stderr_text, size);
}
uint64_t cella_result_dropped(const cella_result* result, cella_stream stream) {
  return stream == CELLA_STDOUT ? result->result.stdout_dropped : result->result.stderr_dropped;
}
const char* cella_result_value(const cella_result* result, size_t* size) {
  return result->result.value ? Text(*result->result.value, size) : Nothing(size);
}
size_t cella_result_output_count(const cella_result* result) { return result->result.outputs.size(); }
const cella_bundle* cella_result_bundle(const cella_result* result, size_t index) {
  return index < result->result.outputs.size() ? Part(result->result.outputs[index]) : nullptr;
}
uint64_t cella_result_outputs_dropped(const cella_result* result) { return result->result.outputs_dropped; }
size_t cella_result_file_count(const cella_result* result) { return result->result.files.size(); }
const cella_file* cella_result_file(const cella_result* result, size_t index) {
  return index < result->result.files.size() ? Part(result->result.files[index]) : nullptr;
}
bool cella_result_files_complete(const cella_result* result) { return result->result.files_complete; }
cella_state cella_result_state(const cella_result* result) { return static_cast<cella_state>(result->result.state); }
const char* cella_result_checkpoint(const cella_result* result) { return Text(result->result.checkpoint); }
const cella_isolation* cella_result_isolation(const cella_result* result) { return Part(result->result.isolation); }
const char* cella_result_json(cella_result* result, size_t* size) {
  auto made = library::Guarded(nullptr, [&]() -> Status {
    if (result->json.empty()) result->json = session::ToJson(result->result);
    return {};
  });
  return made ? Text(result->json, size) : Nothing(size);
}
void cella_result_free(cella_result* result) { delete result; }

cella_status cella_outcome_status(const cella_outcome* outcome) {
  return static_cast<cella_status>(Of(outcome).status);
}
int cella_outcome_exit_code(const cella_outcome* outcome) { return Of(outcome).exit_code; }
int cella_outcome_signal(const cella_outcome* outcome) { return Of(outcome).signal.value_or(0); }
bool cella_outcome_has_error(const cella_outcome* outcome) { return Of(outcome).error.has_value(); }
const char* cella_outcome_error_name(const cella_outcome* outcome, size_t* size) {
  return Of(outcome).error ? Text(Of(outcome).error->name, size) : Nothing(size);
}
const char* cella_outcome_error_message(const cella_outcome* outcome, size_t* size) {
  return Of(outcome).error ? Text(Of(outcome).error->message, size) : Nothing(size);
}
const char* cella_outcome_error_traceback(const cella_outcome* outcome, size_t* size) {
  return Of(outcome).error ? Text(Of(outcome).error->traceback, size) : Nothing(size);
}
double cella_outcome_wall_ms(const cella_outcome* outcome) { return Of(outcome).usage.wall_ms; }
double cella_outcome_cpu_ms(const cella_outcome* outcome) { return Of(outcome).usage.cpu_ms; }
uint64_t cella_outcome_peak_memory(const cella_outcome* outcome) { return Of(outcome).usage.peak_memory; }
uint64_t cella_outcome_displays_dropped(const cella_outcome* outcome) { return Of(outcome).displays_dropped; }

size_t cella_bundle_count(const cella_bundle* bundle) { return Of(bundle).data.size(); }
const char* cella_bundle_type(const cella_bundle* bundle, size_t index, size_t* size) {
  return index < Of(bundle).data.size() ? Text(Of(bundle).data[index].first, size) : Nothing(size);
}
const char* cella_bundle_data(const cella_bundle* bundle, size_t index, size_t* size) {
  return index < Of(bundle).data.size() ? Text(Of(bundle).data[index].second, size) : Nothing(size);
}
const char* cella_bundle_metadata(const cella_bundle* bundle, size_t* size) { return Text(Of(bundle).metadata, size); }

const char* cella_file_path(const cella_file* file, size_t* size) { return Text(Of(file).path, size); }
uint64_t cella_file_size(const cella_file* file) { return Of(file).size; }
cella_change cella_file_change(const cella_file* file) { return static_cast<cella_change>(Of(file).kind); }

const char* cella_isolation_executor(const cella_isolation* isolation) { return Text(Of(isolation).executor); }
size_t cella_isolation_namespace_count(const cella_isolation* isolation) { return Of(isolation).namespaces.size(); }
const char* cella_isolation_namespace(const cella_isolation* isolation, size_t index) {
  return index < Of(isolation).namespaces.size() ? Text(Of(isolation).namespaces[index]) : nullptr;
}
bool cella_isolation_seccomp(const cella_isolation* isolation) { return Of(isolation).seccomp; }
int cella_isolation_landlock(const cella_isolation* isolation) { return Of(isolation).landlock; }
const char* cella_isolation_cgroup(const cella_isolation* isolation) { return Text(Of(isolation).cgroup); }
const char* cella_isolation_network(const cella_isolation* isolation) { return Text(Of(isolation).network); }
const char* cella_isolation_proc(const cella_isolation* isolation) { return Text(Of(isolation).proc); }
const char* cella_isolation_start(const cella_isolation* isolation) { return Text(Of(isolation).start); }
size_t cella_isolation_limit_count(const cella_isolation* isolation) { return Of(isolation).limits.size(); }
const char* cella_isolation_limit(const cella_isolation* isolation, size_t index, double* value, const char** by,
                                  const char** during) {
  if (index >= Of(isolation).limits.size()) return nullptr;
  const auto& [name, limit] = *std::next(Of(isolation).limits.begin(), static_cast<ptrdiff_t>(index));
  if (value != nullptr) *value = limit.value;
  if (by != nullptr) *by = Text(limit.by);
  if (during != nullptr) *during = Text(limit.during);
  return Text(name);
}
size_t cella_isolation_unenforced_count(const cella_isolation* isolation) { return Of(isolation).unenforced.size(); }
const char* cella_isolation_unenforced(const cella_isolation* isolation, size_t index) {
  return index < Of(isolation).unenforced.size() ? Text(Of(isolation).unenforced[index]) : nullptr;
}
size_t cella_isolation_detail_count(const cella_isolation* isolation) { return Of(isolation).details.size(); }
const char* cella_isolation_detail(const cella_isolation* isolation, size_t index, const char** value) {
  if (index >= Of(isolation).details.size()) return nullptr;
  const auto& [name, text] = *std::next(Of(isolation).details.begin(), static_cast<ptrdiff_t>(index));
  if (value != nullptr) *value = Text(text);
  return Text(name);
}

cella_event_kind cella_event_get_kind(const cella_event* event) {
  return static_cast<cella_event_kind>(event->event.index());
}
const char* cella_event_language(const cella_event* event) {
  const auto* started = As<StartedEvent>(event);
  return started ? Text(started->language) : nullptr;
}
const cella_isolation* cella_event_isolation(const cella_event* event) {
  const auto* started = As<StartedEvent>(event);
  return started ? Part(started->isolation) : nullptr;
}
cella_stream cella_event_stream(const cella_event* event) {
  if (const auto* output = As<OutputEvent>(event)) return static_cast<cella_stream>(output->stream);
  if (const auto* truncated = As<TruncatedEvent>(event)) return static_cast<cella_stream>(truncated->stream);
  return CELLA_STDOUT;
}
const char* cella_event_text(const cella_event* event, size_t* size) {
  if (const auto* output = As<OutputEvent>(event)) return Text(output->bytes, size);
  if (const auto* value = As<ValueEvent>(event)) return Text(value->text, size);
  if (const auto* request = As<InputRequestEvent>(event)) return Text(request->prompt, size);
  if (const auto* progress = As<ProgressEvent>(event)) return Text(progress->text, size);
  return Nothing(size);
}
uint64_t cella_event_dropped(const cella_event* event) {
  const auto* truncated = As<TruncatedEvent>(event);
  return truncated ? truncated->dropped : 0;
}
const cella_bundle* cella_event_bundle(const cella_event* event) {
  if (const auto* value = As<ValueEvent>(event)) return Part(value->bundle);
  if (const auto* display = As<DisplayEvent>(event)) return Part(display->bundle);
  return nullptr;
}
const char* cella_event_display_id(const cella_event* event) {
  const auto* display = As<DisplayEvent>(event);
  return display ? Text(display->display_id) : nullptr;
}
bool cella_event_display_update(const cella_event* event) {
  const auto* display = As<DisplayEvent>(event);
  return display != nullptr && display->update;
}
bool cella_event_display_clear(const cella_event* event) {
  const auto* display = As<DisplayEvent>(event);
  return display != nullptr && display->clear;
}
bool cella_event_password(const cella_event* event) {
  const auto* request = As<InputRequestEvent>(event);
  return request != nullptr && request->password;
}
const cella_file* cella_event_file(const cella_event* event) {
  const auto* file = As<FileEvent>(event);
  return file ? Part(file->change) : nullptr;
}
const cella_outcome* cella_event_outcome(const cella_event* event) {
  if (event->failure) return Part(*event->failure);
  const auto* finished = As<FinishedEvent>(event);
  return finished ? Part(finished->outcome) : nullptr;
}
cella_state cella_event_state(const cella_event* event) {
  const auto* finished = As<FinishedEvent>(event);
  return finished ? static_cast<cella_state>(finished->state) : CELLA_STATE_NONE;
}
const char* cella_event_checkpoint(const cella_event* event) {
  const auto* finished = As<FinishedEvent>(event);
  return finished ? Text(finished->checkpoint) : nullptr;
}
const char* cella_event_tool_namespace(const cella_event* event) {
  const auto* tool = As<ToolEvent>(event);
  return tool ? Text(tool->space) : nullptr;
}
const char* cella_event_tool_name(const cella_event* event) {
  const auto* tool = As<ToolEvent>(event);
  return tool ? Text(tool->name) : nullptr;
}
const char* cella_event_tool_status(const cella_event* event) {
  const auto* tool = As<ToolEvent>(event);
  return tool ? Text(tool->status) : nullptr;
}
double cella_event_tool_wall_ms(const cella_event* event) {
  const auto* tool = As<ToolEvent>(event);
  return tool ? tool->wall_ms : 0;
}
void cella_event_free(cella_event* event) { delete event; }

}  // extern "C"

static_assert(std::is_same_v<std::variant_alternative_t<CELLA_EVENT_STARTED, Event>, StartedEvent>);
static_assert(std::is_same_v<std::variant_alternative_t<CELLA_EVENT_OUTPUT, Event>, OutputEvent>);
static_assert(std::is_same_v<std::variant_alternative_t<CELLA_EVENT_TRUNCATED, Event>, TruncatedEvent>);
static_assert(std::is_same_v<std::variant_alternative_t<CELLA_EVENT_VALUE, Event>, ValueEvent>);
static_assert(std::is_same_v<std::variant_alternative_t<CELLA_EVENT_DISPLAY, Event>, DisplayEvent>);
static_assert(std::is_same_v<std::variant_alternative_t<CELLA_EVENT_ERROR, Event>, ErrorEvent>);
static_assert(std::is_same_v<std::variant_alternative_t<CELLA_EVENT_INPUT_REQUEST, Event>, InputRequestEvent>);
static_assert(std::is_same_v<std::variant_alternative_t<CELLA_EVENT_FILE, Event>, FileEvent>);
static_assert(std::is_same_v<std::variant_alternative_t<CELLA_EVENT_FILES_INCOMPLETE, Event>, FilesIncompleteEvent>);
static_assert(std::is_same_v<std::variant_alternative_t<CELLA_EVENT_FINISHED, Event>, FinishedEvent>);
static_assert(std::is_same_v<std::variant_alternative_t<CELLA_EVENT_PROGRESS, Event>, ProgressEvent>);
static_assert(std::is_same_v<std::variant_alternative_t<CELLA_EVENT_TOOL, Event>, ToolEvent>);
