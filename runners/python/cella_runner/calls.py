"""Calls to the host through the session's call socket (runners/README.md): from any thread and any process of the guest.

Between runs there must be neither a connection nor a thread, or they would be part of a checkpoint. The runner keeps its
connections within a run; any other process has one for each call.
"""

import _socket
import builtins
import os

VARIABLE = "CELLA_CALLS"
DEFAULT_PATH = "/tmp/.cella-calls"
MOST_BYTES = 1 << 20
_DIRECTORY = os.path.dirname(__file__)


class HostCallError(Exception):
    """The host refused a call, or the call failed there."""

    __module__ = "builtins"  # tracebacks then show the bare name

    def __init__(self, message, namespace=None, operation=None, type="HostCallError"):
        super().__init__(message)
        self.namespace = namespace
        self.operation = operation
        self.type = type

    def _render_traceback_(self):
        """IPython asks for this."""
        return render_traceback(self)


def render_traceback(error):
    """IPython's traceback, without the lines below the call."""
    import types

    from IPython import get_ipython

    frames, entry = [], error.__traceback__
    while entry is not None and os.path.dirname(entry.tb_frame.f_code.co_filename) != _DIRECTORY:
        frames.append(entry)
        entry = entry.tb_next
    kept = None
    for each in reversed(frames):
        kept = types.TracebackType(kept, each.tb_frame, each.tb_lasti, each.tb_lineno)
    shell = get_ipython()
    return shell.InteractiveTB.structured_traceback(error.__class__, error, kept, tb_offset=1)


def _receive(connection, size: int) -> bytes:
    parts = []
    while size:
        part = connection.recv(min(size, 1 << 16))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


_MOST_IDLE = 4
_idle = []  # connections of the runner's process that are between two calls, each with its inode
_runner = None  # the id of that process while a run is on


def begin_run():
    global _runner
    _runner = os.getpid()


def end_run():
    global _runner
    _runner = None
    while _idle:
        kept = _pop()
        if kept is not None:
            kept.close()


def _pop():
    """A connection that is between two calls. None: a thread was faster, or the code has closed the descriptor, whose
    number may be another file's now."""
    try:
        kept, inode = _idle.pop()
    except IndexError:
        return None
    try:
        if os.fstat(kept.fileno()).st_ino == inode:
            return kept
    except OSError:
        pass
    kept.detach()
    return None


def _connection():
    while _idle and _runner == os.getpid():  # a fork must not share a connection
        kept = _pop()
        if kept is None:
            continue
        try:
            kept.recv(1, _socket.MSG_PEEK | _socket.MSG_DONTWAIT)
        except BlockingIOError:
            return kept
        except OSError:
            pass
        kept.close()  # the host has ended it
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    try:
        connection.settimeout(None)  # whatever default the guest has set
        connection.connect(os.environ.get(VARIABLE) or DEFAULT_PATH)
    except BaseException:
        connection.close()
        raise
    return connection


def _keep(connection, answer: bytes):
    # The host may close a connection on which it refused a call.
    if _runner == os.getpid() and len(_idle) < _MOST_IDLE and b"CallRefused" not in answer:
        _idle.append((connection, os.fstat(connection.fileno()).st_ino))
        if _runner is None:
            end_run()  # the run ended between the two lines
    else:
        connection.close()


def _exchange(frame: bytes):
    """Header and body of the answer."""
    connection = _connection()
    try:
        try:
            connection.sendall(frame)
        except BrokenPipeError:
            pass  # refused before it was read: the reason is there
        sizes = _receive(connection, 8)
        answer = _receive(connection, int.from_bytes(sizes[:4], "little"))
        body = _receive(connection, int.from_bytes(sizes[4:], "little"))
    except BaseException:
        connection.close()
        raise
    _keep(connection, answer)
    return answer, body


async def _exchange_async(frame: bytes):
    import asyncio
    import socket

    loop = asyncio.get_running_loop()

    async def receive(size):
        parts = []
        while size:
            part = await loop.sock_recv(connection, min(size, 1 << 16))
            if not part:
                raise EOFError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as connection:
        connection.setblocking(False)
        await loop.sock_connect(connection, os.environ.get(VARIABLE) or DEFAULT_PATH)
        try:
            await loop.sock_sendall(connection, frame)
        except BrokenPipeError:
            pass
        sizes = await receive(8)
        answer = await receive(int.from_bytes(sizes[:4], "little"))
        return answer, await receive(int.from_bytes(sizes[4:], "little"))


