"""Standard output and error of a session's code."""

from __future__ import annotations

import io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cella._inprocess.world import World


class _Bytes(io.BufferedIOBase):
    """`sys.stdout.buffer`: bytes, which become text where they are whole."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._rest = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        content = bytes(data)
        text, rest = _whole(self._rest + content)
        self._rest = rest
        if text:
            self._stream.write(text)
        return len(content)


def _whole(data: bytes) -> tuple[str, bytes]:
    """The text, and the beginning of a character whose other bytes are still to come."""
    for size in range(1, min(4, len(data) + 1)):
        if data[-size] & 0xC0 == 0x80:
            continue
        needed = 4 if data[-size] >= 0xF0 else 3 if data[-size] >= 0xE0 else 2 if data[-size] >= 0xC0 else 1
        if needed > size:
            return data[:-size].decode("utf-8", "replace"), data[-size:]
        break
    return data.decode("utf-8", "replace"), b""


class Stream(io.TextIOBase):
    """Closing it does nothing: it is the session's."""

    encoding = "utf-8"
    errors = "backslashreplace"
    line_buffering = True
    mode = "w"

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self._number = number
        self.name = ("<stdin>", "<stdout>", "<stderr>")[number]
        self.buffer = _Bytes(self)

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        record = self._world.record_of_this_thread()
        if record is not None and text:
            record.write(self._number, text)
        return len(text)

    def reconfigure(self, **_: object) -> None:
        pass

    def close(self) -> None:
        pass
