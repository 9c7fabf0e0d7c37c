"""The session socket: frames in and out, and the descriptor it lives on.

The socket is moved to a high descriptor so that `os.closerange(3, 256)` and its like in guest code do not hit it.
A process that the guest forked shares the socket, so sending is refused wherever the pid is not the runner's own.
"""

import _socket
import errno
import fcntl
import os
import select
import threading
from os import getpid, read, write

from .frames import decode, encode
from .interrupts import Interrupts

REQUEST_LIMIT = 64 << 20
HIGH_DESCRIPTOR = 500
PEEKED = 1 << 16
SMALL_FRAME = 512


def to_high_descriptor(fd: int) -> int:
    """A close-on-exec duplicate, at 500 and up where RLIMIT_NOFILE allows it, else as high as it goes."""
    for lowest in (HIGH_DESCRIPTOR, 240, 120, 48, 20, 3):
        try:
            return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, lowest)
        except OSError:
            continue
    raise OSError("no free descriptor")


class Channel:
    def __init__(self, interrupts: Interrupts):
        self.interrupts = interrupts
        self.fd = -1
        self.pid = 0
        self.muted = False
        self.interrupted = None  # the run that the last interrupt frame named, if it was read while code ran
        self._buffer = b""
        self._sending = threading.RLock()

    def open(self, fd: int):
        self.adopt(to_high_descriptor(fd))
        os.close(fd)

    def adopt(self, fd: int):
        self.fd = fd
        self.pid = getpid()

    def close(self):
        os.close(self.fd)

    def take_over(self):
        """The copy of a checkpoint goes on; the library has put a socket of its own under the old number."""
        self._buffer = b""
        self.pid = getpid()

    def is_owner(self) -> bool:
        return getpid() == self.pid

    def readable(self, seconds: float) -> bool:
        if self._buffer:
            return True
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def is_closed(self) -> bool:
        """No thread will send anything more."""
        poll = select.poll()
        poll.register(self.fd, select.POLLRDHUP)
        return bool(poll.poll(0))

    def receive(self):
        """The next frame, or None at the end of the socket."""
        data = self._buffer or read(self.fd, 65536)
        while True:
            if len(data) >= 4:
                end = 4 + int.from_bytes(data[:4], "little")
                if end > REQUEST_LIMIT + 4:
                    return None
                if len(data) >= end:
                    self._buffer = data[end:]
                    return decode(data[4:end].decode("utf-8", "replace"))
                data = self._read_rest(data, end)
                if len(data) < end:
                    return None
            else:
                more = read(self.fd, 65536)
                if not more:
                    return None
                data += more

    def take_interrupt(self, run) -> bool:
        """Whether that run, which is about to begin, is to be interrupted. What else has been sent stays (input that
        was typed ahead)."""
        found, others = False, []
        try:
            while self.readable(0):
                frame = self.receive()
                if frame is None:
                    break
                if frame.get("type") == "interrupt":
                    found = found or frame.get("run") == run
                    self.interrupted = frame.get("run")
                else:
                    others.append(encode(frame))
        except OSError:
            pass  # the guest closed the socket
        self._buffer = b"".join(len(body).to_bytes(4, "little") + body for body in others)
        return found

    def sees_interrupt(self, run) -> bool:
        """Whether a frame that interrupts this run is there, which stays. For a signal handler: one that interrupts
        receive() may see none."""
        if self.interrupted == run:
            return True
        carrier = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK, 0, self.fd)
        try:
            data = self._buffer + carrier.recv(PEEKED, _socket.MSG_PEEK | _socket.MSG_DONTWAIT)
        except OSError:
            data = self._buffer  # nothing is there
        finally:
            carrier.detach()
        while len(data) >= 4:
            end = 4 + int.from_bytes(data[:4], "little")
            if len(data) >= end and end <= SMALL_FRAME:
                try:
                    frame = decode(data[4:end].decode("utf-8", "replace"))
                except Exception:
                    return False  # the rest of a frame that is being received
                if frame.get("type") == "interrupt" and frame.get("run") == run:
                    return True
            data = data[end:]
        return False

    def _read_rest(self, data: bytes, end: int) -> bytes:
        parts, size = [data], len(data)
        while size < end:
            part = read(self.fd, min(end - size, 1 << 20))
            if not part:
                break
            parts.append(part)
            size += len(part)
        return b"".join(parts)

    def send(self, frame: dict):
        self.send_bytes(encode(frame))

    def send_bytes(self, body: bytes, descriptors=()):
        """With descriptors it may fail, where too many are on their way already."""
        if getpid() != self.pid:
            return
        data = len(body).to_bytes(4, "little") + body
        holding = self.interrupts.hold()
        try:
            with self._sending:
                if self.muted:
                    return
                if descriptors:
                    self._send_with_descriptors(data, descriptors)
                    return
                sent = write(self.fd, data)
                while sent < len(data):
                    sent += write(self.fd, data[sent : sent + (1 << 20)])
        except OSError as error:
            if descriptors and error.errno == errno.ETOOMANYREFS:
                raise
            os._exit(0)  # the supervisor is gone
        finally:
            if holding:
                self.interrupts.release()

    def _send_with_descriptors(self, data: bytes, descriptors):
        packed = b"".join(fd.to_bytes(4, "little") for fd in descriptors)
        # The flag is for the object alone: without it, a default timeout that the guest has set would become the socket's.
        carrier = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK, 0, self.fd)
        try:
            carrier.sendmsg([data], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, packed)])
        finally:
            carrier.detach()
