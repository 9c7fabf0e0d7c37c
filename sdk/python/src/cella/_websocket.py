"""The client's side of WebSocket (RFC 6455) without input and output: bytes of the handshake and of frames, and a
parser that is fed with what arrives."""

from __future__ import annotations

import base64
import hashlib
import os

from cella.errors import ProtocolError

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_MAX_MESSAGE = 64 << 20
TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


def new_key() -> bytes:
    return base64.b64encode(os.urandom(16))


def handshake_lines(key: bytes) -> bytes:
    """Headers of the request that asks for the upgrade."""
    return (
        b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + key + b"\r\n"
    )


def accept_of(key: bytes) -> str:
    """What the server answers with."""
    return base64.b64encode(hashlib.sha1(key + _GUID).digest()).decode()


def frame(opcode: int, payload: bytes) -> bytes:
    """One whole message, masked as a client must."""
    size = len(payload)
    if size < 126:
        head = bytes((0x80 | opcode, 0x80 | size))
    elif size < 1 << 16:
        head = bytes((0x80 | opcode, 0x80 | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | opcode, 0x80 | 127)) + size.to_bytes(8, "big")
    # The mask is no secret here: it keeps proxies from taking frames for requests.
    mask = os.urandom(4)
    return head + mask + _masked(payload, mask)


def _masked(payload: bytes, mask: bytes) -> bytes:
    if not payload:
        return b""
    size = len(payload)
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")


class Frames:
    """Fed with bytes; `take` gives (opcode, payload) of whole messages and control frames."""

    __slots__ = ("_input", "_kind", "_parts")

    def __init__(self) -> None:
        self._input = bytearray()
        self._parts: list[bytes] = []
        self._kind = 0

    def feed(self, data: bytes) -> None:
        if not data:
            raise EOFError("it ended without a goodbye")
        self._input += data

    def take(self) -> tuple[int, bytes] | None:
        while True:
            found = self._next()
            if found is None:
                return None
            opcode, final, payload = found
            if opcode >= CLOSE:
                return opcode, payload
            self._kind = opcode or self._kind
            self._parts.append(payload)
            if sum(map(len, self._parts)) > _MAX_MESSAGE:
                raise ProtocolError("a message of the server is too large")
            if final:
                whole, self._parts = b"".join(self._parts), []
                return self._kind, whole

    def _next(self) -> tuple[int, bool, bytes] | None:
        data = self._input
        if len(data) < 2:
            return None
        size, at = data[1] & 0x7F, 2
        if data[1] & 0x80:
            raise ProtocolError("the server masks its frames: this is no WebSocket server")
        if size >= 126:
            width = 2 if size == 126 else 8
            if len(data) < 2 + width:
                return None
            size, at = int.from_bytes(data[2 : 2 + width], "big"), 2 + width
        if size > _MAX_MESSAGE:
            raise ProtocolError("a message of the server is too large")
        if len(data) < at + size:
            return None
        opcode, final, payload = data[0] & 0x0F, bool(data[0] & 0x80), bytes(data[at : at + size])
        del data[: at + size]
        return opcode, final, payload
