// The values of include/cella from the handles of cella.h, and the other way round for what is to be run.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "cella.h"
#include "cella/engine.h"
#include "cella/event.h"
#include "cella/outcome.h"
#include "cella/run.h"

namespace cella::detail {

inline std::string ToText(const char* text, size_t size) { return text ? std::string(text, size) : std::string(); }
inline std::string ToText(const char* text) { return text ? std::string(text) : std::string(); }

// "accessor(arguments..., &size)" as a text.
template <typename Accessor, typename... Arguments>
std::string TextOf(Accessor accessor, Arguments... arguments) {
  size_t size = 0;
  const char* text = accessor(arguments..., &size);
  return ToText(text, size);
}

inline Isolation ToIsolation(const cella_isolation* from) {
  Isolation to;
  to.executor = cella_isolation_executor(from);
  for (size_t i = 0; i < cella_isolation_namespace_count(from); ++i) {
    to.namespaces.emplace_back(cella_isolation_namespace(from, i));
  }
  to.seccomp = cella_isolation_seccomp(from);
  to.landlock = cella_isolation_landlock(from);
  to.cgroup = cella_isolation_cgroup(from);
  to.network = cella_isolation_network(from);
  to.proc = cella_isolation_proc(from);
  to.start = cella_isolation_start(from);
  for (size_t i = 0; i < cella_isolation_limit_count(from); ++i) {
    EnforcedLimit limit;
    const char *by = nullptr, *during = nullptr;
    const char* name = cella_isolation_limit(from, i, &limit.value, &by, &during);
    limit.by = ToText(by);
    limit.during = ToText(during);
    to.limits.emplace(name, std::move(limit));
  }
  for (size_t i = 0; i < cella_isolation_unenforced_count(from); ++i) {
    to.unenforced.emplace_back(cella_isolation_unenforced(from, i));
  }
  for (size_t i = 0; i < cella_isolation_detail_count(from); ++i) {
    const char* value = nullptr;
    const char* name = cella_isolation_detail(from, i, &value);
    to.details.emplace(name, ToText(value));
  }
  return to;
}

inline Outcome ToOutcome(const cella_outcome* from) {
  Outcome to;
  to.status = static_cast<RunStatus>(cella_outcome_status(from));
  to.exit_code = cella_outcome_exit_code(from);
  if (const int signal = cella_outcome_signal(from); signal != 0) to.signal = signal;
  if (cella_outcome_has_error(from)) {
    to.error = RunError{TextOf(cella_outcome_error_name, from), TextOf(cella_outcome_error_message, from),
                        TextOf(cella_outcome_error_traceback, from)};
  }
  to.usage.wall_ms = cella_outcome_wall_ms(from);
  to.usage.cpu_ms = cella_outcome_cpu_ms(from);
  to.usage.peak_memory = cella_outcome_peak_memory(from);
  to.displays_dropped = cella_outcome_displays_dropped(from);
  return to;
}

inline MimeBundle ToBundle(const cella_bundle* from) {
  MimeBundle to;
  for (size_t i = 0; i < cella_bundle_count(from); ++i) {
    to.data.emplace_back(TextOf(cella_bundle_type, from, i), TextOf(cella_bundle_data, from, i));
  }
  to.metadata = TextOf(cella_bundle_metadata, from);
  return to;
}

inline FileChange ToFile(const cella_file* from) {
  FileChange to;
  to.path = TextOf(cella_file_path, from);
  to.size = cella_file_size(from);
  to.kind = static_cast<FileChange::Kind>(cella_file_change(from));
  return to;
}

inline RunResult ToResult(const cella_result* from) {
  RunResult to;
  to.id = cella_result_id(from);
  to.session = cella_result_session(from);
  to.outcome = ToOutcome(cella_result_outcome(from));
  to.stdout_text = TextOf(cella_result_output, from, CELLA_STDOUT);
  to.stderr_text = TextOf(cella_result_output, from, CELLA_STDERR);
  to.stdout_dropped = cella_result_dropped(from, CELLA_STDOUT);
  to.stderr_dropped = cella_result_dropped(from, CELLA_STDERR);
  size_t size = 0;
  if (const char* value = cella_result_value(from, &size)) to.value = std::string(value, size);
  for (size_t i = 0; i < cella_result_output_count(from); ++i) {
    to.outputs.push_back(ToBundle(cella_result_bundle(from, i)));
  }
  to.outputs_dropped = cella_result_outputs_dropped(from);
  for (size_t i = 0; i < cella_result_file_count(from); ++i) to.files.push_back(ToFile(cella_result_file(from, i)));
  to.files_complete = cella_result_files_complete(from);
  to.state = static_cast<StateAfter>(cella_result_state(from));
  to.checkpoint = cella_result_checkpoint(from);
  to.isolation = ToIsolation(cella_result_isolation(from));
  return to;
}

inline Event ToEvent(const cella_event* from) {
  const auto stream = static_cast<Stream>(cella_event_stream(from));
  switch (cella_event_get_kind(from)) {
    case CELLA_EVENT_STARTED:
      return StartedEvent{ToText(cella_event_language(from)), ToIsolation(cella_event_isolation(from))};
    case CELLA_EVENT_OUTPUT: return OutputEvent{stream, TextOf(cella_event_text, from)};
    case CELLA_EVENT_TRUNCATED: return TruncatedEvent{stream, cella_event_dropped(from)};
    case CELLA_EVENT_VALUE: return ValueEvent{TextOf(cella_event_text, from), ToBundle(cella_event_bundle(from))};
    case CELLA_EVENT_DISPLAY:
      return DisplayEvent{ToBundle(cella_event_bundle(from)), ToText(cella_event_display_id(from)),
                          cella_event_display_update(from), cella_event_display_clear(from)};
    case CELLA_EVENT_ERROR: return ErrorEvent{ToOutcome(cella_event_outcome(from)).error.value_or(RunError{})};
    case CELLA_EVENT_INPUT_REQUEST:
      return InputRequestEvent{TextOf(cella_event_text, from), cella_event_password(from)};
    case CELLA_EVENT_FILE: return FileEvent{ToFile(cella_event_file(from))};
    case CELLA_EVENT_FILES_INCOMPLETE: return FilesIncompleteEvent{};
    case CELLA_EVENT_PROGRESS: return ProgressEvent{TextOf(cella_event_text, from)};
    case CELLA_EVENT_TOOL:
      return ToolEvent{ToText(cella_event_tool_namespace(from)), ToText(cella_event_tool_name(from)),
                       ToText(cella_event_tool_status(from)), cella_event_tool_wall_ms(from)};
    case CELLA_EVENT_FINISHED: break;
  }
  return FinishedEvent{ToOutcome(cella_event_outcome(from)), static_cast<StateAfter>(cella_event_state(from)),
                       ToText(cella_event_checkpoint(from))};
}

inline Expected<Handle<cella_run_spec>> FromSpec(const RunSpec& from) {
  if (from.stdin_fd >= 0 || !from.out_dir.empty() || from.runs_file) {
    return Failure{Failure::Code::kUnsupported,
                   "stdin_fd, out_dir and runs_file are not available in the library: use stdin_text and ReadFile"};
  }
  Handle<cella_run_spec> to(cella_run_spec_new());
  if (!to) return Failure{Failure::Code::kExhausted, "no memory is left"};
  cella_run_spec* spec = to.get();
  cella_run_spec_set_id(spec, from.id.c_str());
  for (const Block& block : from.blocks) {
    cella_run_spec_add_block(spec, block.language.c_str(), block.code.data(), block.code.size());
  }
  if (from.as == RunAs::kProgram) cella_run_spec_set_program(spec, from.file.c_str(), from.cwd.c_str());
  for (const std::string& argument : from.args) {
    cella_run_spec_add_argument(spec, argument.data(), argument.size());
  }
  if (from.timeout) cella_run_spec_set_timeout(spec, from.timeout->count());
  if (from.stdin_text) cella_run_spec_set_stdin(spec, from.stdin_text->data(), from.stdin_text->size());
  cella_run_spec_set_answers_input(spec, from.answers_input);
  for (const InputFile& file : from.files) {
    cella_run_spec_add_file(spec, file.name.c_str(), file.content.data(), file.content.size(), file.executable);
  }
  for (const Variable& variable : from.variables) {
    cella_run_spec_add_variable(spec, variable.name.c_str(), static_cast<cella_variable_kind>(variable.kind),
                                variable.data.data(), variable.data.size());
  }
  cella_run_spec_set_list_files(spec, from.list_files);
  return to;
}

}  // namespace cella::detail
