"""A session in this process: its thread, the queue of its runs, and how a run that does not end is given up."""

from __future__ import annotations

import itertools
import os
import re
import threading
import time
from queue import Empty, SimpleQueue

from cella._inprocess.hooks import HOOKS, Mark, mark_of_this_thread, set_mark, start_unmarked
from cella._inprocess.job import Job, cancelled, outcome_of, timed_out
from cella._inprocess.record import OUTPUT_LIMIT, Record
from cella._inprocess.stopper import GRACE, STOPPER
from cella._inprocess.world import World
from cella._values import decode_all
from cella.errors import InvalidRequest, NotFound, SessionClosed, Unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Callable, Optional, Union

    from cella._inprocess.host_calls import HostCalls
    from cella._inprocess.record import Document
    from cella._inprocess.socket_calls import SocketCalls
    from cella.config import InProcessConfig

_KEPT_RUNS = 64
_POLL = 0.05
_PYTHON = ("python", "python3", "py")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NAME = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
_numbers = itertools.count(1)


def seconds_of(duration: Union[float, str]) -> float:
    """Seconds, or a text such as "500ms"."""
    value: Optional[float] = None
    if isinstance(duration, str):
        digits = duration.rstrip("abcdefghijklmnopqrstuvwxyz")
        try:
            value = float(digits) * _UNITS[duration[len(digits) :] or "s"]
        except (KeyError, ValueError):
            value = None
    elif isinstance(duration, (int, float)) and not isinstance(duration, bool):
        value = float(duration)
    if value is None or not 0 < value < 1e9:
        raise InvalidRequest(400, "invalid", f"timeout {duration!r}: must be positive seconds, or a text as 500ms")
    return value


