"""SIGINT: raises KeyboardInterrupt while a cell runs, does nothing between cells, and waits while a frame is sent, or
when the next cell is there already and has not begun.

The handler stays installed between runs, rather than SIG_IGN: programs that the guest starts would inherit that.
It never raises into the code that surrounds a cell (protect()), however often a signal comes, or an exception could fly
between two of its lines. A signal that arrives there waits for the next check(), just inside what may be interrupted.
"""

import _signal
from _thread import get_ident

SIGINT = int(_signal.SIGINT)


class Interrupts:
    def __init__(self):
        self.armed = False  # a cell is running
        self.held = False  # the main thread is inside something that must not be torn apart
        self.pending = False
        self.awaited = None  # tells whether there is something to run
        self.main = get_ident()
        self._protected = {self._handle.__code__.co_filename}

    def protect(self, function):
        """From now on, no interrupt within the file of that function."""
        self._protected.add(function.__code__.co_filename)

    def install(self):
        _signal.signal(SIGINT, self._handle)

    def arm(self):
        """At the start of every run, since the last one may have installed a handler of its own."""
        _signal.signal(SIGINT, self._handle)
        self.armed = True

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

    def _handle(self, signum, frame):
        if not self.armed:
            self.pending = self.pending or bool(self.awaited and self.awaited())
            return
        if self.held or frame is None or frame.f_code.co_filename in self._protected:
            self.pending = True
        else:
            raise KeyboardInterrupt
