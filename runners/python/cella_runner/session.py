"""The session: the main loop, the guest's namespace, and a run from its request to `done`.

Everything that is the same for all sessions is made in the constructor, which a zygote calls before it forks; open()
does the little that depends on the process.
"""

import builtins
import os
import sys
import time
import types
from time import process_time_ns

from . import hooks, packages, stdin, threads
from .cell import Compiler, Executor, Sources
from .channel import Channel
from .checkpoint import Checkpoints
from .display import Displays
from .errors import describe
from .interrupts import Interrupts
from .order import Order
from .questions import Questions
from .streams import Streams

LIBRARY = "/run/cella/libcella_fork.so"
DEFAULT_VALUE_LIMIT = 1 << 20
COURTESY_MS = 1
REHEARSAL_NAME = "__cella_rehearsal__"
REHEARSAL = {"run": None, "number": 0, "code": REHEARSAL_NAME + " = 0\n" + REHEARSAL_NAME, "checkpoint": None}


class Session:
    def __init__(self, library_path: str = LIBRARY):
        self.interrupts = Interrupts()
        self.interrupts.protect(Session._run_cell)
        self.interrupts.install()
        self.channel = Channel(self.interrupts)
        self.questions = Questions(self.channel)
        self.streams = Streams(self.questions.ask)
        self.order = Order()
        self.displays = Displays(self)
        self.checkpoints = Checkpoints(self.channel, library_path)
        self.sources = Sources()
        self.compiler = Compiler(self._install_magics)
        self.cell_name = None  # of the cell that runs
        self.network = False
        self.value_limit = DEFAULT_VALUE_LIMIT
        self.spaces = ()  # namespaces that the guest may call
        self.deps = None  # what changes its packages, if not calls to the host do
        self.why_no_pip = None  # if it is not the missing network
        self.relays_commands = False  # commands write to the session's own descriptors
        self.calls = None  # the module of that name, where there are any
        # The guest's names are those of the real __main__, so that pickle, dataclasses and multiprocessing find them.
        self.module = types.ModuleType("__main__")
        self.namespace = self.module.__dict__
        self.namespace["__builtins__"] = builtins
        self.executor = Executor(self.namespace, self.interrupts)
        sys.modules["__main__"] = self.module
        stdin.install(self.streams.input)
        self.displays.install()
        threads.install()
        hooks.install(self)
        self._handlers = {
            "run": self._run,
            "configure": self._configure,
            "complete": self._complete,
            "inspect": self._inspect,
            "is_complete": self._is_complete,
            "checkpoint": self._checkpoint,
            "rehearse": self._rehearse_first_runs,
            "program": self._program,
            "interrupt": self._interrupt,
        }

    def open(self, fd: int):
        """In the process that is to be the runner, with descriptors 0-2 in place."""
        self.channel.open(fd)
        self.streams.open()

    def adopt(self, fd: int):
        """In a zygote's child, where the library has put duplicates of 0-2 right above the socket."""
        self.channel.adopt(fd)
        self.streams.adopt([fd + 1, fd + 2, fd + 3])

    def close(self):
        self.channel.close()
        self.streams.close()

    def serve(self):
        """Until the socket closes."""
        receive, handlers = self.channel.receive, self._handlers
        while True:
            try:
                frame = receive()
            except OSError:
                return  # the guest closed the socket
            if frame is None:
                return
            handler = handlers.get(frame.get("type"))
            if handler is not None:
                handler(frame)

    def _install_magics(self):
        from .magics import Magics

        builtins.__cella__ = Magics(self)

    def _configure(self, frame):
        self.network = bool(frame.get("network"))
        self.value_limit = int(frame.get("value_limit") or DEFAULT_VALUE_LIMIT)
        self.compiler.assignments = frame.get("assignments") is True
        if frame.get("env") is not None:
            _set_environment(frame["env"])
        if frame.get("spaces"):
            from . import calls

            self.spaces, self.calls = frame["spaces"], calls
            calls.install(self.spaces)
        if frame.get("cwd"):
            try:
                os.chdir(frame["cwd"])
            except OSError as error:
                print("cannot enter the working directory: %s" % error, file=sys.stderr)

    def _program(self, frame):
        from . import program

        program.run(self, frame)

    def set_environment(self, frame):
        if frame.get("env") is not None:
            _set_environment(frame["env"])

    def _interrupt(self, frame):
        """For a run that is over: its signal may still be on the way."""
        self.interrupts.doubt()

    def _run(self, frame):
        begin = process_time_ns()
        if self.calls is not None:
            self.calls.begin_run()
        try:
            status, exit_code, error = self._run_cell(frame)
        except Exception as failure:  # what the guest did to the interpreter hit the runner itself
            status, exit_code, error = "error", 1, describe(failure)
        if self.calls is not None:
            self.calls.end_run()
        self.interrupts.disarm()
        self.questions.close()
        if not self.channel.is_owner():
            self._end_forked_process(error, exit_code)
        if error is not None:
            self.channel.send(error)
        run, dropped = frame.get("run"), self.displays.dropped
        done = {"type": "done", "run": run, "status": status, "exit_code": exit_code, "displays_dropped": dropped}
        done["cpu_us"] = (process_time_ns() - begin) // 1000
        self.channel.send(done)
        mode = frame.get("checkpoint")
        if mode == "auto" or mode == "always":
            # The supervisor, which waits for the answer, may share this processor, and comes first. And a session may end here.
            busy = self.channel.readable((frame.get("courtesy_ms") or COURTESY_MS) / 1000)
            if busy and self.channel.is_closed():
                return
            taken = self.checkpoints.after_run(run, mode == "always")
            # A session's first run may be its only one: then its pages stay shared with the copy.
            if taken and not busy and (frame.get("number") or 0) > 1 and not self.channel.readable(0):
                self._rehearse()

    def _rehearse_first_runs(self, frame):
        """A second run does what the first need not: it repairs what the one before may have broken."""
        self._rehearse()
        if not self.channel.readable(0):
            self._rehearse()

    def _rehearse(self):
        """Runs a cell whose output is dropped. Every page that a run writes to is shared with the zygote or with a
        checkpoint and must be copied first: better here, while no client waits, than in the next run."""
        names = builtins.__dict__
        last_value = names.get("_", self)
        self.channel.muted = self.interrupts.rehearsing = True
        try:
            self._run(REHEARSAL)
        finally:
            self.channel.muted = self.interrupts.rehearsing = False
            self.namespace.pop(REHEARSAL_NAME, None)
            if last_value is self:
                names.pop("_", None)
            else:
                names["_"] = last_value

    def _run_cell(self, frame):
        """(status, exit code, error frame or None); nothing of the cell's values is left referenced."""
        code, run = frame["code"], frame.get("run")
        self.cell_name = name = frame.get("file") or "cell %s" % frame.get("number")
        threads.begin_run()
        self.streams.begin(frame.get("stdin"), bool(frame.get("input")))
        self.displays.begin()
        self.order.begin(frame.get("mark"))
        if not self.interrupts.rehearsing:
            # Always: after a reset the link may still lead to what was removed since.
            packages.publish(frame.get("packages"))
            if frame.get("packages") != packages.current:
                packages.use(frame.get("packages"))
        self.namespace.pop("__warningregistry__", None)  # cells share line numbers: each may warn anew
        self.sources.add(name, code)
        outcome = "ok", 0, None
        try:
            self.interrupts.arm(run, self.channel)
            self.questions.open = True
            try:
                if frame.get("variables"):
                    from . import values

                    values.assign(self.namespace, frame["variables"])
                statements, expression = self.compiler.compile(code, name)
                value = self.executor.run(statements, expression)
                if value is not None and self.channel.is_owner():
                    self.displays.value(value)
            except KeyboardInterrupt:
                raise
            except SystemExit as request:
                outcome = "exit", self._exit_code(request), None
            except BaseException as failure:
                outcome = "error", 1, describe(failure)
            self.displays.end()
            self.streams.flush()
            self.interrupts.disarm()
        except KeyboardInterrupt as interrupt:
            self.interrupts.disarm()
            outcome = "interrupted", 130, describe(interrupt)
            self.displays.end(draw=False)
            self.streams.flush()
        return outcome

    def mark_text(self) -> int:
        """Marks the place of a display in the text; 0: it has no mark."""
        if not self.channel.is_owner() or self.channel.muted:
            return 0
        return self.order.mark(self.streams.spares())

    def _exit_code(self, request: SystemExit) -> int:
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

    def _end_forked_process(self, error, exit_code: int):
        """os.fork() in a cell returned here a second time: this process ends as a script would."""
        if error is not None:
            sys.stderr.write(error["traceback"])
            self.streams.flush()
        os._exit(exit_code)

    def _complete(self, frame):
        from . import inspection

        matches, start, end = inspection.complete(self.namespace, frame["code"], frame["cursor"])
        self.channel.send({"type": "completion", "matches": matches, "start": start, "end": end})

    def _inspect(self, frame):
        from . import inspection

        text = inspection.inspect_at(self.namespace, frame["code"], frame["cursor"])
        self.channel.send({"type": "inspection", "found": text is not None, "text": text or ""})

    def _is_complete(self, frame):
        from . import inspection

        self.channel.send({"type": "completeness", "status": inspection.completeness(frame["code"])})

    def _checkpoint(self, frame):
        self.checkpoints.named(frame.get("name"))


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _set_environment(wanted: dict):
    """Touches what differs only; on the bytes that lie below os.environ, whose own methods cost a fork many pages."""
    data = os.environ._data
    new = {_encode(name): _encode(value) for name, value in wanted.items()}
    if new == data:
        return
    zone = data.get(b"TZ")
    for name in [name for name in data if name not in new]:
        os.unsetenv(name)
        del data[name]
    for name, value in new.items():
        if data.get(name) != value:
            os.putenv(name, value)
            data[name] = value
    if data.get(b"TZ") != zone:
        time.tzset()
    if b"MPLBACKEND" in data:
        hooks.backend_chosen()


def serve(fd: int):
    """For a process that is the runner from its start."""
    session = Session()
    session.open(fd)
    session.serve()
    os._exit(0)
