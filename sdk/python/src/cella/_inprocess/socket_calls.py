"""Calls from code in this process to the application that has loaded libcella, through the session's call socket.

The rules are the host's. A thread waits in slices, since a wait in C is not stopped.
"""

from __future__ import annotations

import contextvars
import socket

from cella._guest.cella_runner import calls
from cella._guest.cella_runner import tools as guest

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from typing import Any

    from cella._inprocess.record import Record
    from cella._inprocess.world import World

_POLL = 0.05
_PIECE = 1 << 16


class SocketCalls:
    """What the code of one session may call during a run."""

    def __init__(self, path: str) -> None:
        self._path = path

    def install(self, world: World, names: types.ModuleType) -> None:
        """As built-in names of the session's code."""

        def call(operation: str, args: Any = (), kwargs: Any = None) -> Any:
            record = world.record_of_this_thread()
            if record is None or record.done:
                raise calls.HostCallError("no run is on", guest.SPACE, operation, "CallRefused")

            def exchange(frame: bytes) -> tuple[bytes, bytes]:
                return self._exchange(frame, record)

            return calls.call(guest.SPACE, operation, args, kwargs, guest.ERRORS, exchange)

        async def call_async(operation: str, args: Any = (), kwargs: Any = None) -> Any:
            import asyncio

            loop = asyncio.get_running_loop()
            context = contextvars.copy_context()
            return await loop.run_in_executor(None, lambda: context.run(call, operation, args, kwargs))

        names.__dict__["tools"] = guest.Tools(call, call_async)
        names.__dict__["HostCallError"] = calls.HostCallError
        names.__dict__.update(guest.ERRORS)

    def _exchange(self, frame: bytes, record: Record) -> tuple[bytes, bytes]:
        """Header and body of the answer. The host ends the connection with the run."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(None)
            connection.connect(self._path)
            connection.settimeout(_POLL)
            rest = memoryview(frame)
            while rest:
                try:
                    rest = rest[connection.send(rest) :]
                except socket.timeout:
                    _check(record)
                except BrokenPipeError:
                    break  # refused before it was read: the reason is there
            sizes = _receive(connection, 8, record)
            header = _receive(connection, int.from_bytes(sizes[:4], "little"), record)
            return header, _receive(connection, int.from_bytes(sizes[4:], "little"), record)


def _check(record: Record) -> None:
    """The run may be over although its connection is not: the code was left behind."""
    if record.done:
        raise EOFError


def _receive(connection: socket.socket, size: int, record: Record) -> bytes:
    parts = []
    while size:
        try:
            part = connection.recv(min(size, _PIECE))
        except socket.timeout:
            _check(record)
            continue
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
