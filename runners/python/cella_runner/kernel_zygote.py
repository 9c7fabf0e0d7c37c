"""The zygote of kernels that run without a jail: ipykernel is imported here, and each kernel is a fork of it.

The forks are made by libcella_fork.so (src/launcher/fork_tree.cc), in a process tree of their own. Nothing that a session
changes happens before the fork; what Python derives from the place of its virtual environment is corrected after it.
"""

import ctypes
import gc
import importlib
import json
import os
import signal
import sys

CONTROL_FD = 3
# What a kernel imports when it starts, beside what kernelapp itself imports.
MODULES = (
    "ipykernel.kernelapp",
    "ipykernel.debugger",
    "IPython.core.completerlib",
    "IPython.core.debugger",
    "IPython.core.logger",
    "IPython.core.oinspect",
    "IPython.extensions.storemagic",
    "IPython.utils.wildcard",
    "code",
    "faulthandler",
    "psutil",
    "resource",
    "tornado.gen",
    "tornado.locks",
    "tornado.platform.asyncio",
    "tornado.queues",
    "unicodedata",
)

_TEXTS = ctypes.POINTER(ctypes.c_char_p)
_BECOME = ctypes.CFUNCTYPE(ctypes.c_int, _TEXTS, _TEXTS)


class _Interpreter(ctypes.Structure):
    """jail::Interpreter of src/jail/steps.h."""

    _fields_ = [
        ("before_fork", ctypes.c_void_p),
        ("after_fork_parent", ctypes.c_void_p),
        ("after_fork_child", ctypes.c_void_p),
        ("become", _BECOME),
    ]


class ZygoteError(Exception):
    pass


def _import_kernel():
    sys.modules["debugpy"] = None  # as in every kernel of a session: its prelude makes it importable
    importlib.import_module(MODULES[0])
    for name in MODULES[1:]:
        try:
            importlib.import_module(name)
        except ImportError:
            pass  # of another version
    count = len(os.listdir("/proc/self/task"))
    if count != 1:
        raise ZygoteError("%d threads are running after the imports; a fork needs exactly one" % count)


def _texts(pointer):
    texts = []
    while pointer[len(texts)] is not None:
        texts.append(pointer[len(texts)])
    return texts


def _move(old: str, new: str):
    """Makes the virtual environment `new` that of this process. It was that of `old`, and consists of the same files."""

    def moved(path):
        return new + path[len(old) :] if isinstance(path, str) and (path + "/").startswith(old + "/") else path

    sys.prefix, sys.exec_prefix, sys.executable = moved(sys.prefix), moved(sys.exec_prefix), moved(sys.executable)
    sys.path[:] = [moved(path) for path in sys.path]
    sys.path_importer_cache.clear()
    site = sys.modules.get("site")
    if site is not None:
        site.PREFIXES[:] = [moved(path) for path in site.PREFIXES]
    sysconfig = sys.modules.get("sysconfig")
    if sysconfig is not None:
        for name in ("_PREFIX", "_EXEC_PREFIX"):
            setattr(sysconfig, name, moved(getattr(sysconfig, name, None)))
        sysconfig._CONFIG_VARS = None
        if hasattr(sysconfig, "_CONFIG_VARS_INITIALIZED"):
            sysconfig._CONFIG_VARS_INITIALIZED = False


def _start_anew(argv, variables, venv):
    """What an interpreter does when it starts, as far as the fork has it from the zygote."""
    for number, handler in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGPIPE, signal.SIG_IGN),
        (signal.SIGXFSZ, signal.SIG_IGN),
    ):
        signal.signal(number, handler)
    os.environb.clear()
    for line in variables:
        name, _, value = line.partition(b"=")
        os.environb[name] = value
    words = [os.fsdecode(word) for word in argv]
    _move(venv, os.path.dirname(os.path.dirname(words[0])))
    sys.argv = ["-c"] + words[3:]  # after the interpreter, "-c" and its code
    if hasattr(sys, "orig_argv"):
        sys.orig_argv = words


def _run_kernel():
    """The exit code of the kernel."""
    import atexit
    import threading
    import traceback

    code = 0
    try:
        from ipykernel import kernelapp

        kernelapp.launch_new_instance()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    try:
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        pass
    return code & 0xFF


def main(library_path: str):
    venv = sys.prefix

    def become(argv, variables):
        try:
            _start_anew(_texts(argv), _texts(variables), venv)
            return _run_kernel()
        except BaseException:
            import traceback

            traceback.print_exc()
            return 1

    try:
        _import_kernel()
        library = ctypes.PyDLL(library_path)
        library.cella_tree_serve.restype = None

        def address(name):
            return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p)

        interpreter = _Interpreter(
            address("PyOS_BeforeFork"), address("PyOS_AfterFork_Parent"), address("PyOS_AfterFork_Child"), _BECOME(become)
        )
    except BaseException as error:
        words = "%s: %s" % (type(error).__name__, error)
        os.write(CONTROL_FD, json.dumps({"error": words}).encode() + b"\n")
        os._exit(1)
    sys.stdout.flush()
    sys.stderr.flush()
    gc.collect()
    gc.freeze()
    library.cella_tree_serve(ctypes.byref(interpreter))
    os._exit(0)
