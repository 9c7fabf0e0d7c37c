"""Requests and answers over pooled connections: of a private server, or of one somewhere else."""

from __future__ import annotations

import json
import os
import time

from cella._http import Lines, Response, head_bytes, header_line
from cella._transport.address import Address
from cella._transport.aio import INTERRUPTS, Connection, Pool, connect, in_thread, wait_readable
from cella._version import __version__
from cella.errors import CellaError, ConnectionFailed, ForkedError, ProtocolError, ServerStartError, api_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable
    from typing import Any, BinaryIO, Callable, Optional, Union

    from cella._async.channel import Channel
    from cella._private_server import PrivateServer

    Interrupted = Callable[[], Awaitable[None]]

# Asking these again changes nothing, so that a connection which had ended meanwhile is no failure.
_REPEATABLE = ("GET", "PUT", "DELETE")
_PART = 256 << 10
# Code that was interrupted has so long to end by itself; after that it is cancelled.
_INTERRUPT_GRACE = 3.0
# Of a private server.
START_BOUND = 20.0
# A server that sends nothing for so long is asked for its health, and has a while to answer that.
PATIENCE = 15.0
_PROBE = 5.0
_BROKEN = (OSError, EOFError)


class Answer:
    """An answer whose body may still be on its way. `release` it."""

    __slots__ = ("_connection", "_exchanges", "_probes", "interrupted", "response")

    def __init__(
        self, exchanges: Exchanges, connection: Connection, interrupted: Optional[Interrupted], probes: bool
    ) -> None:
        self._exchanges = exchanges
        self._probes = probes
        self._connection: Optional[Connection] = connection
        self.interrupted = interrupted
        self.response = Response()

    async def receive(self) -> None:
        """Waits for more. A user's Ctrl-C first stops what the answer is about, then goes on its way."""
        while True:
            if self._connection is None:
                raise ConnectionFailed("the connection was closed before the answer was whole")
            try:
                self.response.feed(await self._connection.receive())
                return
            except TimeoutError as error:
                # A run may wait for its turn as long as others run; a server that does not answer at all has stopped.
                if not self._probes or not await self._exchanges.is_answering():
                    raise self._exchanges.broken(error) from error
            except _BROKEN as error:
                raise self._exchanges.broken(error) from error
            except INTERRUPTS:
                if self.interrupted is not None:
                    await self._finish_interrupted(self.interrupted)
                raise

    async def _finish_interrupted(self, interrupted: Interrupted) -> None:
        assert self._connection is not None
        end = time.monotonic() + _INTERRUPT_GRACE
        try:
            await interrupted()
            while not self.response.complete:
                self._connection.set_bound(max(end - time.monotonic(), 0.01))
                self.response.feed(await self._connection.receive())
        except (*_BROKEN, CellaError):
            self.close()

    async def read(self) -> bytes:
        """The rest of the body."""
        while not self.response.complete:
            await self.receive()
        return self.response.take()

    async def parts(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        while True:
            part = self.response.take()
            if part:
                yield part
            elif self.response.complete:
                return
            else:
                await self.receive()

    async def lines(self) -> AsyncIterator[Any]:
        """The documents of an NDJSON body as they come."""
        cut = Lines()
        async for part in self.parts():
            for line in cut.feed(part):
                yield parsed(line)

    def release(self) -> None:
        """Whole: the connection serves again. In the middle: it is dropped, which cancels a run."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self.response.complete and self.response.keep_alive:
            self._exchanges.pool.give(connection)
        else:
            connection.close()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise ProtocolError(f"the server's answer is no JSON: {body[:80]!r}") from None


def refusal(response: Response, body: bytes) -> CellaError:
    words: Any = {}
    if response.headers.get("content-type", "").startswith("application/json"):
        words = parsed(body)
    error = words.get("error") if isinstance(words, dict) else None
    if not isinstance(error, dict):
        error = {"code": "unknown", "message": f"the server answered {response.status}"}
    after = response.headers.get("retry-after", "")
    return api_error(
        response.status,
        str(error.get("code", "unknown")),
        str(error.get("message", "")),
        str(error.get("hint", "")),
        float(after) if after.isascii() and after.isdigit() else None,
    )


class Exchanges:
    """All requests to one server. Knows why it does not answer."""

    def __init__(self, address: Address, token: Optional[str] = None, server: Optional[PrivateServer] = None) -> None:
        self.address = address
        self._server = server
        self.pool = Pool()
        self._owner = os.getpid()
        self._fixed = header_line("Host", address.authority) + header_line("User-Agent", f"cella-python/{__version__}")
        if token is not None:
            self._fixed += header_line("Authorization", f"Bearer {token}")

    def check_process(self) -> None:
        if os.getpid() != self._owner:
            raise ForkedError(
                "this belongs to the process that made it, and this is a child made by fork: open a session here"
            )

    async def ask(
        self, method: str, where: str, document: Optional[object] = None, *, urgent: bool = False,
        interrupted: Optional[Interrupted] = None, patience: float = PATIENCE,
    ) -> Any:
        """Asks with a JSON document; the JSON document of the answer, or nothing."""
        body = b"" if document is None else json.dumps(document, allow_nan=False).encode()
        answer = await self.fetch(method, where, body, urgent=urgent, interrupted=interrupted, patience=patience)
        return parsed(answer or b"null")

    async def fetch(
        self, method: str, where: str, body: Union[bytes, BinaryIO] = b"", extra: bytes = b"", *, urgent: bool = False,
        interrupted: Optional[Interrupted] = None, patience: float = PATIENCE,
    ) -> bytes:
        """The whole body of the answer. What is urgent has only its patience."""
        async with self.pool.place(urgent):
            answer = await self.begin(method, where, body, extra, interrupted, patience, not urgent)
            try:
                return await answer.read()
            finally:
                answer.release()

    async def begin(
        self, method: str, where: str, body: Union[bytes, BinaryIO] = b"", extra: bytes = b"",
        interrupted: Optional[Interrupted] = None, patience: float = PATIENCE, probes: bool = True,
    ) -> Answer:
        """Sends a request; an answer that succeeded, with its head at least. A refusal is raised."""
        self.check_process()
        while True:
            connection = self.pool.take()
            reused = connection is not None
            if connection is None:
                connection = await self._connect()
            connection.set_bound(patience)
            answer = Answer(self, connection, interrupted, probes)
            try:
                await self._send(connection, method, where, body, extra)
                while not answer.response.has_head:
                    await answer.receive()
                if answer.response.status < 300:
                    return answer
                raise refusal(answer.response, await answer.read())
            except ConnectionFailed:
                answer.close()
                # A stream that was sent in part cannot be sent again.
                if not reused or method not in _REPEATABLE or not isinstance(body, bytes):
                    raise
            except BaseException:
                answer.release()
                raise

    async def _send(
        self, connection: Connection, method: str, where: str, body: Union[bytes, BinaryIO], extra: bytes
    ) -> None:
        try:
            if isinstance(body, bytes):
                await connection.send(head_bytes(method, where, self._fixed, len(body), extra) + body)
                return
            size = os.fstat(body.fileno()).st_size
            await connection.send(head_bytes(method, where, self._fixed, size, extra))
            while size > 0:
                part = await in_thread(body.read, min(size, _PART))
                if not part:
                    raise CellaError(f"the file became shorter while it was sent: {body.name}")
                size -= len(part)
                await connection.send(part)
        except TimeoutError as error:
            raise self.broken(error) from error
        except ConnectionError:
            pass  # a refusal may come before all of a body was taken: what can still be read tells

    async def upgrade(self, where: str) -> Channel:
        """A WebSocket."""
        from cella._async.channel import open_channel

        self.check_process()
        connection = await self._connect()
        return await open_channel(self, connection, b"GET %s HTTP/1.1\r\n%s" % (where.encode(), self._fixed))

    async def is_answering(self) -> bool:
        try:
            await self.fetch("GET", "/health", urgent=True, patience=_PROBE)
        except CellaError:
            return False
        return True

    def broken(self, error: Exception) -> CellaError:
        if self._server is not None:
            # The kernel closes the connections of a process before it tells of its end.
            died = self._server.error(0.0 if isinstance(error, TimeoutError) else 1.0)
            if died is not None:
                return died
        late = isinstance(error, TimeoutError)
        why = "it did not answer in time" if late else str(error) or "it ended without an answer"
        return ConnectionFailed(f"the connection to {self.address.text} failed: {why}")

    async def _connect(self) -> Connection:
        if self._server is not None and not self._server.ready:
            await self._wait_for_start(self._server)
        try:
            connection = await connect(self.address)
        except (OSError, EOFError) as error:
            raise self.broken(error) from error
        if self._server is not None:
            self._server.listen()
        return connection

    async def _wait_for_start(self, server: PrivateServer) -> None:
        deadline = time.monotonic() + START_BOUND
        while not server.ready:
            # In slices: what it says may be taken by another thread, and then nothing wakes this one.
            await wait_readable(server.descriptors(), 0.02)
            server.listen()
            died = server.error() if not server.ready else None
            if died is not None:
                raise died
            if time.monotonic() > deadline:
                raise ServerStartError(f"the private server did not come up in {START_BOUND:.0f} s")

    def close(self) -> None:
        if os.getpid() == self._owner:
            self.pool.close()
