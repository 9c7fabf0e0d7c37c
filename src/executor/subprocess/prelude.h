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

inline constexpr const char* kValuesOfAssignments = R"(
get_ipython().ast_node_interactivity = "last_expr_or_assign"
)";

}  // namespace cella::executor
