# Made from _async/channel.py by tools/make_sync.py: change that one.
"""A channel to one session: a WebSocket over which a run goes and calls of tools come."""

from __future__ import annotations

import json

from cella._http import Response
from cella._transport.blocking import Turn
from cella._websocket import CLOSE, PING, PONG, TEXT, Frames, accept_of, frame, handshake_lines, new_key
from cella.errors import ConnectionFailed, ProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cella._sync.exchange import Exchanges
    from cella._transport.blocking import Connection

_BROKEN = (OSError, EOFError)
_HANDSHAKE = 15.0


class Channel:
    """Messages are JSON objects. Closed without a word, it ends the runs that were begun with it."""

    def __init__(self, exchanges: Exchanges, connection: Connection, rest: bytes) -> None:
        self._exchanges = exchanges
        self._connection = connection
        self._frames = Frames()
        self._turn = Turn()  # replies of several tasks must not mix
        if rest:
            self._frames.feed(rest)

    def send(self, message: dict[str, Any]) -> None:
        self._send(TEXT, json.dumps(message, allow_nan=False).encode())

    def _send(self, opcode: int, payload: bytes) -> None:
        try:
            with self._turn:
                self._connection.send(frame(opcode, payload))
        except _BROKEN as error:
            raise self._exchanges.broken(error) from error

    def receive(self) -> dict[str, Any]:
        while True:
            taken = self._frames.take()
            if taken is None:
                try:
                    self._frames.feed(self._connection.receive())
                except _BROKEN as error:
                    raise self._exchanges.broken(error) from error
            elif taken[0] == PING:
                self._send(PONG, taken[1])
            elif taken[0] == CLOSE:
                raise ConnectionFailed(f"the server closed the channel: {taken[1][2:].decode('utf-8', 'replace')}")
            elif taken[0] == TEXT:
                message = json.loads(taken[1])
                if isinstance(message, dict):
                    return message

    def set_bound(self, seconds: float) -> None:
        self._connection.set_bound(seconds)

    def close(self) -> None:
        self._connection.close()


def open_channel(exchanges: Exchanges, connection: Connection, head: bytes) -> Channel:
    """`head`: the request line and the headers of every request."""
    key = new_key()
    connection.set_bound(_HANDSHAKE)
    response = Response()
    try:
        connection.send(head + handshake_lines(key) + b"\r\n")
        received = b""
        while b"\r\n\r\n" not in received:
            part = connection.receive()
            if not part:
                raise EOFError("it ended without an answer")
            received += part
    except _BROKEN as error:
        connection.close()
        raise exchanges.broken(error) from error
    headers, _, rest = received.partition(b"\r\n\r\n")
    if not headers.startswith(b"HTTP/1.1 101 "):
        connection.close()
        raise _refused(response, received)
    accepted = [line.split(b":", 1)[1].strip() for line in headers.split(b"\r\n") if _is_accept(line)]
    if accepted != [accept_of(key).encode()]:
        connection.close()
        raise ProtocolError("the server did not accept the channel as a WebSocket")
    connection.set_bound(None)
    return Channel(exchanges, connection, rest)


def _is_accept(line: bytes) -> bool:
    return line.lower().startswith(b"sec-websocket-accept:")


def _refused(response: Response, received: bytes) -> Exception:
    from cella._sync.exchange import refusal

    try:
        response.feed(received)
        return refusal(response, response.take())
    except (EOFError, ProtocolError) as error:
        return ProtocolError(f"the server did not open a channel: {error}")
