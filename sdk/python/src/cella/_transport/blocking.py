"""Connections for threads. The names are those of `aio`, so that one source serves both."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from _thread import allocate_lock

from cella._transport.address import CONNECT_BOUND, OPEN, Address, end, has_news, tune

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any, Callable, Optional, TypeVar

    T = TypeVar("T")

# The server ends connections that are idle for 75 s.
_IDLE_BOUND = 60.0
_MOST_IDLE = 64
_PART = 256 << 10
# What a user's Ctrl-C raises while we wait.
INTERRUPTS: tuple[type[BaseException], ...] = (KeyboardInterrupt,)


class Connection:
    """One connection. Dropping it in the middle of a run cancels the run."""

    __slots__ = ("_bound", "_socket", "idle_since")

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._bound: Optional[float] = None
        self.idle_since = 0.0
        OPEN.add(connected)

    def send(self, data: bytes) -> None:
        # In parts: the time-out of a socket is that of a whole sendall, and the bound is that of a wait.
        for at in range(0, len(data), _PART):
            try:
                self._socket.sendall(memoryview(data)[at : at + _PART])
            except socket.timeout:
                raise TimeoutError("it took too long") from None

    def receive(self) -> bytes:
        try:
            return self._socket.recv(_PART)
        except socket.timeout:  # before Python 3.10 it is none of the builtin ones
            raise TimeoutError("it took too long") from None

    def set_bound(self, seconds: Optional[float]) -> None:
        """How long each wait may last; beyond, TimeoutError."""
        if seconds != self._bound:
            self._bound = seconds
            self._socket.settimeout(seconds)

    def is_fresh(self) -> bool:
        return time.monotonic() - self.idle_since < _IDLE_BOUND and not has_news(self._socket)

    def close(self) -> None:
        end(self._socket)

    def __del__(self) -> None:
        # Of a client that was not closed, or a loop that is gone.
        self._socket.close()


def connect(address: Address) -> Connection:
    if address.path is not None:
        connected = socket.socket(socket.AF_UNIX)
    else:
        connected = socket.create_connection((address.host, address.port), CONNECT_BOUND)
    try:
        if address.path is not None:
            connected.settimeout(CONNECT_BOUND)
            connected.connect(address.path)
        tune(connected)
        if address.tls:
            connected = address.tls_context().wrap_socket(connected, server_hostname=address.host)
        connected.settimeout(None)
    except BaseException:
        connected.close()
        raise
    return Connection(connected)


class Pool:
    """Connections between requests, for all threads of this process."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._idle: list[Connection] = []

    @contextlib.contextmanager
    def place(self, urgent: bool) -> Generator[None, None, None]:
        """Threads are few enough by themselves."""
        yield

    def take(self) -> Optional[Connection]:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if connection.is_fresh():
                return connection
            connection.close()

    def give(self, connection: Connection) -> None:
        connection.idle_since = time.monotonic()
        with self._lock:
            if len(self._idle) < _MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


class Turn:
    """One at a time."""

    def __init__(self) -> None:
        self._lock = allocate_lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *ignored: object) -> None:
        self._lock.release()


class Bell:
    """Rung by any thread, waited for by one. Rings before the wait are not lost."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._lock.acquire()

    def ring(self) -> None:
        try:
            self._lock.release()
        except RuntimeError:
            pass  # it was rung already

    def wait(self, seconds: Optional[float] = None) -> None:
        """Until it was rung since the last time; at most so long."""
        self._lock.acquire(timeout=-1 if seconds is None else seconds)


def wait_readable(descriptors: tuple[int, ...], seconds: float) -> None:
    poll = select.poll()
    for descriptor in descriptors:
        if descriptor >= 0:
            poll.register(descriptor, select.POLLIN)
    poll.poll(seconds * 1000)


def pause(seconds: float) -> None:
    time.sleep(seconds)


def call(callback: Callable[..., Any], *words: Any) -> Any:
    return callback(*words)


def settle(work: Callable[[], T], undo: Callable[[T], None]) -> T:
    """A thread's wait cannot be cancelled."""
    return work()


def shielded(work: Callable[[], None]) -> None:
    """Nothing cancels the wait of a thread."""
    work()


def in_thread(work: Callable[..., T], *words: Any) -> T:
    """Work with files. This is a thread of the caller already."""
    return work(*words)
