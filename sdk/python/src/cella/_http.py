"""HTTP/1.1 without input and output: bytes of requests, and a parser that is fed with what arrives.

What a server sends is bounded where it is not asked for (heads, chunk lines) and never trusted to be well formed.
"""

from __future__ import annotations

from cella.errors import ProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Union

MAX_HEAD = 64 << 10
MAX_CHUNK_LINE = 256
_HEX = b"0123456789abcdefABCDEF"
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def quote(text: str, keep: str = "") -> str:
    """Percent-encodes a part of a target; surrogates of undecodable file names become their bytes again."""
    plain = _PLAIN | frozenset(keep.encode())
    return "".join(chr(byte) if byte in plain else f"%{byte:02X}" for byte in text.encode("utf-8", "surrogateescape"))


def target(path: str, query: Optional[dict[str, Union[str, int, None]]] = None) -> str:
    """A path that is quoted already, and what is asked; keys without a value are left out."""
    pairs = [f"{key}={quote(str(value))}" for key, value in (query or {}).items() if value is not None]
    return f"{path}?{'&'.join(pairs)}" if pairs else path


def head_bytes(method: str, where: str, fixed: bytes, length: Optional[int], extra: bytes = b"") -> bytes:
    """The head of a request. `fixed` are header lines of every request, `extra` those of this one."""
    size = b"" if length is None else b"Content-Length: %d\r\n" % length
    return b"%s %s HTTP/1.1\r\n%s%s%s\r\n" % (method.encode(), where.encode(), fixed, extra, size)


def header_line(name: str, value: str) -> bytes:
    """One header. Refuses what would begin another."""
    line = f"{name}: {value}"
    if any(c in line for c in "\r\n\0") or not name:
        raise ValueError(f"the header {name!r} must be one line")
    return line.encode("latin-1") + b"\r\n"


class Response:
    """Fed with bytes until `complete`. The body is taken as it comes (`take`) or as a whole at the end."""

    __slots__ = ("_chunked", "_input", "_left", "_parts", "_state", "complete", "headers", "keep_alive", "status")

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}  # names in lower case
        self.complete = False
        self.keep_alive = True
        self._input = bytearray()
        self._parts: list[bytes] = []
        self._state = "head"
        self._chunked = False
        self._left: Optional[int] = None  # of the body or chunk; None: until the connection ends

    @property
    def has_head(self) -> bool:
        return self._state != "head"

    def take(self) -> bytes:
        """The part of the body that has arrived and was not taken yet."""
        parts, self._parts = self._parts, []
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def feed(self, data: bytes) -> None:
        """What the connection gave; nothing at its end."""
        if not data:
            self._end()
            return
        if self._state == "body":
            self._body(data)
            return
        self._input += data
        if self._state == "head" and not self._head():
            return
        if self._state == "body":
            rest = bytes(self._input)
            self._input.clear()
            self._body(rest)
        elif self._state == "done":
            self.keep_alive = self.keep_alive and not self._input  # bytes that were not requested
        else:
            self._chunks()

    def _end(self) -> None:
        if self._state == "body" and self._left is None:
            self.complete, self.keep_alive = True, False
            return
        begun = self._state != "head" or self._input
        raise EOFError("it ended in the middle of an answer" if begun else "")

    def _head(self) -> bool:
        end = self._input.find(b"\r\n\r\n")
        if end < 0:
            if len(self._input) > MAX_HEAD:
                raise ProtocolError("the head of the answer has no end: this is no Cella server")
            return False
        lines = bytes(self._input[:end]).split(b"\r\n")
        del self._input[: end + 4]
        version, _, rest = lines[0].partition(b" ")
        if version not in (b"HTTP/1.1", b"HTTP/1.0") or not rest[:3].isdigit():
            raise ProtocolError(f"this is no HTTP answer: {lines[0][:80]!r}")
        self.status = int(rest[:3])
        for line in lines[1:]:
            name, colon, value = line.partition(b":")
            if not colon:
                raise ProtocolError(f"this is no header: {line[:80]!r}")
            self.headers[name.strip().lower().decode("latin-1")] = value.strip().decode("latin-1")
        if 100 <= self.status < 200:
            self.headers.clear()
            return self._head()
        self._choose_body(version)
        return True

    def _choose_body(self, version: bytes) -> None:
        connection = self.headers.get("connection", "").lower()
        self.keep_alive = version == b"HTTP/1.1" and connection != "close"
        self._chunked = self.headers.get("transfer-encoding", "").lower() == "chunked"
        length = self.headers.get("content-length")
        self._state = "size" if self._chunked else "body"
        if self._chunked:
            return
        if self.status in (204, 304):
            self._left = 0
        elif length is not None:
            if not (length.isascii() and length.isdigit()):
                raise ProtocolError(f"this is no length: {length[:80]!r}")
            self._left = int(length)
        if self._left == 0:
            self.complete = True
            self._state = "done"

    def _body(self, data: bytes) -> None:
        if self._left is None:
            self._parts.append(data)
            return
        if len(data) > self._left:
            data, self.keep_alive = data[: self._left], False
        self._left -= len(data)
        self._parts.append(data)
        if self._left == 0:
            self.complete = True
            self._state = "done"

    def _chunks(self) -> None:
        data = bytes(self._input)
        at = 0
        while not self.complete:
            if self._state == "chunk":
                part = data[at : at + (self._left or 0)]
                at += len(part)
                self._left = (self._left or 0) - len(part)
                if part:
                    self._parts.append(part)
                if self._left:
                    break
                self._state = "after"
            end = data.find(b"\r\n", at)
            if end < 0:
                if len(data) - at > MAX_CHUNK_LINE:
                    raise ProtocolError("a chunk of the answer has no size")
                break
            line, at = data[at:end], end + 2
            self._line(line)
        self._input = bytearray(data[at:])
        if self.complete and self._input:
            self.keep_alive = False

    def _line(self, line: bytes) -> None:
        if self._state == "after" and not line:
            self._state = "size"
        elif self._state == "trailer":
            if not line:
                self.complete = True
                self._state = "done"
        elif self._state == "size":
            digits = line.partition(b";")[0].strip()
            if not 0 < len(digits) <= 16 or digits.strip(_HEX):
                raise ProtocolError(f"this is no size of a chunk: {line[:80]!r}")
            self._left = int(digits, 16)
            self._state = "chunk" if self._left else "trailer"
        else:
            raise ProtocolError("a chunk of the answer is longer than it says")


class Lines:
    """Cuts a body into lines (NDJSON). Empty ones keep a silent connection alive, and are left out."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        # Parts of one long line are joined once, at its end: a line of many megabytes costs no more than its size.
        first, newline, rest = data.partition(b"\n")
        self._rest.append(first)
        if not newline:
            return []
        lines = [b"".join(self._rest), *rest.split(b"\n")]
        self._rest = [lines.pop()]
        return [line for line in lines if line.strip()]
