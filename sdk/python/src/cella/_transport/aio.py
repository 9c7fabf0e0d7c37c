"""Connections for asyncio. They belong to the loop that made them; a client may be used from several loops.

Plain sockets with the loop's sock_ methods: nothing is read ahead, and a socket can be closed when its loop is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import socket
import time
from _thread import allocate_lock

from cella._transport.address import CONNECT_BOUND, OPEN, Address, end, has_news, tune

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable
    from typing import Any, Callable, Optional, TypeVar

    T = TypeVar("T")

# The server ends connections that are idle for 75 s.
_IDLE_BOUND = 60.0
_MOST_IDLE = 64
# Of one loop at once; descriptors are few (often 1024). What stops a run does not wait for a place.
_MOST_BUSY = 256
_LAST_BOUND = 3.0
_PART = 256 << 10
# asyncio makes a cancellation of Ctrl-C.
INTERRUPTS: tuple[type[BaseException], ...] = ()


class Connection:
    """One connection. Dropping it in the middle of a run cancels the run."""

    __slots__ = ("_bound", "_loop", "_socket", "idle_since")

    def __init__(self, connected: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = connected
        self._bound: Optional[float] = None
        self.idle_since = 0.0
        OPEN.add(connected)

    async def send(self, data: bytes) -> None:
        try:
            sent = self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        # In parts: the bound is that of a wait, and not of all that is sent.
        rest = memoryview(data)[sent:]
        for at in range(0, len(rest), _PART):
            await _bounded(self._loop.sock_sendall(self._socket, rest[at : at + _PART]), self._bound)

    async def receive(self) -> bytes:
        try:
            return self._socket.recv(_PART)
        except (BlockingIOError, InterruptedError):
            pass
        await _readable(self._loop, self._socket, self._bound)
        return await self._loop.sock_recv(self._socket, _PART)

    def set_bound(self, seconds: Optional[float]) -> None:
        """How long each wait may last; beyond, TimeoutError."""
        self._bound = seconds

    def is_fresh(self) -> bool:
        return time.monotonic() - self.idle_since < _IDLE_BOUND and not has_news(self._socket)

    def close(self) -> None:
        end(self._socket)

    def __del__(self) -> None:
        # Of a client that was not closed, or a loop that is gone.
        self._socket.close()


class TlsConnection(Connection):
    """Over asyncio's streams, which have the only TLS there is for a loop."""

    __slots__ = ("_reader", "_writer")

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._bound: Optional[float] = None
        self.idle_since = 0.0

    async def send(self, data: bytes) -> None:
        for at in range(0, len(data), _PART):
            self._writer.write(data[at : at + _PART])
            await _bounded(self._writer.drain(), self._bound)

    async def receive(self) -> bytes:
        return await _bounded(self._reader.read(_PART), self._bound)

    def is_fresh(self) -> bool:
        return time.monotonic() - self.idle_since < _IDLE_BOUND and not self._reader.at_eof()

    def close(self) -> None:
        # The loop is closed, so the connection cannot be closed gracefully.
        with contextlib.suppress(RuntimeError):
            self._writer.transport.abort()

    def __del__(self) -> None:
        pass


async def _readable(loop: asyncio.AbstractEventLoop, connected: socket.socket, seconds: Optional[float]) -> None:
    """TimeoutError beyond the seconds. Cheaper than wait_for, which makes a task for each wait."""
    if seconds is None:
        return
    ready: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_reader(connected, _settle, ready)
    except NotImplementedError:
        return  # a loop of Windows has no readers: what it waits for is bounded by TCP alone
    late = loop.call_later(seconds, _expire, ready)
    try:
        await ready
    finally:
        late.cancel()
        loop.remove_reader(connected)


def _expire(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_exception(TimeoutError("it took too long"))


async def _bounded(work: Awaitable[T], seconds: Optional[float]) -> T:
    try:
        return await asyncio.wait_for(work, seconds)
    except asyncio.TimeoutError:  # before Python 3.11 it is none of the builtin ones
        raise TimeoutError("it took too long") from None


async def connect(address: Address) -> Connection:
    return await _bounded(_connect(address), CONNECT_BOUND)


async def _connect(address: Address) -> Connection:
    loop = asyncio.get_running_loop()
    if address.tls:
        reader, writer = await asyncio.open_connection(address.host, address.port, ssl=address.tls_context())
        return TlsConnection(reader, writer)
    if address.path is not None:
        return Connection(await _connected(loop, socket.AF_UNIX, address.path))
    refused: Optional[OSError] = None
    for family, _, _, _, where in await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM):
        try:
            return Connection(await _connected(loop, family, where))
        except OSError as error:
            refused = error
    raise refused or OSError(f"{address.host} has no address")


async def _connected(loop: asyncio.AbstractEventLoop, family: int, where: Any) -> socket.socket:
    connected = socket.socket(family, socket.SOCK_STREAM)
    try:
        connected.setblocking(False)
        await loop.sock_connect(connected, where)
        tune(connected)
    except BaseException:
        connected.close()
        raise
    return connected


