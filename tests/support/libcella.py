"""libcella.so by way of ctypes: what the tests of the library call, in this process or in one that they start.

    CELLA_LIBRARY=PATH python3 -c 'from support.libcella import *; ...'
"""

import ctypes
import os
import pathlib

from support.cella import program


def library_path():
    """Beside the program under test, in a build tree and where it was installed."""
    return pathlib.Path(os.environ.get("CELLA_LIBRARY") or program().parents[1] / "lib/libcella.so.0")


class Failure(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


CODES = ("invalid", "not_found", "permission", "unsupported", "exhausted", "closed", "internal")
STATUSES = ("ok", "error", "timeout", "cancelled", "oom", "crashed", "limit", "rejected")
EVENTS = (
    "started", "output", "truncated", "value", "display", "error", "input_request", "file", "files_incomplete", "finished",
    "progress", "tool",
)
NEXT = ("event", "nothing yet", "end", "error")

_TEXT = ("cella_version", "cella_error_message", "cella_session_id", "cella_result_value", "cella_result_output",
         "cella_result_json", "cella_outcome_error_message", "cella_isolation_executor", "cella_event_text",
         "cella_listing_name", "cella_call_arguments")
_HANDLES = ("cella_engine_new", "cella_session_open", "cella_session_run", "cella_session_run_spec", "cella_session_start",
            "cella_session_isolation", "cella_session_checkpoints", "cella_session_read_file", "cella_session_list_files",
            "cella_bytes_data", "cella_run_spec_new", "cella_run_wait", "cella_result_outcome", "cella_event_outcome")
_TRUTHS = ("cella_session_close", "cella_session_supports", "cella_session_reset", "cella_session_save_checkpoint",
           "cella_tool_add", "cella_session_rollback", "cella_session_write_file", "cella_session_remove_file", "cella_run_reply")


TOOL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class Library:
    """`call("session_open", ...)` calls cella_session_open; texts are given as str or bytes."""

    def __init__(self, path=None):
        self._c = ctypes.CDLL(str(path or library_path()))
        for name in _TEXT:
            getattr(self._c, name).restype = ctypes.c_char_p
        for name in _HANDLES:
            getattr(self._c, name).restype = ctypes.c_void_p
        for name in _TRUTHS:
            getattr(self._c, name).restype = ctypes.c_bool
        self._c.cella_bytes_size.restype = ctypes.c_size_t
        self._c.cella_listing_count.restype = ctypes.c_size_t

    @staticmethod
    def _word(value):
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, bool) or value is None or isinstance(value, bytes):
            return value
        # Handles are integers here, and wider than C's int.
        return ctypes.c_void_p(value) if isinstance(value, int) else value

    def call(self, name, *words):
        return getattr(self._c, f"cella_{name}")(*map(self._word, words))

    def attempt(self, name, *words):
        """With a place for the error, which is raised."""
        error = ctypes.c_void_p()
        answer = self.call(name, *words, ctypes.byref(error))
        if error.value:
            failure = Failure(CODES[self.call("error_code", error.value)], self.call("error_message", error.value).decode())
            self.call("error_free", error.value)
            raise failure
        return answer

    def version(self):
        return self.call("version").decode()

    def open(self, policy="{}", engine=None):
        return Session(self, self.attempt("session_open", engine, policy))


class Session:
    def __init__(self, library, handle):
        self.library, self.handle = library, handle

    def run(self, code):
        text = code.encode()
        return Result(self.library, self.library.attempt("session_run", self.handle, text, len(text)))

    def start(self, code, **settings):
        spec = self.library.call("run_spec_new")
        text = code.encode()
        self.library.call("run_spec_add_block", spec, settings.pop("language", "python"), text, len(text))
        for name, content in settings.pop("files", {}).items():
            self.library.call("run_spec_add_file", spec, name, content, ctypes.c_size_t(len(content)), False)
        for name, value in settings.items():
            self.library.call(f"run_spec_set_{name}", spec, value)
        try:
            return Run(self.library, self.library.attempt("session_start", self.handle, spec))
        finally:
            self.library.call("run_spec_free", spec)

    def tool(self, name, function, description=None, schema=None):
        """`function` gets the text of the arguments and returns JSON, or raises."""

        def serve(call, context):
            try:
                answer = function(self.library.call("call_arguments", call, None)).encode()
                self.library.call("call_return", call, answer, ctypes.c_size_t(len(answer)))
            except Exception as error:
                self.library.call("call_fail", call, f"{type(error).__name__}: {error}")

        kept = TOOL(serve)
        self.tools = [*getattr(self, "tools", ()), kept]
        self.library.attempt("tool_add", self.handle, name, description, schema, kept, None, None)

    def do(self, name, *words):
        return self.library.attempt(f"session_{name}", self.handle, *words)

    def supports(self, word):
        return self.library.call("session_supports", self.handle, word)

    def close(self):
        self.do("close")

    def free(self):
        self.library.call("session_free", self.handle)


class Run:
    def __init__(self, library, handle):
        self.library, self.handle = library, handle

    def next(self, nanoseconds=-1):
        """("event", kind, text), or (what else there is, None, None)."""
        event = ctypes.c_void_p()
        what = NEXT[self.library.attempt("run_next", self.handle, ctypes.c_int64(nanoseconds), ctypes.byref(event))]
        if what != "event":
            return what, None, None
        kind = EVENTS[self.library.call("event_get_kind", event.value)]
        text = self.library.call("event_text", event.value, None)
        self.library.call("event_free", event.value)
        return what, kind, text

    def events(self):
        while (found := self.next())[0] == "event":
            yield found[1:]

    def wait(self):
        return Result(self.library, self.library.attempt("run_wait", self.handle))

    def cancel(self):
        self.library.call("run_cancel", self.handle)

    def interrupt(self):
        self.library.call("run_interrupt", self.handle)

    def reply(self, text):
        self.library.attempt("run_reply", self.handle, text, len(text.encode()))

    def free(self):
        self.library.call("run_free", self.handle)


class Result:
    def __init__(self, library, handle):
        outcome = library.call("result_outcome", handle)
        self.status = STATUSES[library.call("outcome_status", outcome)]
        self.exit_code = library.call("outcome_exit_code", outcome)
        self.value = library.call("result_value", handle, None)
        self.stdout = library.call("result_output", handle, 0, None)
        self.error = library.call("outcome_error_message", outcome, None)
        self.json = library.call("result_json", handle, None)
        library.call("result_free", handle)
