"""SIGINT: raises KeyboardInterrupt while a cell runs, does nothing between cells, and waits while a frame is sent.

One that comes between cells may be for a cell that is here and has not begun. The supervisor sends a frame before it,
which says what run it means: a cell that begins after a signal looks for that.

The handler stays installed between runs, rather than SIG_IGN: programs that the guest starts would inherit that.
It never raises into the code that surrounds a cell (protect()), however often a signal comes, or an exception could fly
between two of its lines. A signal that arrives there waits for the next check(), just inside what may be interrupted.

A signal may also be late: sent for a run that has ended since, and delivered to a thread that runs only now. For some
seconds after a run that was interrupted, SIGINT ends a cell only if a frame that names its run is there. Otherwise it
does what it does in any Python program, so that code may send it to itself.

SIGURG ends a system call that blocks. The supervisor sends it after SIGINT, which may have come when Python had looked
for signals already and was about to block, or just where it had to wait for a check() that did not follow. It repeats it.
"""

import _signal
from _thread import get_ident
from time import monotonic

SIGINT = int(_signal.SIGINT)
DOUBT_SECONDS = 5
NEAR_CALLERS = 8


class Interrupts:
    def __init__(self):
        self.armed = False  # a cell is running
        self.held = False  # the main thread is inside something that must not be torn apart
        self.pending = False
        self.early = False  # a signal came when no cell was running
        self.rehearsing = False  # the cell that runs is not the one to interrupt
        self.count = 0
        self._count_before = 0  # the run
        self._felt = False  # by the cell that runs
        self._doubt_until = 0.0
        self._run = None
        self._channel = None
        self.main = get_ident()
        self._protected = {self._handle.__code__.co_filename}
        self._protected_calls = set()  # code objects

    def protect(self, function):
        """From now on, no interrupt within the file of that function."""
        self._protected.add(function.__code__.co_filename)

    def protect_calls_of(self, function):
        """From now on, no interrupt while that function is on and has called few others: it waits for the next SIGURG."""
        self._protected_calls.add(function.__code__)

    def install(self):
        _signal.signal(SIGINT, self._handle)
        _signal.signal(_signal.SIGURG, self._wake)

    def arm(self, run, channel):
        """At the start of every run, since the last one may have installed a handler of its own, or blocked the signal.
        The channel is looked at only after a signal."""
        _signal.signal(SIGINT, self._handle)
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (SIGINT,))
        self._run, self._channel = run, channel
        self.held = self.armed = True
        if self.early and not self.rehearsing:
            self.early = False
            if channel.take_interrupt(run):
                self.pending = True
            else:
                self.doubt()  # the signal was for an earlier run, and another may follow
        self._count_before = self.count
        self._felt = self.pending
        self.held = False

    def disarm(self):
        if self.armed and self.count != self._count_before and not self.rehearsing:
            self.doubt()
        self.armed = self.pending = False

    def doubt(self):
        """An earlier run was interrupted: a signal that comes now may be late."""
        self._doubt_until = monotonic() + DOUBT_SECONDS

    def _is_meant(self) -> bool:
        return not self._doubt_until or monotonic() >= self._doubt_until or self._is_asked()

    def _is_asked(self) -> bool:
        """Another signal may come meanwhile, and must not tear this apart: the channel's descriptor would be closed."""
        held, self.held = self.held, True
        try:
            return self._channel.sees_interrupt(self._run)
        finally:
            self.held = held

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
        if self.held or frame is None or frame.f_code.co_filename in self._protected:
            return True
        if not self._protected_calls:
            return False
        for _ in range(NEAR_CALLERS):
            if frame.f_code in self._protected_calls:
                return True
            frame = frame.f_back
            if frame is None:
                break
        return False

    def _wake(self, signum, frame):
        if self.armed and not self._felt and self.count != self._count_before and self._is_asked():
            self.pending = self._felt = True  # the signal came before its frame
        if not self._must_wait(frame):
            self.check()

    def _handle(self, signum, frame):
        self.count += 1
        self.early = self.early or self.rehearsing or not self.armed
        if self.armed and self._is_meant():
            self.pending = self._felt = True
        if not self._must_wait(frame):
            self.check()
