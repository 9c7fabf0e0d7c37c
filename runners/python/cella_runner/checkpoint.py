"""Checkpoints: a frozen copy of the runner that waits on a socket of its own, and becomes the runner when it is woken.

The copy is made by the library's raw clone, with no hooks of Python or libc: it has to be this process as it stands.
That is sound only while there is one thread, since locks of others would stay locked in the copy for ever.
"""

import _socket
import os
import threading
import time

from .channel import Channel
from .frames import encode

SLOWEST_MICROSECONDS = 5000
TRY_AGAIN_AFTER = 8
# Small pages cost three times this and huge pages a quarter: optimistic, because what a copy really cost is remembered.
MICROSECONDS_PER_MEGABYTE = 5
MEGABYTE = 1 << 20
PAGE = os.sysconf("SC_PAGESIZE")


def _threads() -> int:
    try:
        return os.stat("/proc/self/task").st_nlink - 2
    except OSError:
        return threading.active_count()


def _resident() -> int:
    try:
        fd = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return int(os.read(fd, 200).split()[1]) * PAGE
        finally:
            os.close(fd)
    except (OSError, IndexError, ValueError):
        return 0


class Checkpoints:
    def __init__(self, channel: Channel, library_path: str):
        self._channel = channel
        self._library_path = library_path
        self._library = None
        self._pidfd = None
        self._missing = None
        self._last_cost = 0  # the smaller of the newest two: one may have met a bad moment of the machine
        self._newest_cost = 0
        self._last_resident = 0
        self._skipped = 0

    def use(self, library):
        """A library that is loaded already."""
        import ctypes

        self._library = library
        self._pidfd = ctypes.c_int(-1)
        library.cella_checkpoint_fork.argtypes = [ctypes.POINTER(ctypes.c_int)] + [ctypes.c_int] * 3
        library.cella_checkpoint_fork.restype = ctypes.c_int
        self._argument = ctypes.byref(self._pidfd)

    def _load(self):
        try:
            import ctypes

            self.use(ctypes.PyDLL(self._library_path))
        except (ImportError, OSError, AttributeError) as error:
            self._missing = "skipped: the checkpoint library is not there (%s)" % error

    def after_run(self, run, always: bool) -> bool:
        """True where one was taken and this is not the copy."""
        return self._take(None, run, always)

    def named(self, name):
        self._take(name, None, True)

    def _report(self, name, run, status, cost=0, descriptors=()):
        frame = {"type": "checkpoint", "name": name, "run": run, "status": status, "fork_us": cost}
        self._channel.send_bytes(encode(frame), descriptors)

    def _take(self, name, run, always: bool) -> bool:
        if self._library is None and self._missing is None:
            self._load()
        reason = self._missing
        resident = 0
        if reason is None:
            count = _threads()
            if count > 1:
                reason = "skipped: %d threads are running" % count
            else:
                resident = _resident()
                if not always and self._is_costly(resident):
                    reason = "skipped: copying %d MB would take too long" % (resident // MEGABYTE)
        if reason is not None:
            self._report(name, run, reason)
            return False
        try:
            ours, theirs = _socket.socketpair()
        except OSError as error:
            self._report(name, run, "skipped: %s" % error.strerror)
            return False
        ours, theirs = ours.detach(), theirs.detach()
        if _socket.getdefaulttimeout() is not None:
            for fd in (ours, theirs):
                os.set_blocking(fd, True)
        # Processor time: on a busy machine the clock on the wall says nothing about a fork.
        begin = time.process_time_ns()
        pid = self._library.cella_checkpoint_fork(self._argument, self._channel.fd, ours, theirs)
        if pid == 0:
            self._channel.take_over()
            threading.main_thread()._set_native_id()
            return False
        cost = (time.process_time_ns() - begin) // 1000
        os.close(ours)
        if pid < 0:
            self._report(name, run, "skipped: %s" % os.strerror(-pid))
        else:
            self._last_cost, self._newest_cost = min(cost, self._newest_cost), cost
            self._last_resident, self._skipped = resident, 0
            pidfd = self._pidfd.value
            try:
                self._report(name, run, "taken", cost, (theirs, pidfd))
            except OSError as error:
                self._report(name, run, "skipped: %s" % error.strerror)
            os.close(pidfd)
        os.close(theirs)
        return pid > 0

    def _is_costly(self, resident: int) -> bool:
        self._skipped += 1
        if self._skipped > TRY_AGAIN_AFTER:
            return False  # it may have become cheaper
        if self._last_cost > SLOWEST_MICROSECONDS:
            return resident >= self._last_resident * 3 // 4
        growth = max(resident - self._last_resident, 0) / MEGABYTE
        return self._last_cost + growth * MICROSECONDS_PER_MEGABYTE > SLOWEST_MICROSECONDS
