// What an IPython kernel executes before the first run of a session, silently.
#pragma once

namespace cella::executor {

// `exit()` ends the run and not the kernel. What child processes and C code wrote to descriptors 1 and 2 belongs to the
// run: ipykernel reads it in a thread, which is given time at the end of a run. Its publisher keeps what is not read
// yet, where it would drop it beyond a thousand messages; the kernel's own memory is the bound.
inline constexpr const char* kPrelude = R"(
def _cella_prelude():
    import builtins, fcntl, struct, sys, termios, time, warnings
    def exit(code=None):
        raise SystemExit(code)
    exit.__qualname__ = exit.__name__ = "exit"
    shell = get_ipython()
    for name in ("exit", "quit"):
        setattr(builtins, name, exit)
        shell.user_ns[name] = exit
        shell.user_ns_hidden[name] = exit
    warnings.filterwarnings("ignore", message="To exit: use 'exit', 'quit'")
    if sys.modules.get("debugpy", sys) is None:
        del sys.modules["debugpy"]  # the kernel has started without it
    def waiting(stream):
        pipe = getattr(stream, "_fid", None)
        return pipe is not None and struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0] > 0
    def drain(*_):
        end = time.monotonic() + 0.2
        for stream in (sys.stdout, sys.stderr):
            try:
                while waiting(stream) and time.monotonic() < end:
                    time.sleep(0.001)
            except (OSError, ValueError):
                pass
    shell.events.register("post_execute", drain)
    try:
        import zmq
        publisher = shell.kernel.iopub_thread
        publisher.schedule(lambda: publisher.socket.setsockopt(zmq.SNDHWM, 0))
    except Exception:
        pass
_cella_prelude()
del _cella_prelude
)";

// Of a session whose code may call the host: the built-in names of the namespaces. Formatted with the directory of the
// runner's Python code and with the names, both as JSON.
inline constexpr const char* kCallsPrelude = R"(
def _cella_calls(directory, spaces):
    import sys
    sys.path.insert(0, directory)
    try:
        from cella_runner import calls
        calls.install(spaces)
    finally:
        sys.path.remove(directory)
    events = get_ipython().events
    events.register("pre_execute", calls.begin_run)
    events.register("post_execute", calls.end_run)
_cella_calls({}, {})
del _cella_calls
)";

// Where packages that the session added are found now, as Python literals. Formatted with the directory of the runner's
// Python code and with the directory of the packages, or None.
inline constexpr const char* kPackagesPrelude = R"(
def _cella_packages(directory, packages):
    import sys
    sys.path.insert(0, directory)
    try:
        from cella_runner import kernel
    finally:
        sys.path.remove(directory)
    kernel.use(packages)
_cella_packages({}, {})
del _cella_packages
)";

inline constexpr const char* kValuesOfAssignments = R"(
get_ipython().ast_node_interactivity = "last_expr_or_assign"
)";

// Assigns the values of a run. Formatted with a list of [name, kind, file], as JSON, which Python reads as well.
inline constexpr const char* kValuesPrelude = R"(
def _cella_values(values):
    import json, os
    for name, kind, file in values:
        with open(file, "rb") as stream:
            data = stream.read()
        os.unlink(file)
        globals()[name] = data if kind == "bytes" else data.decode() if kind == "text" else json.loads(data)
try:
    _cella_values({})
finally:
    del _cella_values
)";

// The same in JavaScript and TypeScript, of Deno and of Node.js.
inline constexpr const char* kJavaScriptValues = R"(
(() => {{
  const deno = typeof Deno !== "undefined" ? Deno : null;
  const fs = deno === null ? require("fs") : null;
  for (const [name, kind, file] of {}) {{
    const data = deno === null ? fs.readFileSync(file) : deno.readFileSync(file);
    deno === null ? fs.unlinkSync(file) : deno.removeSync(file);
    const text = kind === "bytes" ? "" : new TextDecoder("utf-8", {{ ignoreBOM: true }}).decode(data);
    globalThis[name] = kind === "bytes" ? data : kind === "text" ? text : JSON.parse(text);
  }}
}})();
)";

}  // namespace cella::executor