class Guest:
    """Safe for any number of threads. Runs follow one another."""

    def __init__(self, config: InProcessConfig, furnish: Optional[Callable[[World], None]] = None) -> None:
        """`furnish` gives names to each world that the session gets."""
        self.config = config
        self._furnish = furnish
        self._output_limit = OUTPUT_LIMIT
        self._assignments = False  # a cell that ends with an assignment has its value
        self.id = "ses_" + os.urandom(16).hex()
        self._owner = os.getpid()
        self._tag = f"session {next(_numbers)} "
        self._queue: SimpleQueue[Optional[Callable[[], None]]] = SimpleQueue()
        self._replies: SimpleQueue[Optional[str]] = SimpleQueue()
        self._asking = 0
        self._jobs: dict[str, Job] = {}
        self._current: Optional[Job] = None
        self._cells = 1
        self._given_up: list[threading.Thread] = []
        self._worlds: list[World] = []
        self.closed = False
        self._unreleased = [True]
        HOOKS.acquire()
        try:
            self._world = self._make_world()
            self._thread = self._start_thread()
        except BaseException:
            HOOKS.release()
            raise

    def configure(self, output_limit: int, assignments: bool) -> None:
        """Before the first run; for hosts that know more than the package's own configuration."""
        self._output_limit = output_limit
        self._assignments = self._world.compiler.assignments = assignments

    def _make_world(self) -> World:
        world = World(self._tag, self._ask, self.config.value_of)
        world.compiler.assignments = self._assignments
        if self._furnish is not None:
            self._furnish(world)
        self._worlds = [each for each in self._worlds if each.threads] + [world]
        return world

    def _start_thread(self) -> threading.Thread:
        thread = threading.Thread(target=self._main, name=f"cella-{self.id[:12]}", daemon=True)
        start_unmarked(thread)
        return thread

    # Runs

    def submit(
        self,
        request: Mapping[str, Any],
        values: Optional[Mapping[str, object]] = None,
        host: Optional[Union[HostCalls, SocketCalls]] = None,
    ) -> Record:
        """`values` become variables of the code, which may call `host`."""
        blocks = _blocks(request)
        duration = request.get("timeout")
        default = self.config.default_timeout
        timeout = seconds_of(duration) if duration is not None else None if default is None else seconds_of(default)
        if self.closed:
            raise SessionClosed("the session is closed: open a new one")
        record = Record(self.id, timeout, self._output_limit)
        job = Job(self, record, blocks, request.get("stdin"), bool(request.get("input")))
        job.values = {**decode_all(request.get("variables") or {}), **(values or {})}
        for name in job.values:
            if not _NAME.match(name):
                text = f"variables: {name[:128]!r} is no name: letters, digits and '_', at most 128, not '__' in front"
                raise InvalidRequest(400, "invalid", text)
        job.host = host
        self._jobs[record.id] = job
        while len(self._jobs) > _KEPT_RUNS:
            oldest = next(iter(self._jobs))
            if not self._jobs[oldest].ended:
                break
            self._jobs.pop(oldest, None)
        self._queue.put(lambda: self._run(job))
        return record

    def record(self, run: str) -> Record:
        job = self._jobs.get(run)
        if job is None:
            raise NotFound(404, "not_found", f"there is no run {run} in this session", f"it keeps {_KEPT_RUNS} runs")
        return job.record

    def job(self, run: str) -> Optional[Job]:
        return self._jobs.get(run)

    def records(self) -> list[Record]:
        return [job.record for job in list(self._jobs.values())]

    def cancel(self, run: str) -> bool:
        job = self._jobs.get(run)
        if job is None or job.ended:
            return False
        if job.take():
            self._finish(job, cancelled("kept"))
        else:
            STOPPER.stop(job, "cancel")
        return True

    def interrupt(self, run: Optional[str] = None) -> bool:
        """This run, else the one that is on. False: it is not on."""
        job = self._current
        if job is None or job.ended or run not in (None, job.record.id):
            return False
        STOPPER.stop(job, "interrupt")
        return True

    def reply(self, text: Optional[str]) -> None:
        if not self._asking:
            raise InvalidRequest(400, "invalid", "no code of this session is waiting for input")
        self._asking -= 1
        self._replies.put(text)

    def _ask(self, prompt: str, password: bool) -> Optional[str]:
        """By code that reads. Waits in slices, since a wait in C is not stopped."""
        record = self._world.record_of_this_thread()
        if record is None:
            return None
        self._asking += 1
        record.ask(prompt, password)
        while not record.done:
            try:
                return self._replies.get(timeout=_POLL)
            except Empty:
                continue
        return None

    # The session's thread

    def _main(self) -> None:
        set_mark(Mark(self._world, None))
        thread = threading.current_thread()
        while True:
            work = self._queue.get()
            if work is None:
                self._world.close()
                return
            world = self._world
            work()
            if thread is not self._thread:
                world.close()
                return  # it was given up, and another one goes on

    def _run(self, job: Job) -> None:
        if not job.take():
            return
        world = self._world
        self._current = job
        self._replies = SimpleQueue()
        job.begin(world)
        # A stop may strike once outside the code, and again a while later: each level survives one.
        try:
            try:
                try:
                    job.open = True
                    if job.host is not None:
                        world.lend(job.host)
                    world.namespace.update(job.values)
                    job.outcome = world.run(job.record, job.blocks, self._cells, job.stdin, job.asks)
                except KeyboardInterrupt:
                    pass
                except BaseException as failure:  # the code changed what a run uses, a module for example
                    job.outcome = world.failed(failure)
                job.shut()
            except KeyboardInterrupt:
                job.shut()
        except KeyboardInterrupt:
            job.shut()
        if not job.claim():
            return
        self._cells += len(job.blocks)
        self._asking = 0
        world.end_run()
        self._current = None
        self._finish(job, outcome_of(job))

    def _finish(self, job: Job, outcome: Document) -> None:
        job.ended = True
        STOPPER.done(job)
        job.record.finish(outcome)

    def give_up(self, job: Job) -> None:
        """By the stopper: the code does not notice that it shall stop. The session goes on without it."""
        assert job.world is not None
        job.world.end_run()
        self._given_up.append(self._thread)
        self._current = None
        self._asking = 0
        self._cells += len(job.blocks)
        self._world = self._make_world()
        self._replies = SimpleQueue()
        self._thread = self._start_thread()
        outcome = timed_out(job) if job.record.stopped == "timeout" else cancelled("lost")
        self._finish(job, {**outcome, "state": "lost", "still_running": True})

    # What else a session can do

    def reset(self, done: Callable[[], None]) -> None:
        """Fresh names, after the runs that wait already."""

        def renew() -> None:
            self._world.close()
            self._world.sources.clear()
            self._world = self._make_world()
            set_mark(Mark(self._world, None))
            done()

        if self.closed:
            raise SessionClosed("the session is closed: open a new one")
        self._queue.put(renew)

    def complete(self, code: str, cursor: int) -> Document:
        from cella._guest.cella_runner import inspection

        matches, start, end = inspection.complete(self._world.namespace, code, cursor)
        return {"matches": matches, "start": start, "end": end}

    def inspect(self, code: str, cursor: int) -> Document:
        from cella._guest.cella_runner import inspection

        text = inspection.inspect_at(self._world.namespace, code, cursor)
        return {"found": text is not None, "text": text or ""}

    def usage(self) -> Document:
        from cella._inprocess.usage import measure

        threads = [self._thread, *list(self._world.threads)]
        return measure(not self.closed and self._thread.is_alive(), threads)

    # The end

    def close(self) -> None:
        """Cancels what runs and what waits; does not wait for it."""
        if self.closed or not self.is_owner():
            return
        self.closed = True
        for job in list(self._jobs.values()):
            self.cancel(job.record.id)
        self._queue.put(None)
        STOPPER.wake()  # it may sleep until the deadline of a run that is over

    def join(self) -> None:
        """After `close`, waits for the end of the session's thread. Threads that the code left keep the hooks."""
        if not self._unreleased or not self.is_owner():
            return
        end = time.monotonic() + 2 * GRACE
        mark = mark_of_this_thread()
        while self._thread.is_alive() and time.monotonic() < end and (mark is None or mark.world not in self._worlds):
            self._thread.join(_POLL)
        if not self._release():
            STOPPER.linger(self._release)

    def is_owner(self) -> bool:
        return os.getpid() == self._owner

    def _release(self) -> bool:
        """Removes the last of it once no thread of its code is left."""
        try:
            started = [each for world in self._worlds for each in world.threads]
        except RuntimeError:
            return False  # the code is starting threads right now
        if any(thread.is_alive() for thread in (self._thread, *self._given_up, *started)):
            return False
        try:
            self._unreleased.pop()
        except IndexError:
            return True
        for world in self._worlds:
            world.forget()
        self._jobs.clear()
        HOOKS.release()
        STOPPER.wake()
        return True


def _blocks(request: Mapping[str, Any]) -> list[str]:
    blocks = request.get("blocks") or [{"code": request.get("code"), "language": request.get("language")}]
    for block in blocks:
        language = block.get("language") or request.get("language") or "python"
        if language.lower() not in _PYTHON:
            raise Unsupported(409, "unsupported", f"the inprocess executor runs Python, not {language}")
        if not isinstance(block.get("code"), str):
            raise InvalidRequest(400, "invalid", f"code must be a text, not {type(block.get('code')).__name__}")
    return [block["code"] for block in blocks]
