"""SIGINT: raises KeyboardInterrupt while a cell runs, does nothing between cells, and waits while a frame is sent.

One that comes between cells may be for a cell that is here and has not begun. The supervisor sends a frame before it,
which says what run it means: a cell that begins after a signal looks for that.

The handler stays installed between runs, rather than SIG_IGN: programs that the guest starts would inherit that.
It never raises into the code that surrounds a cell (protect()), however often a signal comes, or an exception could fly
between two of its lines. A signal that arrives there waits for the next check(), just inside what may be interrupted.

SIGURG ends a system call that blocks. The supervisor sends it after SIGINT, which may have come when Python had looked
for signals already and was about to block, or just where it had to wait for a check() that did not follow.
"""

import _signal
from _thread import get_ident
from time import sleep

SIGINT = int(_signal.SIGINT)
SETTLE_MS = 20


class Interrupts:
    def __init__(self):
        self.armed = False  # a cell is running
        self.held = False  # the main thread is inside something that must not be torn apart
        self.pending = False
        self.early = False  # a signal came when no cell was running
        self.rehearsing = False  # the cell that runs is not the one to interrupt
        self.count = 0
        self.main = get_ident()
        self._protected = {self._handle.__code__.co_filename}

    def protect(self, function):
        """From now on, no interrupt within the file of that function."""
        self._protected.add(function.__code__.co_filename)

    def install(self):
        _signal.signal(SIGINT, self._handle)
        _signal.signal(_signal.SIGURG, self._wake)

    def arm(self, run, is_asked):
        """At the start of every run, since the last one may have installed a handler of its own. `is_asked` tells
        whether the supervisor wants that run interrupted already; it is called only after a signal."""
        _signal.signal(SIGINT, self._handle)
        self.held = self.armed = True
        if self.early and not self.rehearsing:
            self.early = False
            self.pending = is_asked(run) or self.pending
        self.held = False

    def disarm(self):
        self.armed = self.pending = False

    def check(self):
        if self.pending and self.armed:
            self.pending = False
            raise KeyboardInterrupt

    def hold(self) -> bool:
        """Returns whether a matching release() is due: only in the main thread, and only for the outermost hold."""
        if self.held or get_ident() != self.main:
            return False
        self.held = True
        return True

    def release(self):
        self.held = False
        self.check()

    def _must_wait(self, frame) -> bool:
        return self.held or frame is None or frame.f_code.co_filename in self._protected

    def _wake(self, signum, frame):
        if not self._must_wait(frame):
            self.check()

    def settle(self, before: int):
        """When a run is over that began after so many signals, and a frame comes that was to interrupt it: the signal
        that follows must not hit the next run."""
        for _ in range(SETTLE_MS):
            if self.count != before:
                return
            sleep(0.001)

    def _handle(self, signum, frame):
        self.count += 1
        self.early = self.early or self.rehearsing or not self.armed
        if not self.armed:
            return
        if self._must_wait(frame):
            self.pending = True
        else:
            raise KeyboardInterrupt
