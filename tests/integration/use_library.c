/* cella.h from C99: every kind of call once. Prints what went wrong and exits with 1. */
#include <cella.h>
#include <stdio.h>
#include <string.h>

static int failures = 0;

static void check(bool holds, const char* what) {
  if (holds) return;
  printf("%s\n", what);
  failures = 1;
}

static void stop(cella_error* error, const char* what) {
  printf("%s: %s\n", what, cella_error_message(error));
  cella_error_free(error);
}

static void check_events(cella_session* session) {
  cella_error* error = NULL;
  cella_run_spec* spec = cella_run_spec_new();
  const char* code = "name = input('who? ')\nprint('hello', name)\nopen('made.txt', 'w').write('made')\nname";
  cella_run_spec_add_block(spec, "python", code, strlen(code));
  cella_run_spec_set_answers_input(spec, true);
  cella_run_spec_set_timeout(spec, INT64_C(20000000000));
  cella_run* run = cella_session_start(session, spec, &error);
  cella_run_spec_free(spec);
  if (run == NULL) {
    stop(error, "start");
    failures = 1;
    return;
  }
  bool seen[CELLA_EVENT_FINISHED + 1] = {false};
  cella_event* event = NULL;
  while (cella_run_next(run, -1, &event, NULL) == CELLA_NEXT_EVENT) {
    const cella_event_kind kind = cella_event_get_kind(event);
    seen[kind] = true;
    if (kind == CELLA_EVENT_STARTED) check(strcmp(cella_event_language(event), "python") == 0, "language");
    if (kind == CELLA_EVENT_INPUT_REQUEST) {
      check(strcmp(cella_event_text(event, NULL), "who? ") == 0, "prompt");
      check(cella_run_reply(run, "C", 1, NULL), "reply");
    }
    if (kind == CELLA_EVENT_VALUE) check(cella_bundle_count(cella_event_bundle(event)) >= 1, "bundle");
    if (kind == CELLA_EVENT_FILE) {
      check(strcmp(cella_file_path(cella_event_file(event), NULL), "made.txt") == 0, "file");
      check(cella_file_change(cella_event_file(event)) == CELLA_CREATED, "change");
    }
    if (kind == CELLA_EVENT_FINISHED) check(cella_outcome_status(cella_event_outcome(event)) == CELLA_OK, "finished");
    check(cella_event_dropped(event) == 0, "a part that no event has");
    cella_event_free(event);
  }
  check(seen[CELLA_EVENT_STARTED] && seen[CELLA_EVENT_OUTPUT] && seen[CELLA_EVENT_VALUE] && seen[CELLA_EVENT_FILE] &&
            seen[CELLA_EVENT_INPUT_REQUEST] && seen[CELLA_EVENT_FINISHED],
        "an event is missing");
  cella_result* result = cella_run_wait(run, &error);
  cella_run_free(run);
  if (result == NULL) {
    stop(error, "wait");
    failures = 1;
    return;
  }
  size_t size = 0;
  check(strcmp(cella_result_output(result, CELLA_STDOUT, &size), "hello C\n") == 0 && size == 8, "output");
  check(strcmp(cella_result_value(result, NULL), "'C'") == 0, "value");
  check(cella_result_file_count(result) == 1 && cella_result_file(result, 1) == NULL, "files");
  check(strstr(cella_result_json(result, NULL), "\"status\":\"ok\"") != NULL, "json");
  check(cella_result_state(result) == CELLA_STATE_KEPT, "state");
  cella_result_free(result);
}

int main(void) {
  cella_error* error = NULL;
  check(strlen(cella_version()) >= 5, "version");
  if (cella_session_open(NULL, "{\"memry\": 1}", &error) != NULL || cella_error_code(error) != CELLA_INVALID) {
    check(false, "an unknown key was taken");
  }
  cella_error_free(error);

  cella_engine* engine = cella_engine_new(&error);
  if (engine == NULL) return stop(error, "engine"), 1;
  cella_session* session = cella_session_open(engine, NULL, &error);
  cella_engine_free(engine);
  if (session == NULL) return stop(error, "open"), 1;
  check(cella_session_supports(session, "state") && !cella_session_supports(session, "wings"), "supports");
  check(strcmp(cella_isolation_executor(cella_session_isolation(session)), "sandbox") == 0, "isolation");
  check(cella_isolation_namespace_count(cella_session_isolation(session)) > 0, "namespaces");

  const char* code = "def f(): return 1 / 0\nf()";
  cella_result* result = cella_session_run(session, code, strlen(code), &error);
  if (result == NULL) return stop(error, "run"), 1;
  const cella_outcome* outcome = cella_result_outcome(result);
  check(cella_outcome_status(outcome) == CELLA_ERROR && cella_outcome_signal(outcome) == 0, "status");
  check(strcmp(cella_outcome_error_name(outcome, NULL), "ZeroDivisionError") == 0, "error");
  check(strstr(cella_outcome_error_traceback(outcome, NULL), "line 1") != NULL, "traceback");
  check(cella_result_value(result, NULL) == NULL, "no value");
  cella_result_free(result);

  check_events(session);

  check(cella_session_save_checkpoint(session, "one", NULL), "checkpoint");
  cella_listing* names = cella_session_checkpoints(session, NULL);
  check(cella_listing_count(names) == 1 && strcmp(cella_listing_name(names, 0, NULL), "one") == 0, "checkpoints");
  cella_listing_free(names);
  check(cella_session_write_file(session, "a/b.txt", "12", 2, NULL), "write");
  cella_bytes* bytes = cella_session_read_file(session, "a/b.txt", NULL);
  check(cella_bytes_size(bytes) == 2 && memcmp(cella_bytes_data(bytes), "12", 2) == 0, "read");
  cella_bytes_free(bytes);
  check(!cella_session_rollback(session, "two", &error) && error != NULL, "a checkpoint that is not there");
  cella_error_free(error);
  check(cella_session_close(session, NULL) && cella_session_close(session, NULL), "close");
  check(cella_session_run(session, "1", 1, &error) == NULL && cella_error_code(error) == CELLA_CLOSED, "closed");
  cella_error_free(error);
  cella_session_free(session);
  cella_session_free(NULL);
  return failures;
}