class _LoopPool:
    def __init__(self) -> None:
        self.idle: list[Connection] = []
        self.places = asyncio.Semaphore(_MOST_BUSY)


class Pool:
    """Connections between requests, those of each loop apart."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._pools: dict[asyncio.AbstractEventLoop, _LoopPool] = {}

    def _mine(self) -> _LoopPool:
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            with self._lock:
                for other in [each for each in self._pools if each.is_closed()]:
                    _close_all(self._pools.pop(other))
                pool = self._pools.setdefault(loop, _LoopPool())
        return pool

    @contextlib.asynccontextmanager
    async def place(self, urgent: bool) -> AsyncGenerator[None, None]:
        """Waits until this loop has fewer requests under way than it may. Not for what ends one of them."""
        if urgent:
            yield
            return
        async with self._mine().places:
            yield

    def take(self) -> Optional[Connection]:
        idle = self._mine().idle
        while idle:
            connection = idle.pop()
            if connection.is_fresh():
                return connection
            connection.close()
        return None

    def give(self, connection: Connection) -> None:
        connection.idle_since = time.monotonic()
        idle = self._mine().idle
        if len(idle) < _MOST_IDLE:
            idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        with self._lock:
            pools, self._pools = self._pools, {}
        for pool in pools.values():
            _close_all(pool)


def _close_all(pool: _LoopPool) -> None:
    for connection in pool.idle:
        connection.close()
    pool.idle.clear()


class Turn:
    """One at a time, in each loop."""

    def __init__(self) -> None:
        self._locks: dict[asyncio.AbstractEventLoop, asyncio.Lock] = {}

    def _mine(self) -> asyncio.Lock:
        return self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())

    async def __aenter__(self) -> None:
        await self._mine().acquire()

    async def __aexit__(self, *ignored: object) -> None:
        self._mine().release()


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def wait_readable(descriptors: tuple[int, ...], seconds: float) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    # Copies, since a loop has one reader for each descriptor, and several tasks may wait here.
    copies = [os.dup(descriptor) for descriptor in descriptors if descriptor >= 0]
    try:
        for copy in copies:
            loop.add_reader(copy, _settle, ready)
        await asyncio.wait([ready], timeout=seconds)
    finally:
        for copy in copies:
            loop.remove_reader(copy)
            os.close(copy)


async def pause(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def call(callback: Callable[..., Any], *words: Any) -> Any:
    """A callback may be a plain function or a coroutine function."""
    answer = callback(*words)
    return await answer if inspect.isawaitable(answer) else answer


class Bell:
    """Rung by any thread, waited for by a task of the loop that made it. Rings before the wait are not lost."""

    __slots__ = ("_event", "_loop", "_rung")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._rung = False

    def ring(self) -> None:
        if not self._rung:
            self._rung = True
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, seconds: Optional[float] = None) -> None:
        """Until it was rung since the last time; at most so long."""
        with contextlib.suppress(asyncio.TimeoutError):
            if seconds is None:
                await self._event.wait()
            else:
                await asyncio.wait_for(self._event.wait(), seconds)
        self._event.clear()
        self._rung = False


_settling: set[asyncio.Future[Any]] = set()


async def settle(work: Callable[[], Awaitable[T]], undo: Callable[[T], Awaitable[None]]) -> T:
    """Work that makes something elsewhere. If the wait is cancelled it goes on, and what it makes is undone in the
    same task: a program that waits for its tasks waits for this."""
    abandoned = False

    async def make() -> T:
        made = await work()
        if abandoned:
            await undo(made)
        return made

    making = asyncio.ensure_future(make())
    try:
        return await asyncio.shield(making)
    except asyncio.CancelledError:
        abandoned = True
        making.add_done_callback(lambda made: made.cancelled() or made.exception())  # no caller is left to see it
        if not making.done():
            _keep(making)
        elif not making.cancelled() and making.exception() is None:
            _keep(asyncio.ensure_future(undo(making.result())))
        raise


async def shielded(work: Callable[[], Awaitable[None]]) -> None:
    """Goes on when the wait is cancelled; within a bound also when its loop is about to end and cancels everything."""
    making = asyncio.ensure_future(_twice(work))
    _keep(making)
    await asyncio.shield(making)


async def _twice(work: Callable[[], Awaitable[None]]) -> None:
    try:
        await work()
    except asyncio.CancelledError:
        await asyncio.wait_for(work(), _LAST_BOUND)


def _keep(future: asyncio.Future[Any]) -> None:
    """A loop knows its tasks weakly: without this one might vanish in the middle."""
    _settling.add(future)
    future.add_done_callback(_settling.discard)


async def in_thread(work: Callable[..., T], *words: Any) -> T:
    """Work with files, off the loop."""
    return await asyncio.get_running_loop().run_in_executor(None, work, *words)
