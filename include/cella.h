/* The C interface of libcella: run code in sessions of their own. docs/library.md explains it; C++ has cella/session.h.
 *
 * Every function may be called by any thread. A function that can fail returns NULL or false, and stores an error where
 * `error` points (NULL: the caller does not want it), which the caller frees. Texts are UTF-8 and end with a NUL, which
 * their size does not count; what a guest wrote may contain others. What an accessor returns lives as long as the
 * handle that it was asked of. Freeing NULL does nothing. */
#ifndef CELLA_H
#define CELLA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cella_error cella_error;
typedef struct cella_engine cella_engine;
typedef struct cella_session cella_session;
typedef struct cella_run_spec cella_run_spec;
typedef struct cella_run cella_run;
typedef struct cella_event cella_event;
typedef struct cella_result cella_result;
typedef struct cella_bytes cella_bytes;
typedef struct cella_listing cella_listing;
typedef struct cella_call cella_call;
/* Parts of results and events; never freed. */
typedef struct cella_outcome cella_outcome;
typedef struct cella_isolation cella_isolation;
typedef struct cella_bundle cella_bundle;
typedef struct cella_file cella_file;
typedef struct cella_value cella_value;

/* "0.1.0" */
const char* cella_version(void);

/* --- Errors: failures of Cella, and requests that it refuses. How a guest's code ended is in its result. --- */

typedef enum cella_code {
  CELLA_INVALID,     /* the request is wrong */
  CELLA_NOT_FOUND,   /* a file, interpreter or tool is missing */
  CELLA_PERMISSION,  /* the kernel or the file system said no */
  CELLA_UNSUPPORTED, /* this machine or this executor cannot do it; the message names the remedy */
  CELLA_EXHAUSTED,   /* out of descriptors, memory, disk or places in a queue */
  CELLA_CLOSED,      /* the session or the engine has ended */
  CELLA_INTERNAL
} cella_code;

cella_code cella_error_code(const cella_error* error);
const char* cella_error_message(const cella_error* error);
void cella_error_free(cella_error* error);

/* --- Engines: a thread, the executors' helpers and the sessions. --- */

/* NULL: it failed. */
cella_engine* cella_engine_new(cella_error** error);
/* It ends when the last handle of its sessions and runs is freed too. */
void cella_engine_free(cella_engine* engine);

/* --- Sessions --- */

/* `engine` NULL: the one of this process, made on first use. `policy`: the JSON document of docs/server.md, as
 * {"executor": "sandbox", "limits": {"memory": "512m"}}; NULL: {}. */
cella_session* cella_session_open(cella_engine* engine, const char* policy, cella_error** error);
/* Ends what runs, the guest and its files, and waits for that. */
bool cella_session_close(cella_session* session, cella_error** error);
/* Closes it first. */
void cella_session_free(cella_session* session);

const char* cella_session_id(const cella_session* session);
/* A word of docs/executors.md, as "state"; false for any other. */
bool cella_session_supports(const cella_session* session, const char* word);
const cella_isolation* cella_session_isolation(const cella_session* session);

/* Python code to its end. NULL: nothing ran. */
cella_result* cella_session_run(cella_session* session, const char* code, size_t size, cella_error** error);
cella_result* cella_session_run_spec(cella_session* session, const cella_run_spec* spec, cella_error** error);
/* Returns once the run is queued. */
cella_run* cella_session_start(cella_session* session, const cella_run_spec* spec, cella_error** error);

/* Forgets all variables; files stay. */
bool cella_session_reset(cella_session* session, cella_error** error);
bool cella_session_save_checkpoint(cella_session* session, const char* name, cella_error** error);
bool cella_session_rollback(cella_session* session, const char* name, cella_error** error);
bool cella_session_drop_checkpoint(cella_session* session, const char* name, cella_error** error);
/* Their names. */
cella_listing* cella_session_checkpoints(cella_session* session, cella_error** error);

/* Files of the workspace; paths are relative to it. */
cella_bytes* cella_session_read_file(cella_session* session, const char* path, cella_error** error);
bool cella_session_write_file(cella_session* session, const char* path, const void* data, size_t size,
                              cella_error** error);
/* A directory with all that is in it. */
bool cella_session_remove_file(cella_session* session, const char* path, cella_error** error);
/* `path` "": the workspace. */
cella_listing* cella_session_list_files(cella_session* session, const char* path, cella_error** error);

