"""The zygote: everything is imported and warm here, and each session is a fork of it.

A session is prepared as far as it can be before the fork, since each page that a child touches is copied. What the
warm-up leaves behind (names, sources, values) goes with the scratch session it ran in. For the same reason the fork runs
none of the hooks that Python has for it: those of the standard library renew the locks of threads that are not there.
"""

import _signal
import _socket
import builtins
import gc
import importlib
import os
import sys
import threading
from _thread import get_native_id

from . import calls, deps, tools  # noqa: F401  names that sessions install before their first run: imported once, here
from .frames import decode, encode
from .errors import describe
from .session import Session

# What many sessions need at some time, but none of them before its first result: imported while no session is requested.
LATER_MODULES = ("cella_runner.program", "json", "datetime", "math", "random") + tuple(
    "cella_runner." + name
    for name in ("artifacts", "workflows", "tracebacks", "escapes", "event_loop", "figures", "inspection", "ipython", "magics")
)
WARM_CELLS = ("warm = 1\nprint(warm)", "1 + 1", "import sys; sys.stderr.write('warm')\nobject()")
WARM_ERRORS = ("raise ValueError('warm')", "undefined_name", "(")
IDLE = -2  # of cella_zygote_serve
IDLE_MS = 20
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
LOCK_HOOKS = ("threading", "_thread", "logging", "concurrent.futures.thread", "asyncio.events", "random")


class ZygoteError(Exception):
    pass


def _message(frame: dict) -> bytes:
    body = encode(frame)
    return len(body).to_bytes(4, "little") + body


def _warm_up(library_path: str):
    """Runs cells through the very path that a child takes, against a socket of our own and with output to nowhere.
    Before the session is made that children get: it puts itself in the place of this one (sys.stdin, input)."""
    saved = [os.dup(1), os.dup(2)]
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    ours, theirs = _socket.socketpair()
    try:
        os.dup2(null, 1)
        os.dup2(null, 2)
        scratch = Session(library_path)
        theirs.sendall(_message({"type": "configure", "env": dict(os.environ), "cwd": os.getcwd()}))
        for number, code in enumerate(WARM_CELLS, 1):
            theirs.sendall(_message({"type": "run", "run": "r", "number": number, "code": code, "checkpoint": "off"}))
        theirs.shutdown(_socket.SHUT_WR)
        scratch.open(ours.detach())
        scratch.serve()
        scratch.close()
    finally:
        for fd, copy in zip((1, 2), saved):
            os.dup2(copy, fd)
            os.close(copy)
        os.close(null)
        theirs.close()
    builtins.__dict__.pop("_", None)
    _forget_lines()


def _warm_errors():
    for code in WARM_ERRORS:
        try:
            exec(compile(code, "<warm>", "exec"), {})
        except Exception as error:
            describe(error)
    _forget_lines()


def _forget_lines():
    if "linecache" in sys.modules:
        sys.modules["linecache"].clearcache()


def _thread_count() -> int:
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return threading.active_count()


def _module_of(hook):
    return getattr(hook, "__module__", None) or type(getattr(hook, "__self__", None)).__module__


def _import_all(names):
    """Imports modules; returns the fork hooks that they registered, to be called in each child, in order."""
    hooks, register = [], os.register_at_fork

    def record(**wanted):
        register(**wanted)
        mine = [wanted.get(when) for when in ("before", "after_in_child")]
        hooks.extend(hook for hook in mine if hook and _module_of(hook) not in LOCK_HOOKS)

    unset = [name for name in ONE_THREAD if name not in os.environ]
    os.environ.update(dict.fromkeys(unset, "1"))
    os.register_at_fork = record
    try:
        for name in names:
            try:
                importlib.import_module(name)
            except BaseException as error:
                raise ZygoteError("--preload %s: %s: %s" % (name, type(error).__name__, error))
    finally:
        os.register_at_fork = register
        for name in unset:
            del os.environ[name]
    return hooks


def _reseeders():
    """Functions that seed the global generators anew, or all sessions would draw the same numbers. Python's own ways
    there cost a child many pages (numpy's some three hundred), so they are left out."""
    found = []
    if "random" in sys.modules:
        instance = sys.modules["random"]._inst
        found.append(super(type(instance), instance).seed)
    if "numpy.random" in sys.modules:
        found.append(_numpy_reseeder(sys.modules["numpy.random"]))
    return found


def _numpy_reseeder(module):
    import ctypes

    try:
        generator = module.mtrand._rand._bit_generator
        words = 624
        if type(generator) is module.MT19937 and len(generator.state["state"]["key"]) == words:
            key = (ctypes.c_char * (words * 4)).from_address(generator.ctypes.state_address)

            def reseed():
                key.raw = os.urandom(words * 4)

            before = generator.state["state"]["key"].tobytes()
            reseed()
            if generator.state["state"]["key"].tobytes() != before:
                return reseed
    except AttributeError:
        pass  # another numpy, laid out differently
    return module.seed


def _prepare(library_path: str, options: dict):
    """The session that every child gets a copy of, the loaded library, and what a child has to call."""
    import ctypes

    _warm_up(library_path)
    session = Session(library_path)
    session.streams.unbuffer_c()
    hooks = _import_all(options.get("preload", ()))
    for number in (_signal.SIGCHLD, _signal.SIGTERM, _signal.SIGHUP):
        _signal.signal(number, _signal.SIG_DFL)
    library = ctypes.PyDLL(library_path)
    library.cella_zygote_serve.argtypes = [ctypes.c_int, ctypes.c_int]
    library.cella_zygote_serve.restype = ctypes.c_int
    session.checkpoints.use(library)
    count = _thread_count()
    if count != 1:
        raise ZygoteError("%d threads are running after the preloaded imports; a fork needs exactly one" % count)
    return session, library, hooks


def _serve(library, control_fd: int):
    """The socket of a newborn's session and what seeds its generators, in the newborn; a socket less than zero at the
    end. The first session starts before the rest is imported."""
    for name in LATER_MODULES + (None,):
        reseeders = _reseeders()
        gc.freeze()
        fd = library.cella_zygote_serve(control_fd, IDLE_MS if name else -1)
        if fd != IDLE:
            break
        importlib.import_module(name)
        if name == "cella_runner.tracebacks":
            _warm_errors()
        gc.collect()
    return fd, reseeders


def _become_runner(session: Session, fd: int, hooks, main_thread: dict):
    main_thread["_native_id"] = get_native_id()
    for hook in hooks:
        hook()
    session.adopt(fd)
    session.serve()


def main(control_fd: int, library_path: str, options: str):
    try:
        session, library, hooks = _prepare(library_path, decode(options))
    except BaseException as error:
        words = str(error) if isinstance(error, ZygoteError) else "%s: %s" % (type(error).__name__, error)
        os.write(control_fd, encode({"error": words}) + b"\n")
        os._exit(1)
    main_thread = threading.main_thread().__dict__
    fd, reseeders = _serve(library, control_fd)
    if fd >= 0:
        _become_runner(session, fd, hooks + reseeders, main_thread)
    os._exit(0)
