"""One thread that ends runs: at their time-out, and when they are cancelled or interrupted.

Code that awaits is cancelled through its loop. Other code gets a KeyboardInterrupt raised in its thread. Neither is
noticed by a call that blocks in C, and code may swallow both: after a grace the run is given up.

Only this thread raises into others, so that a run that has closed its gate need not fear a late exception: it waits
while `injecting` is set, and afterwards takes back what was not raised yet.
"""

from __future__ import annotations

import os
import threading
import time
from _thread import allocate_lock
from collections import deque

from cella._inprocess.hooks import start_unmarked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Optional

    from cella._inprocess.job import Job

GRACE = 0.5
_LINGER = 0.25
# Without a run for so long, the thread ends. Short runs are over before it looks: without this wait, each starts one.
_IDLE = 1.0
_FOREVER = 3600.0


def raise_in(ident: int) -> None:
    import ctypes

    raiser = ctypes.pythonapi.PyThreadState_SetAsyncExc
    raiser.argtypes = [ctypes.c_ulong, ctypes.py_object]
    raiser(ident, KeyboardInterrupt)


def take_back(ident: int) -> None:
    """What was raised in this thread and has not struck yet."""
    import ctypes

    raiser = ctypes.PyDLL(None).PyThreadState_SetAsyncExc
    raiser.argtypes = [ctypes.c_ulong, ctypes.c_void_p]
    raiser(ident, None)


class Stopper:
    """Started with the first run that needs it; ends when there was nothing to watch for a while."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._wake = allocate_lock()
        self._wake.acquire()
        self._jobs: set[Job] = set()
        self._asked: deque[tuple[Job, str]] = deque()
        self._lingering: list[Callable[[], bool]] = []
        self._thread: Optional[threading.Thread] = None
        self._next = 0.0
        self._idle_since = float("inf")

    def watch(self, job: Job) -> None:
        """Until it has ended; its deadline may be far."""
        with self._lock:
            self._jobs.add(job)
            sooner = self._thread is None or job.next_step < self._next
            if self._thread is None:
                self._begin()
        if sooner:
            self.wake()

    def done(self, job: Job) -> None:
        self._jobs.discard(job)

    def stop(self, job: Job, reason: str) -> None:
        """`cancel` or `interrupt`; from any thread."""
        self._asked.append((job, reason))
        self.wake()

    def linger(self, ended: Callable[[], bool]) -> None:
        """Calls it again and again until it answers True."""
        with self._lock:
            self._lingering.append(ended)
            if self._thread is None:
                self._begin()
        self.wake()

    def wake(self) -> None:
        try:
            self._wake.release()
        except RuntimeError:
            pass  # it is awake

    def _begin(self) -> None:
        self._next = time.monotonic() + _FOREVER
        self._idle_since = float("inf")
        self._thread = threading.Thread(target=self._main, name="cella-stopper", daemon=True)
        start_unmarked(self._thread)

    def _main(self) -> None:
        while True:
            wait = self._look()
            if wait is None:
                return
            self._wake.acquire(timeout=wait)

    def _look(self) -> Optional[float]:
        """How long to sleep; nothing when this thread is not needed any more."""
        while self._asked:
            job, reason = self._asked.popleft()
            job.ask_to_stop(reason)
        now = time.monotonic()
        with self._lock:
            jobs = [job for job in self._jobs.copy() if not job.ended]
            self._jobs = set(jobs)
            self._next = now + _FOREVER  # meanwhile each new job wakes this thread
        for job in jobs:
            job.step(now)
        lingering = [each for each in self._lingering if not each()]
        with self._lock:
            self._lingering = lingering
            self._jobs = {job for job in self._jobs.copy() if not job.ended}
            if not self._jobs and not self._lingering and not self._asked:
                if now - self._idle_since >= _IDLE:
                    self._thread = None
                    return None
                self._idle_since = min(now, self._idle_since)
                self._next = now + _IDLE
                return _IDLE
            self._idle_since = float("inf")
            times = [job.next_step for job in self._jobs] + [now + _LINGER] * bool(lingering)
            self._next = min(times, default=now + _FOREVER)
        return max(0.0, min(self._next - time.monotonic(), _FOREVER))

    def forget(self) -> None:
        """In a child made by fork, which has no other threads."""
        self._lock, self._wake = allocate_lock(), allocate_lock()
        self._wake.acquire()
        self._jobs, self._lingering, self._thread = set(), [], None
        self._asked.clear()


STOPPER = Stopper()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=STOPPER.forget)
