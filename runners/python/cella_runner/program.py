"""A program in a fork of the zygote: what `python3 file.py` does, without the start of an interpreter.

What the runner has put in the place of Python's own (streams, input(), signal handlers, display()) is taken back first.
The end is that of the interpreter, step by step, but for the frees of memory: threads, atexit, the program's own modules,
the streams. It never returns.
"""

import _signal
import atexit
import builtins
import gc
import importlib.machinery
import io
import os
import re
import sys
import threading
import types
import weakref

from . import hooks, stdin, threads
from .streams import NAMES, STANDARD

_COOKIE = re.compile(rb"[ \t\f]*#.*?coding[:=]")  # PEP 263
LOST_OUTPUT = 120  # the exit status, as the interpreter has it


_c_buffer = None  # of C's stdout


def run(session, frame):
    """Called in the fork, before any code of a guest."""
    interrupted = _take_back(session)
    session.set_environment(frame)
    if frame.get("spaces"):
        from . import calls

        calls.install(frame["spaces"])
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    argv, cwd = frame["argv"], frame["cwd"]
    try:
        os.chdir(cwd)
    except OSError as error:
        session.channel.send({"type": "refused", "errno": error.errno or 0, "path": cwd})
        os._exit(127)
    # From here on the supervisor knows that the program has begun.
    session.close()
    _open_streams()
    path = _set_paths(argv)
    before = set(sys.modules)
    namespace = _main_module(path)
    if interrupted:
        os.kill(os.getpid(), _signal.SIGINT)
    _hide_frames()
    status, by_interrupt = _execute(path, namespace)
    del namespace
    _end(status, by_interrupt, before)


def _take_back(session) -> bool:
    """Returns whether SIGINT came already."""
    _signal.signal(_signal.SIGURG, _signal.SIG_DFL)
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    builtins.input = stdin.builtin_input
    for name in ("display", "update_display", "clear_output", "_", "__cella__"):
        builtins.__dict__.pop(name, None)
    threads.uninstall()
    hooks.uninstall()
    sys.modules.pop("__main__", None)
    return session.interrupts.early


def _open_streams():
    """As the interpreter opens them."""
    is_buffered = not os.environ.get("PYTHONUNBUFFERED")
    for fd, name in ((0, "stdin"), (1, "stdout"), (2, "stderr")):
        try:
            stream = _open_stream(fd, is_buffered)
        except OSError:
            stream = None  # closed
        setattr(sys, name, stream)
        setattr(sys, "__%s__" % name, stream)
    if is_buffered and "ctypes" in sys.modules:
        _buffer_c()


def _open_stream(fd: int, is_buffered: bool):
    mode = "w" if fd else "r"
    # Standard input has a buffer in any case.
    buffer = io.open(fd, mode + "b", 0 if fd and not is_buffered else -1, closefd=False)
    raw = getattr(buffer, "raw", buffer)
    raw.name = NAMES[fd]
    is_line_buffered = is_buffered and ((fd == 2 and sys.version_info >= (3, 9)) or raw.isatty())
    encoding, errors = STANDARD[fd]
    stream = io.TextIOWrapper(buffer, encoding, errors, "\n", is_line_buffered, not is_buffered)
    stream.mode = mode
    return stream


def _buffer_c():
    """The zygote's C streams have no buffer; those of a program have one."""
    try:
        import ctypes

        libc = ctypes.CDLL(None)
        fully = 0  # _IOFBF
        global _c_buffer
        _c_buffer = ctypes.create_string_buffer(4096)
        libc.setvbuf.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
        libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), ctypes.addressof(_c_buffer), fully, len(_c_buffer))
    except (AttributeError, OSError, ValueError):
        pass


