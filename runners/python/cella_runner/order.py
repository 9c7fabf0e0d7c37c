"""The order of text and displays, which travel apart: text in pipes, displays on the session's socket.

Before a display is sent, all text must have been read; before more text is written, the display. The kernel counts what
has not been read. Only runs that display something wait, and never longer than for the supervisor to be scheduled.
"""

import fcntl
import time

FIONREAD, SIOCOUTQ = 0x541B, 0x5411
NAP_SECONDS = 0.00005
LONGEST_NAP_SECONDS = 0.002
PATIENCE_SECONDS = 0.2
# A background process that never stops writing keeps a pipe from being empty.
MOST_FAILURES = 2


def _unread(fd: int, request: int) -> bool:
    return fcntl.ioctl(fd, request, b"\0\0\0\0") != b"\0\0\0\0"


class Order:
    def __init__(self):
        self._failures = 0

    def begin(self):
        self._failures = 0

    def await_reader(self, pipes, socket: int):
        """Until the pipes and the socket are empty."""
        if self._failures >= MOST_FAILURES:
            return
        try:
            nap, end = NAP_SECONDS, None
            while any(_unread(pipe, FIONREAD) for pipe in pipes) or _unread(socket, SIOCOUTQ):
                now = time.monotonic()
                if end is None:
                    end = now + PATIENCE_SECONDS
                elif now > end:
                    self._failures += 1
                    return
                time.sleep(nap)
                nap = min(nap * 2, LONGEST_NAP_SECONDS)
        except OSError:
            self._failures = MOST_FAILURES  # a descriptor is gone: then there is no order