const void* cella_bytes_data(const cella_bytes* bytes);
size_t cella_bytes_size(const cella_bytes* bytes);
void cella_bytes_free(cella_bytes* bytes);

size_t cella_listing_count(const cella_listing* listing);
const char* cella_listing_name(const cella_listing* listing, size_t index, size_t* size);
uint64_t cella_listing_file_size(const cella_listing* listing, size_t index);
bool cella_listing_is_directory(const cella_listing* listing, size_t index);
/* False: there is more. */
bool cella_listing_complete(const cella_listing* listing);
void cella_listing_free(cella_listing* listing);

/* --- What to run. A spec may be used for several runs, by one thread at a time. --- */

cella_run_spec* cella_run_spec_new(void);
void cella_run_spec_free(cella_run_spec* spec);
/* "run_" and more; without it the session makes one. */
void cella_run_spec_set_id(cella_run_spec* spec, const char* id);
/* `language` NULL or "": by the shebang, else Python. Blocks run in order, up to the first that fails. */
void cella_run_spec_add_block(cella_run_spec* spec, const char* language, const char* code, size_t size);
/* A program of its own instead of a cell: with arguments and an exit code, without value and state. `file`: the name of
 * its file; NULL: one is chosen. `cwd`: relative to the workspace; NULL: the workspace. */
void cella_run_spec_set_program(cella_run_spec* spec, const char* file, const char* cwd);
void cella_run_spec_add_argument(cella_run_spec* spec, const char* argument, size_t size);
void cella_run_spec_set_timeout(cella_run_spec* spec, int64_t nanoseconds);
void cella_run_spec_set_stdin(cella_run_spec* spec, const void* data, size_t size);
/* The caller answers input requests with cella_run_reply. */
void cella_run_spec_set_answers_input(cella_run_spec* spec, bool answers);
/* Written into the workspace before the first block. */
void cella_run_spec_add_file(cella_run_spec* spec, const char* name, const void* data, size_t size, bool executable);
/* The code finds the value as a variable. `data`: UTF-8, bytes, or JSON. */
typedef enum cella_variable_kind { CELLA_VARIABLE_TEXT, CELLA_VARIABLE_BYTES, CELLA_VARIABLE_JSON } cella_variable_kind;
void cella_run_spec_add_variable(cella_run_spec* spec, const char* name, cella_variable_kind kind, const void* data,
                                 size_t size);
/* Whether the result names the files that changed; true unless set. */
void cella_run_spec_set_list_files(cella_run_spec* spec, bool list);

/* --- Runs --- */

typedef enum cella_next { CELLA_NEXT_EVENT, CELLA_NEXT_NOTHING_YET, CELLA_NEXT_END, CELLA_NEXT_ERROR } cella_next;

/* Waits for the next event, which the caller frees; at most so long, or without a bound if negative. The guest waits
 * while many events are not taken. */
cella_next cella_run_next(cella_run* run, int64_t nanoseconds, cella_event** event, cella_error** error);
/* Waits for the end, and drops events that were not taken. The caller frees the result. */
cella_result* cella_run_wait(cella_run* run, cella_error** error);
/* Ends the run. One that is over is left alone, and so is the next. */
void cella_run_cancel(cella_run* run);
/* The code may catch it (KeyboardInterrupt). */
void cella_run_interrupt(cella_run* run);
/* A line for an input request; NULL: there is no more input. */
bool cella_run_reply(cella_run* run, const char* text, size_t size, cella_error** error);
/* The run goes on without its handle. */
void cella_run_free(cella_run* run);

/* --- Tools: functions of the application that the code calls, as tools.NAME(...) --- */

/* Called by the thread that is in cella_session_run, cella_session_run_spec, cella_run_wait or cella_run_next of a run
 * of the session; it answers with cella_call_return or cella_call_fail before it returns. What the code passes is
 * untrusted. */
typedef void (*cella_tool)(cella_call* call, void* context);
/* From the next run on. `description` and `schema` (a JSON schema of the arguments) are what the code is shown; NULL:
 * nothing. `release` (may be NULL) is called with the context when the tool is not used any more, also on failure. */
bool cella_tool_add(cella_session* session, const char* name, const char* description, const char* schema,
                    cella_tool tool, void* context, void (*release)(void* context), cella_error** error);