def _set_paths(argv) -> str:
    """sys.argv and sys.path; returns the path of the file, as tracebacks show it."""
    if hasattr(sys, "orig_argv"):
        sys.orig_argv = list(argv)
    sys.argv = argv[1:]
    path = sys.argv[0]
    if sys.version_info >= (3, 9):
        path = os.path.abspath(path)
    directory = os.path.dirname(os.path.realpath(path))
    if sys.path[:1] == [""]:
        sys.path[0] = directory
    else:
        sys.path.insert(0, directory)
    # The host alone sets it here: with one of the policy's, the program is started by exec.
    added = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[1:1] = added
    # What the zygote knows of a directory of that name was another one.
    for known in [known for known in sys.path_importer_cache if known.startswith((directory, os.getcwd(), *added))]:
        del sys.path_importer_cache[known]
    _add_user_site()
    return path


def _add_user_site():
    """Packages that an earlier program installed with `pip install --user`."""
    if sys.prefix != sys.base_prefix:
        return
    home = os.path.expanduser("~")
    path = os.path.join(home, ".local", "lib", "python%d.%d" % sys.version_info[:2], "site-packages")
    if not os.path.isdir(path) or path in sys.path:
        return
    import site

    standard = [index for index, entry in enumerate(sys.path) if entry.endswith(("site-packages", "dist-packages"))]
    count = len(sys.path)
    site.addsitedir(path)
    added = sys.path[count:]
    del sys.path[count:]
    at = standard[0] if standard else count
    sys.path[at:at] = added


def _main_module(path: str) -> dict:
    module = types.ModuleType("__main__")
    namespace = module.__dict__
    namespace["__loader__"] = importlib.machinery.SourceFileLoader("__main__", path)
    if sys.version_info < (3, 14):
        namespace["__annotations__"] = {}
    namespace["__builtins__"] = builtins
    namespace["__file__"] = path
    namespace["__cached__"] = None
    sys.modules["__main__"] = module
    return namespace


def _hide_frames():
    """The program has as many frames as it would have, although those of the runner are below it."""
    get, set_limit = sys.getrecursionlimit, sys.setrecursionlimit
    # Before 3.12 the two calls of exec() count as well, of the package and of the program.
    below, frame = 1 + (sys.version_info < (3, 12)) * 2, sys._getframe(1)  # 1: _execute
    while frame is not None:
        below, frame = below + 1, frame.f_back

    def getrecursionlimit():
        """Return the current value of the recursion limit."""
        return get() - below

    def setrecursionlimit(limit, /):
        """Set the maximum depth of the Python interpreter stack to n."""
        set_limit(limit + below if isinstance(limit, int) and limit > 0 else limit)

    set_limit(get() + below)
    sys.getrecursionlimit, sys.setrecursionlimit = getrecursionlimit, setrecursionlimit


def _execute(path: str, namespace: dict):
    """The exit status, and whether the program is to die by SIGINT."""
    failure = None
    try:
        try:
            with open(path, "rb") as file:
                source = file.read()
        except OSError as error:
            text = "%s: can't open file %r: [Errno %d] %s\n" % (sys.executable, path, error.errno, error.strerror)
            sys.stderr.write(text)
            return 2, False
        if not _is_plain(source):
            os.execve(sys.executable, [sys.executable, *sys.argv], dict(os.environ))
        code = compile(source, path, "exec", dont_inherit=True)
        del source
        exec(code, namespace)
    except SystemExit as request:
        return _status_of(request), False
    except BaseException as error:
        failure = error
    # Outside of `except`: the interpreter handles no exception while it calls the hook.
    return (0, False) if failure is None else _report(failure)


def _is_plain(source: bytes) -> bool:
    """Whether compile() treats it as the interpreter treats a file; of other encodings it says less."""
    try:
        source.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in source and not any(map(_COOKIE.match, source.split(b"\n", 2)[:2]))


def _status_of(request: SystemExit) -> int:
    code = request.code
    if code is None:
        return 0
    if isinstance(code, int):
        return int(code) & 0xFF if -(1 << 63) <= code < 1 << 63 else 0xFF
    try:
        sys.stderr.write(str(code))
        sys.stderr.write("\n")
        sys.stderr.flush()
    except BaseException:
        pass  # the interpreter ignores it, too
    return 1


