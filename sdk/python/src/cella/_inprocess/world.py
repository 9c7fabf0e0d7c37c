"""What a session's code sees: its names, built-in functions, streams and displays; and the run of one cell in it.

A session gets a new world at a reset, and when code of the old one cannot be stopped.
"""

from __future__ import annotations

import builtins
import os
import sys
import threading
import types
from _thread import get_ident
from time import thread_time
from weakref import ref

from cella._guest.cella_runner import stdin, tracebacks
from cella._guest.cella_runner.cell import Compiler, Executor, Sources
from cella._guest.cella_runner.display import Displays, reduced
from cella._guest.cella_runner.errors import describe
from cella._guest.cella_runner.frames import FRAME_LIMIT
from cella._inprocess.hooks import HOOKS, mark_of_this_thread
from cella._inprocess.streams import Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Callable, Optional, Union

    from cella._inprocess.host_calls import HostCalls
    from cella._inprocess.record import Document, Record
    from cella._inprocess.socket_calls import SocketCalls

_VALUE_LIMIT = 1 << 20
_MOST_COMPILES = 100
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

tracebacks.hide(_PACKAGE)


class _NoInterrupts:
    """Of the runner: it may hold signals back. Here none come."""

    def check(self) -> None:
        pass

    def hold(self) -> bool:
        return False

    def release(self) -> None:
        pass


class _Displays(Displays):  # type: ignore[misc]
    """Shows to the run of the thread that asks. Of pyplot's figures, those that the session made."""

    _knew_pyplot = False

    def begin(self) -> None:
        super().begin()
        self._knew_pyplot = "matplotlib.pyplot" in sys.modules
        HOOKS.follow_figures()

    def end(self, draw: bool = True) -> None:
        self.show_figures()
        HOOKS.follow_figures()

    def show_figures(self) -> None:
        if "matplotlib.pyplot" not in sys.modules:
            return
        from cella._guest.cella_runner import figures

        for manager in figures.managers():
            # In the run that imported pyplot, figures are not known by their makers yet.
            if getattr(manager, "_cella_world", None if self._knew_pyplot else self._session) is self._session:
                shown = figures.draw_and_close(manager.canvas.figure)
                if shown:
                    self.publish(shown)

    def _send(self, frame: Document) -> None:
        record = self._session.record_of_this_thread()
        if record is not None:
            size = sum(map(len, frame["mime"].values()))
            record.show(reduced(frame, size) if size > FRAME_LIMIT else frame)


class Threads:
    """Those that are alive or known elsewhere. Not a WeakSet, whose callbacks run in the code's thread: a stop that
    strikes there is lost."""

    def __init__(self) -> None:
        self._refs: list[ref[threading.Thread]] = []
        self._prune_at = 64

    def add(self, thread: threading.Thread) -> None:
        """By any thread of the code; holds no lock."""
        self._refs.append(ref(thread))
        if len(self._refs) >= self._prune_at:
            for each in list(self._refs):
                if each() is None:
                    try:
                        self._refs.remove(each)
                    except ValueError:
                        pass  # another thread was faster
            self._prune_at = 2 * len(self._refs) + 64

    def __iter__(self) -> Iterator[threading.Thread]:
        return iter([thread for each in list(self._refs) if (thread := each()) is not None])

    def __bool__(self) -> bool:
        return any(each() is not None for each in list(self._refs))


class _NoFlush:
    def flush(self) -> None:
        pass