/* As the code passed them; {"args": [...], "kwargs": [["name", value], ...]} */
const char* cella_call_arguments(const cella_call* call, size_t* size);
size_t cella_call_argument_count(const cella_call* call);
/* The argument at a position, or of that name. Without a name (NULL) named arguments follow in the order of the code.
 * NULL: it was not given. */
const cella_value* cella_call_argument(const cella_call* call, size_t position, const char* name);
/* The last of these counts. `json`: the result as JSON. */
void cella_call_return(cella_call* call, const char* json, size_t size);
void cella_call_fail(cella_call* call, const char* message);

typedef enum cella_value_kind {
  CELLA_VALUE_NULL,
  CELLA_VALUE_BOOLEAN,
  CELLA_VALUE_INTEGER,
  CELLA_VALUE_NUMBER,
  CELLA_VALUE_TEXT,
  CELLA_VALUE_LIST,
  CELLA_VALUE_OBJECT
} cella_value_kind;

cella_value_kind cella_value_get_kind(const cella_value* value);
/* Of another kind: false, 0, NULL. A number can be asked for as an integer, and the other way round. */
bool cella_value_boolean(const cella_value* value);
int64_t cella_value_integer(const cella_value* value);
double cella_value_number(const cella_value* value);
const char* cella_value_text(const cella_value* value, size_t* size);
/* Of a list or an object. */
size_t cella_value_count(const cella_value* value);
const cella_value* cella_value_at(const cella_value* value, size_t index);
const char* cella_value_key(const cella_value* value, size_t index, size_t* size);

/* --- Results --- */

typedef enum cella_status {
  CELLA_OK,
  CELLA_ERROR, /* the code raised or exited non-zero */
  CELLA_TIMEOUT,
  CELLA_CANCELLED,
  CELLA_OOM,
  CELLA_CRASHED, /* ended by a signal */
  CELLA_LIMIT,   /* processes, disk or processor time */
  CELLA_REJECTED /* never ran */
} cella_status;
typedef enum cella_state { CELLA_STATE_KEPT, CELLA_STATE_ROLLED_BACK, CELLA_STATE_LOST, CELLA_STATE_NONE } cella_state;
typedef enum cella_stream { CELLA_STDOUT, CELLA_STDERR } cella_stream;
typedef enum cella_change { CELLA_CREATED, CELLA_MODIFIED, CELLA_DELETED } cella_change;

/* "ok", "timeout" */
const char* cella_status_name(cella_status status);

const char* cella_result_id(const cella_result* result);
const char* cella_result_session(const cella_result* result);
const cella_outcome* cella_result_outcome(const cella_result* result);
/* The caller may pass NULL for a size. */
const char* cella_result_output(const cella_result* result, cella_stream stream, size_t* size);
uint64_t cella_result_dropped(const cella_result* result, cella_stream stream);
/* The value of the last expression as text; NULL: it has none. */
const char* cella_result_value(const cella_result* result, size_t* size);
size_t cella_result_output_count(const cella_result* result);
const cella_bundle* cella_result_bundle(const cella_result* result, size_t index);
uint64_t cella_result_outputs_dropped(const cella_result* result);
size_t cella_result_file_count(const cella_result* result);
const cella_file* cella_result_file(const cella_result* result, size_t index);
bool cella_result_files_complete(const cella_result* result);
cella_state cella_result_state(const cella_result* result);
const char* cella_result_checkpoint(const cella_result* result);
const cella_isolation* cella_result_isolation(const cella_result* result);
/* The Result of docs/server.md. */
const char* cella_result_json(cella_result* result, size_t* size);
void cella_result_free(cella_result* result);

cella_status cella_outcome_status(const cella_outcome* outcome);
int cella_outcome_exit_code(const cella_outcome* outcome);
/* 0: none */
int cella_outcome_signal(const cella_outcome* outcome);
bool cella_outcome_has_error(const cella_outcome* outcome);
/* NULL: there is no error. */
const char* cella_outcome_error_name(const cella_outcome* outcome, size_t* size);
const char* cella_outcome_error_message(const cella_outcome* outcome, size_t* size);
const char* cella_outcome_error_traceback(const cella_outcome* outcome, size_t* size);
double cella_outcome_wall_ms(const cella_outcome* outcome);
double cella_outcome_cpu_ms(const cella_outcome* outcome);
uint64_t cella_outcome_peak_memory(const cella_outcome* outcome);
uint64_t cella_outcome_displays_dropped(const cella_outcome* outcome);