def _report(error: BaseException):
    """An exception that nothing has caught."""
    # The first frame is _execute's.
    trace = error.__traceback__.tb_next if error.__traceback__ else None
    error.__traceback__ = trace
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    by_interrupt = isinstance(error, KeyboardInterrupt)
    hook = getattr(sys, "excepthook", None)
    second = None
    if hook is None:
        sys.stderr.write("sys.excepthook is missing\n")
        hook = sys.__excepthook__
    try:
        hook(type(error), error, trace)
    except SystemExit as request:
        return _status_of(request), False
    except BaseException as raised:
        second = raised
    if second is not None:
        second.__traceback__ = second.__traceback__.tb_next
        sys.stderr.write("Error in sys.excepthook:\n")
        sys.__excepthook__(type(second), second, second.__traceback__)
        sys.stderr.write("\nOriginal exception was:\n")
        sys.__excepthook__(type(error), error, trace)
    return 1, by_interrupt


def _flush(shows: bool) -> bool:
    """Whether all output has arrived; what was lost is shown once."""
    complete = True
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name, None)
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException as error:
            complete = complete and name != "stdout"
            if name == "stdout" and shows:
                _show_ignored(stream, error)
    return complete


def _show_ignored(culprit, error):
    try:
        if sys.version_info >= (3, 13) and culprit is sys.stdout:
            sys.stderr.write("Exception ignored on flushing sys.stdout:\n")
        else:
            sys.stderr.write("Exception ignored in: %r\n" % (culprit,))
        trace = error.__traceback__.tb_next if error.__traceback__ else None
        sys.__excepthook__(type(error), error.with_traceback(trace), trace)
    except BaseException:
        pass


def _end(status: int, by_interrupt: bool, before: set):
    try:
        threading._shutdown()
    except BaseException as error:
        _show_ignored(threading, error)
    try:
        atexit._run_exitfuncs()
    except BaseException:
        pass  # it has shown them
    complete = _flush(True)
    if threading.active_count() > 1:
        sys.setswitchinterval(1e6)  # daemon threads do not run on
    _forget_modules(before)
    _flush(False)
    if by_interrupt:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
        os.kill(os.getpid(), _signal.SIGINT)
    _exit(status if complete else LOST_OUTPUT)


def _forget_modules(before: set):
    """Those that the program has imported, and its own: their objects have finalizers that may print."""
    for name in ("last_type", "last_value", "last_traceback", "last_exc", "ps1", "ps2"):
        sys.__dict__.pop(name, None)
    builtins.__dict__.pop("_", None)
    names = ["__main__"] + [name for name in sys.modules if name not in before and name != "__main__"]
    kept = []
    for name in names:
        module = sys.modules.get(name)
        if isinstance(module, types.ModuleType):
            kept.append((name, weakref.ref(module)))
        if name in sys.modules:
            sys.modules[name] = None
    module = None
    for name in names:
        sys.modules.pop(name, None)
    gc.collect()
    for name, reference in reversed(kept):
        module = reference()
        if module is not None and name not in ("sys", "builtins"):
            _clear(module.__dict__)
        module = None
    gc.collect()


def _clear(namespace: dict):
    """In the interpreter's order: names with one underscore first, `__builtins__` never."""
    for name in list(namespace):
        if isinstance(name, str) and name[:1] == "_" and name[:2] != "__":
            namespace[name] = None
    for name in list(namespace):
        if isinstance(name, str) and (name[:1] != "_" or name[:2] == "__") and name != "__builtins__":
            namespace[name] = None


def _exit(status: int):
    """With the exit functions of C libraries, and what their streams hold."""
    if "ctypes" in sys.modules:
        try:
            sys.modules["ctypes"].pythonapi.exit(status)
        except Exception:
            pass
    os._exit(status)
