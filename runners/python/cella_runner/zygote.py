"""The zygote: everything is imported and warm here, and each session is a fork of it.

A session is prepared as far as it can be before the fork, since each page that a child touches is copied. What the
warm-up leaves behind (names, sources, values) goes with the scratch session it ran in.
"""

import _signal
import builtins
import gc
import importlib
import json
import linecache
import os
import socket
import struct
import sys
import threading

from .session import Session

WARM_MODULES = ("escapes", "event_loop", "figures", "inspection", "ipython", "magics")
WARM_CELLS = (
    "warm = 1\nprint(warm)",
    "1 + 1",
    "raise ValueError('warm')",
    "undefined_name",
    "import sys; sys.stderr.write('warm')\nobject()",
    "(",
)


DEFAULT_SIGNALS = tuple(int(number) for number in (_signal.SIGCHLD, _signal.SIGTERM, _signal.SIGHUP))


class ZygoteError(Exception):
    pass


def _message(frame: dict) -> bytes:
    body = json.dumps(frame).encode()
    return struct.pack("<I", len(body)) + body


def _warm_up(library_path: str):
    """Runs cells through the very path that a child takes, against a socket of our own and with output to nowhere."""
    saved = [os.dup(1), os.dup(2)]
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    ours, theirs = socket.socketpair()
    try:
        os.dup2(null, 1)
        os.dup2(null, 2)
        scratch = Session(library_path)
        theirs.sendall(_message({"type": "configure", "env": dict(os.environ), "cwd": os.getcwd()}))
        for number, code in enumerate(WARM_CELLS, 1):
            theirs.sendall(_message({"type": "run", "run": "r", "number": number, "code": code, "checkpoint": "off"}))
        theirs.shutdown(socket.SHUT_WR)
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
    linecache.clearcache()


def _thread_count() -> int:
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return threading.active_count()


def _prepare(library_path: str, options: dict):
    """The session that every child gets a copy of, and the loaded library."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    import ctypes

    for name in WARM_MODULES:
        importlib.import_module("cella_runner." + name)
    _warm_up(library_path)
    session = Session(library_path)
    session.streams.unbuffer_c()
    for name in options.get("preload", ()):
        try:
            importlib.import_module(name)
        except BaseException as error:
            raise ZygoteError("--preload %s: %s: %s" % (name, type(error).__name__, error))
    library = ctypes.PyDLL(library_path)
    library.cella_zygote_serve.argtypes = [ctypes.c_int]
    library.cella_zygote_serve.restype = ctypes.c_int
    session.checkpoints.use(library)
    count = _thread_count()
    if count != 1:
        raise ZygoteError("%d threads are running after the preloaded imports; a fork needs exactly one" % count)
    return session, library


def _become_runner(session: Session, fd: int):
    for number in DEFAULT_SIGNALS:
        _signal.signal(number, _signal.SIG_DFL)
    generator = sys.modules.get("numpy.random")
    if generator is not None:
        generator.seed()  # `random` has a fork hook, numpy's global generator has none
    session.open(fd)
    session.serve()


def main(control_fd: int, library_path: str, options: str):
    try:
        session, library = _prepare(library_path, json.loads(options))
    except BaseException as error:
        words = str(error) if isinstance(error, ZygoteError) else "%s: %s" % (type(error).__name__, error)
        os.write(control_fd, json.dumps({"error": words}).encode() + b"\n")
        os._exit(1)
    gc.collect()
    gc.freeze()
    fd = library.cella_zygote_serve(control_fd)
    if fd >= 0:
        _become_runner(session, fd)
    os._exit(0)