def encode_arguments(namespace, operation, args, kwargs) -> bytes:
    import json

    arguments = {"args": list(args), "kwargs": [[name, value] for name, value in (kwargs or {}).items()]}
    try:
        return json.dumps(arguments, allow_nan=False, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(
            "%s.%s: %s: arguments are JSON values (text, numbers, True, False, None, lists, dicts)"
            % (namespace, operation, error)
        ) from None


class _Call:
    """A call without the way to the host. `errors` maps types of errors to subclasses of HostCallError."""

    def __init__(self, namespace, operation, args, kwargs, errors):
        import json

        self._namespace, self._operation, self._errors = namespace, operation, errors or {}
        body = encode_arguments(namespace, operation, args, kwargs)
        if len(body) > MOST_BYTES:
            raise self._failure(
                "the arguments have %d bytes, and %d are the most: write a file and pass its name"
                % (len(body), MOST_BYTES)
            )
        header = json.dumps({"space": namespace, "operation": operation}).encode("ascii")
        self.frame = len(header).to_bytes(4, "little") + len(body).to_bytes(4, "little") + header + body

    def _failure(self, message, kind="HostCallError"):
        return self._errors.get(kind, HostCallError)(message, self._namespace, self._operation, kind)

    def broken(self, error):
        if isinstance(error, EOFError):
            return self._failure("the run ended before the call", "CallCancelled")
        return self._failure("the host cannot be reached: %s" % error, "CallRefused")

    def value(self, answer: bytes, body: bytes):
        import json

        problem = json.loads(answer.decode("utf-8", "replace")).get("error")
        if problem is not None:
            raise self._failure(problem.get("message", ""), problem.get("type", "HostCallError"))
        try:
            return json.loads(body.decode("utf-8", "replace"))
        except (ValueError, RecursionError):  # of a client that serves tools over HTTP
            kind = "ToolError" if "ToolError" in self._errors else "HostCallError"
            raise self._failure("the result is no JSON", kind) from None


def call(namespace: str, operation: str, args=(), kwargs=None, errors=None, exchange=_exchange):
    """The value that the host answers with. `exchange` sends a frame and returns header and body of the answer."""
    made = _Call(namespace, operation, args, kwargs, errors)
    try:
        answer = exchange(made.frame)
    except (EOFError, OSError) as error:
        raise made.broken(error) from None
    return made.value(*answer)


async def call_async(namespace: str, operation: str, args=(), kwargs=None, errors=None):
    """The same in an event loop, which goes on meanwhile."""
    made = _Call(namespace, operation, args, kwargs, errors)
    try:
        answer = await _exchange_async(made.frame)
    except (EOFError, OSError) as error:
        raise made.broken(error) from None
    return made.value(*answer)


class Operation:
    """One operation of a namespace: a function that can be passed to other processes."""

    def __init__(self, namespace: str, name: str, errors=None):
        self._namespace = namespace
        self.__name__ = name
        self.__qualname__ = "%s.%s" % (namespace, name)
        self._errors = errors

    def __call__(self, *args, **kwargs):
        return call(self._namespace, self.__name__, args, kwargs, self._errors)

    def __repr__(self):
        return "<operation %s of the host>" % self.__qualname__


class Namespace:
    """Operations of the host as attributes: `deps.add("rich")` calls the operation `add` of the namespace `deps`."""

    def __init__(self, name: str, errors=None):
        self._name = name
        self._errors = errors

    def __getattr__(self, operation: str):
        if operation.startswith("_"):
            raise AttributeError(operation)
        return Operation(self._name, operation, self._errors)

    def __repr__(self):
        return "<namespace %s of the host>" % self._name


def install(names):
    """Built-in names, so that they survive a reset and are there in imported modules too."""
    for name in names:
        if name == "deps":
            from . import deps

            deps.install()
        elif name == "tools":
            from . import tools

            tools.install()
        elif name == "artifacts":
            from . import artifacts

            artifacts.install()
        elif name == "workflows":
            from . import workflows

            workflows.install()
        else:
            setattr(builtins, name, Namespace(name))


def install_for_programs():
    """In a program of the session, which was told in a variable what there is."""
    wanted = os.environ.get("CELLA_SPACES", "").split(",")
    install([name for name in wanted if name in ("tools", "artifacts", "workflows")])
    prefix = os.environ.get("CELLA_PACKAGES_FOR")
    if prefix is not None:
        from . import deps

        deps.install_for_program(prefix)