/* One object in several representations; binary ones are base64. */
size_t cella_bundle_count(const cella_bundle* bundle);
const char* cella_bundle_type(const cella_bundle* bundle, size_t index, size_t* size);
const char* cella_bundle_data(const cella_bundle* bundle, size_t index, size_t* size);
const char* cella_bundle_metadata(const cella_bundle* bundle, size_t* size);

const char* cella_file_path(const cella_file* file, size_t* size);
uint64_t cella_file_size(const cella_file* file);
cella_change cella_file_change(const cella_file* file);

const char* cella_isolation_executor(const cella_isolation* isolation);
size_t cella_isolation_namespace_count(const cella_isolation* isolation);
const char* cella_isolation_namespace(const cella_isolation* isolation, size_t index);
bool cella_isolation_seccomp(const cella_isolation* isolation);
int cella_isolation_landlock(const cella_isolation* isolation);
const char* cella_isolation_cgroup(const cella_isolation* isolation);
const char* cella_isolation_network(const cella_isolation* isolation);
const char* cella_isolation_proc(const cella_isolation* isolation);
const char* cella_isolation_start(const cella_isolation* isolation);
size_t cella_isolation_limit_count(const cella_isolation* isolation);
/* NULL: there is no such limit. `value`, `by` and `during` may be NULL. */
const char* cella_isolation_limit(const cella_isolation* isolation, size_t index, double* value, const char** by,
                                  const char** during);
size_t cella_isolation_unenforced_count(const cella_isolation* isolation);
const char* cella_isolation_unenforced(const cella_isolation* isolation, size_t index);
size_t cella_isolation_detail_count(const cella_isolation* isolation);
const char* cella_isolation_detail(const cella_isolation* isolation, size_t index, const char** value);

/* --- Events --- */

typedef enum cella_event_kind {
  CELLA_EVENT_STARTED,       /* language, isolation */
  CELLA_EVENT_OUTPUT,        /* stream, text */
  CELLA_EVENT_TRUNCATED,     /* stream, dropped */
  CELLA_EVENT_VALUE,         /* text, bundle */
  CELLA_EVENT_DISPLAY,       /* bundle, display_id, display_update */
  CELLA_EVENT_ERROR,         /* outcome: its error alone */
  CELLA_EVENT_INPUT_REQUEST, /* text: the prompt; password */
  CELLA_EVENT_FILE,          /* file */
  CELLA_EVENT_FILES_INCOMPLETE,
  CELLA_EVENT_FINISHED, /* outcome, state, checkpoint */
  CELLA_EVENT_PROGRESS, /* text: of packages that are being installed; not the last event */
  CELLA_EVENT_TOOL      /* tool_namespace, tool_name, tool_status, tool_wall_ms */
} cella_event_kind;

cella_event_kind cella_event_get_kind(const cella_event* event);
/* The rest is NULL, 0 or false where the kind has no such part. */
const char* cella_event_language(const cella_event* event);
const cella_isolation* cella_event_isolation(const cella_event* event);
cella_stream cella_event_stream(const cella_event* event);
const char* cella_event_text(const cella_event* event, size_t* size);
uint64_t cella_event_dropped(const cella_event* event);
const cella_bundle* cella_event_bundle(const cella_event* event);
const char* cella_event_display_id(const cella_event* event);
bool cella_event_display_update(const cella_event* event);
/* It shows nothing: what the run displayed before is withdrawn. */
bool cella_event_display_clear(const cella_event* event);
bool cella_event_password(const cella_event* event);
const cella_file* cella_event_file(const cella_event* event);
const cella_outcome* cella_event_outcome(const cella_event* event);
cella_state cella_event_state(const cella_event* event);
const char* cella_event_checkpoint(const cella_event* event);
/* A call of the code to the host, which has ended: "ok", "error", "refused" or "cancelled". */
const char* cella_event_tool_namespace(const cella_event* event);
const char* cella_event_tool_name(const cella_event* event);
const char* cella_event_tool_status(const cella_event* event);
double cella_event_tool_wall_ms(const cella_event* event);
void cella_event_free(cella_event* event);

#ifdef __cplusplus
}
#endif

#endif