class World:
    """The names that the runner's modules ask of a session are these: namespace, interrupts, streams, displays, …"""

    network = False  # pip never installs into the caller's environment
    spaces: tuple[str, ...] = ()
    deps: Any = None
    relays_commands = True
    why_no_pip = "The application installs no packages for its sessions: install them into its Python environment."
    interrupts = _NoInterrupts()
    streams = _NoFlush()

    def __init__(self, tag: str, ask: Callable[[str, bool], Optional[str]], value_of: Any) -> None:
        self.record: Optional[Record] = None
        self.threads = Threads()
        self.owner = os.getpid()
        self.value_limit = _VALUE_LIMIT
        self.cell_name: Optional[str] = None
        self.module = types.ModuleType("__main__")
        self.namespace = self.module.__dict__
        self._tag = tag
        self._value_of = value_of
        self._names = types.ModuleType("builtins")
        self._names.__dict__.update(builtins.__dict__)
        self._names.__dict__.pop("_", None)
        self.sources = Sources()
        self.compiler = Compiler(self._install_magics)
        self.executor = Executor(self.namespace, self.interrupts)
        self.displays = _Displays(self, self._names.__dict__)
        self.displays.install()
        self.input = stdin.Input(ask)
        self._names.__dict__["input"] = self._make_input()
        self.namespace["__builtins__"] = self._names
        self._streams = {"stdin": self.input, "stdout": Stream(self, 1), "stderr": Stream(self, 2)}
        self._replaced: dict[str, Any] = {}
        self._inside: set[int] = set()  # threads that write to a stream of the code's own

    def mark_text(self) -> int:
        """Of the runner: here text and displays travel together."""
        return 0

    # Streams

    def record_of_this_thread(self) -> Optional[Record]:
        mark = mark_of_this_thread()
        return self.record if mark is None or mark.world is not self else mark.current()

    def stream(self, name: str, ident: int) -> Any:
        own = self._streams[name]
        return own if ident in self._inside else self._replaced.get(name, own)

    def replace_stream(self, name: str, stream: Any) -> None:
        """None is no stream: what is printed is dropped."""
        self._replaced[name] = stream

    def restore_stream(self, name: str) -> None:
        self._replaced.pop(name, None)

    def write(self, name: str, text: str) -> Any:
        own = self._streams[name]
        target = self._replaced.get(name, own)
        ident = get_ident()
        if target is own or ident in self._inside:
            return own.write(text)
        if target is None:
            return len(text)
        # One that writes on to what it replaced must not come back to itself.
        self._inside.add(ident)
        try:
            return target.write(text)
        finally:
            self._inside.discard(ident)

    def _make_input(self) -> Callable[..., str]:
        stream = self.input

        def input(prompt: object = "", /) -> str:
            """Read a line from standard input; the trailing newline is stripped."""
            return str(stdin.ask_line(stream, str(prompt), False))

        return input

    def _install_magics(self) -> None:
        from cella._guest.cella_runner.magics import Magics

        self._names.__dict__["__cella__"] = Magics(self)

    def use_packages(self, deps: Any) -> None:
        """`deps` is a name of the code from now on, and pip lines use it."""
        from cella._guest.cella_runner.deps import names

        self.spaces, self.deps = ("deps",), deps
        self.why_no_pip = "Write %pip install NAME in a line of its own; the pip of a shell is that of the application."
        self._names.__dict__.update(names(deps))

    def lend(self, host: Union[HostCalls, SocketCalls]) -> None:
        """Functions of the caller, from now on."""
        host.install(self, self._names)

    # A run

    def awaiting(self) -> Any:
        """The loop that runs code of a cell, and its task; nothing when none does."""
        return self.executor.awaiting()

    def run(self, record: Record, blocks: list[str], number: int, stdin_text: Optional[str], asks: bool) -> Document:
        """How it ended. A stop leaves it as KeyboardInterrupt where it strikes our own lines."""
        begin = thread_time()
        self.record = record
        self.input.begin(stdin_text, asks)
        self.displays.begin()
        self.namespace.pop("__warningregistry__", None)  # cells share line numbers: each may warn anew
        status, exit_code, error = "ok", 0, None
        for index, code in enumerate(blocks):
            self.cell_name = name = f"{self._tag}cell {number + index}"
            self.sources.add(name, code)
            status, exit_code, error = self._run_cell(code, name)
            if status != "ok" or exit_code:
                break
        self.displays.end()
        if os.getpid() != self.owner:
            _end_forked_process(error, exit_code)
        return {
            "status": status, "exit_code": exit_code, "error": error, "state": "kept",
            "cpu_ms": (thread_time() - begin) * 1000, "displays_dropped": self.displays.dropped,
        }

    def failed(self, failure: BaseException) -> Document:
        """Of a run that ended outside of its code."""
        error = self._describe(failure)
        return {
            "status": "error", "exit_code": 1, "error": error, "state": "kept", "cpu_ms": 0.0, "displays_dropped": 0
        }

    def end_run(self) -> None:
        self.record = None
        self._replaced.clear()
        self._inside.clear()

    def _run_cell(self, code: str, name: str) -> tuple[str, int, Optional[Document]]:
        try:
            statements, expression = self._compile(code, name)
            value = self.executor.run(statements, expression)
            if value is not None and os.getpid() == self.owner:
                self._show_value(value)
        except SystemExit as request:
            code_of = _exit_code(request)
            return ("error" if code_of else "ok"), code_of, None
        except KeyboardInterrupt as stop:
            return "interrupted", 130, self._describe(stop)
        except BaseException as failure:
            if self.record is not None and self.record.stopped and _is_cancellation(failure):
                return "interrupted", 130, self._describe(KeyboardInterrupt().with_traceback(failure.__traceback__))
            return "error", 1, self._describe(failure)
        return "ok", 0, None

    def _compile(self, code: str, name: str) -> tuple[Any, Any]:
        """Before 3.11.5, Python counts the depth of a syntax tree for all threads at once: then it is made again."""
        for _ in range(_MOST_COMPILES):
            try:
                return tuple(self.compiler.compile(code, name))
            except SystemError as error:
                if "recursion depth" not in str(error):
                    raise
        raise SystemError("the code cannot be compiled: too many threads compile at once")

    def _show_value(self, value: object) -> None:
        if self._value_of is None:
            self.displays.value(value)
            return
        text = str(self._value_of(value))
        self._names.__dict__["_"] = value
        self.displays._send({"type": "value", "text": text, "mime": {"text/plain": text}, "metadata": {}})

    def _describe(self, failure: BaseException) -> Document:
        error: Document = describe(failure)
        error.pop("type", None)
        if self._tag:
            error["traceback"] = error["traceback"].replace(f"{self._tag}cell ", "cell ")
            error["message"] = error["message"].replace(f"({self._tag}cell ", "(cell ")
        return error

    def close(self) -> None:
        """By the thread that ran its cells."""
        try:
            self.executor.close()
        except Exception:
            pass  # the code did something to its loop

    def forget(self) -> None:
        self.sources.clear()
        self.namespace.clear()


def _is_cancellation(failure: BaseException) -> bool:
    """By asyncio, which only code that awaits has imported."""
    exceptions = sys.modules.get("asyncio.exceptions")
    return exceptions is not None and isinstance(failure, exceptions.CancelledError)


def _exit_code(request: SystemExit) -> int:
    code = request.code
    if code is None:
        return 0
    if isinstance(code, int):
        return int(code) & 0xFF
    try:
        print(code, file=sys.stderr)
    except Exception:
        pass  # as the interpreter itself: the code is 1 all the same
    return 1


def _end_forked_process(error: Optional[Document], exit_code: int) -> None:
    """os.fork() in a cell returned here a second time: this process ends as a script would."""
    if error is not None:
        os.write(2, error["traceback"].encode("utf-8", "backslashreplace"))
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
    os._exit(exit_code)
