"""A run on its way through a session's thread, how it is stopped, and how it ended."""

from __future__ import annotations

import time
from _thread import get_ident

from cella._inprocess.stopper import GRACE, STOPPER, raise_in, take_back

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Union

    from cella._inprocess.guest import Guest
    from cella._inprocess.host_calls import HostCalls
    from cella._inprocess.record import Document, Record
    from cella._inprocess.socket_calls import SocketCalls
    from cella._inprocess.world import World

_AGAIN = 0.1
_REACHED = 0.05


class Job:
    """A run on its way through the session's thread; the stopper's view of it."""

    def __init__(self, guest: Guest, record: Record, blocks: list[str], stdin: Optional[str], asks: bool) -> None:
        self.guest = guest
        self.record = record
        self.blocks = blocks
        self.stdin = stdin
        self.asks = asks
        self.values: dict[str, object] = {}
        self.host: Optional[Union[HostCalls, SocketCalls]] = None
        self.world: Optional[World] = None
        self.ident = 0
        self.outcome: Optional[Document] = None
        self.deadline = float("inf")
        self.next_step = float("inf")
        self.ended = False
        self.open = False  # the code may be stopped now
        self.closed = False  # and not any more
        self.injecting = False
        self.injected = False
        self._give_up_at = float("inf")
        self._reached = True  # by what was asked of the loop that the code awaits in
        self._fresh, self._unfinished = [True], [True]

    # By whichever thread is first

    def take(self) -> bool:
        """From the queue: to run it, or to cancel it there."""
        try:
            return self._fresh.pop()
        except IndexError:
            return False

    def claim(self) -> bool:
        """To say how it ended."""
        try:
            return self._unfinished.pop()
        except IndexError:
            return False

    # By the session's thread

    def begin(self, world: World) -> None:
        self.world = world
        self.ident = get_ident()
        self.record.started()
        if self.record.timeout is not None:
            self.deadline = time.monotonic() + self.record.timeout
            self._step_at(self.next_step)
        STOPPER.watch(self)

    def shut(self) -> None:
        """From now on no stop reaches this thread. May be called again, if one strikes here."""
        self.closed = True
        while self.injecting:
            time.sleep(0.0001)
        if self.injected:
            take_back(self.ident)

    # By the stopper

    def ask_to_stop(self, reason: str) -> None:
        if self.ended or self.closed:
            return
        if self.record.stopped in (None, "interrupt"):
            self.record.stopped = reason
        if reason != "interrupt":
            self._give_up_at = min(self._give_up_at, time.monotonic() + GRACE)
        self._strike()

    def step(self, now: float) -> None:
        if self.ended or now < self.next_step:
            return
        if now >= self.deadline and self.record.stopped in (None, "interrupt"):
            self.deadline = float("inf")
            self.ask_to_stop("timeout")
        elif now >= self._give_up_at:
            self.next_step = float("inf")
            if self.claim():
                self.guest.give_up(self)
        elif not self._reached:
            self._reached = True
            self._inject()
        else:
            self._strike()

    def _strike(self) -> None:
        task = self.world.awaiting() if self.world is not None else None
        if task is not None:
            self._reached = False
            loop = task.get_loop()

            def cancel() -> None:
                self._reached = True
                if not self.closed:
                    task.cancel()

            try:
                loop.call_soon_threadsafe(cancel)
            except RuntimeError:
                pass  # the code closed its loop
            self._step_at(time.monotonic() + _REACHED)
        else:
            self._inject()

    def _inject(self) -> None:
        self.injecting = True
        if self.open and not self.closed:
            self.injected = True
            raise_in(self.ident)
        self.injecting = False
        again = not self.injected or self._give_up_at < float("inf")
        self._step_at(time.monotonic() + _AGAIN if again else float("inf"))

    def _step_at(self, when: float) -> None:
        self.next_step = min(when, self._give_up_at, self.deadline)


def _text_of(seconds: float) -> str:
    return f"{seconds:g} s" if seconds >= 1 else f"{seconds * 1000:g} ms"


def cancelled(state: str) -> Document:
    error = {"name": "Cancelled", "message": "stopped before it ended", "traceback": ""}
    return {
        "status": "cancelled", "exit_code": 125, "error": error, "state": state, "cpu_ms": 0.0, "displays_dropped": 0
    }


def timed_out(job: Job) -> Document:
    message = f"stopped after {_text_of(job.record.timeout or 0.0)} (timeout)"
    return {**cancelled("kept"), "status": "timeout", "exit_code": 124,
            "error": {"name": "Timeout", "message": message, "traceback": ""}}


def outcome_of(job: Job) -> Document:
    outcome = job.outcome
    reason = job.record.stopped
    measured = {} if outcome is None else {key: outcome[key] for key in ("cpu_ms", "displays_dropped")}
    if reason == "timeout":
        return {**timed_out(job), **measured}
    if reason == "cancel":
        return {**cancelled("kept"), **measured}
    if outcome is None:
        error = {"name": "KeyboardInterrupt", "message": "", "traceback": "KeyboardInterrupt\n"}
        return {**cancelled("kept"), "status": "error", "exit_code": 130, "error": error}
    if outcome["status"] == "interrupted":
        outcome["status"] = "error"
    return outcome
