"""The door through which libcella uses these sessions: one socket each, with the frames of runners/README.md.

Two threads serve a socket. One reads requests and never waits for the code; the other writes what the code emits.
"""

from __future__ import annotations

import os
import socket
import threading
from queue import SimpleQueue

from cella._guest.cella_runner import values
from cella._guest.cella_runner.calls import VARIABLE
from cella._guest.cella_runner.frames import decode, encode
from cella._inprocess.guest import Guest
from cella._inprocess.hooks import start_unmarked
from cella._inprocess.socket_calls import SocketCalls
from cella._inprocess.stopper import STOPPER
from cella.config import InProcessConfig
from cella.errors import CellaError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional

    from cella._inprocess.record import Document, Record

_LARGEST_REQUEST = 64 << 20
_PIECE = 1 << 15  # characters of a frame with output
# As a runner reports the end of code. A request of the host has the host's own words for it.
_STATUS = {"ok": "ok", "error": "error"}


def serve(fd: int) -> None:
    """Opens a session and returns; the session ends with the socket, which is taken over, also by a call that fails."""
    try:
        channel = socket.socket(fileno=fd)
    except BaseException:
        os.close(fd)
        raise
    door = _Door(channel)
    for work in (door.read, door.write):
        start_unmarked(threading.Thread(target=work, name="cella-door", daemon=True))


class _Bell:
    def __init__(self, ring: Callable[[], None]) -> None:
        self.ring = ring


class _Door:
    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._owner = os.getpid()
        self._sending = threading.Lock()
        self._rung: SimpleQueue[Optional[Record]] = SimpleQueue()  # None: the end
        self._guest = Guest(InProcessConfig(default_timeout=None))  # the host knows the time
        self._names: dict[str, str] = {}  # of the host's runs here
        self._calls: Optional[SocketCalls] = None  # to the application

    # What the host asks

    def read(self) -> None:
        try:
            for frame in self._frames():
                self._take(frame)
        except (OSError, ValueError, CellaError, RecursionError):
            pass  # the host has closed it, or what it sent is of no use
        finally:
            self._guest.close()
            self._guest.join()
            self._rung.put(None)

    def _frames(self) -> Any:
        data = bytearray()
        while True:
            while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "little"):
                if len(data) >= 4 and int.from_bytes(data[:4], "little") > _LARGEST_REQUEST:
                    return
                more = self._channel.recv(1 << 16)
                if not more:
                    return
                data += more
            end = 4 + int.from_bytes(data[:4], "little")
            yield decode(data[4:end].decode("utf-8", "replace"))
            del data[:end]

    def _take(self, frame: Document) -> None:
        kind = frame.get("type")
        if kind == "configure":
            self._guest.configure(frame["output_limit"], frame.get("assignments") is True)
            if "tools" in frame.get("spaces", ()):
                self._calls = SocketCalls(frame["env"][VARIABLE])
        elif kind == "run":
            self._run(frame)
        elif kind == "interrupt":
            self._stop(frame, "interrupt")
        elif kind == "cancel":
            self._stop(frame, "cancel")
        elif kind == "input_reply":
            try:
                self._guest.reply(None if frame.get("eof") else str(frame["text"]))
            except CellaError:
                pass  # the code does not wait any more
        elif kind in ("complete", "inspect", "is_complete"):
            # A property of the code's own may take for ever.
            start_unmarked(threading.Thread(target=self._answer, args=(kind, frame), name="cella-asked", daemon=True))

    def _run(self, frame: Document) -> None:
        request = {"code": frame["code"], "stdin": frame.get("stdin"), "input": bool(frame.get("input"))}
        given: dict[str, object] = {}
        values.assign(given, frame.get("variables") or ())
        record = self._guest.submit(request, given, self._calls)
        self._names[frame["run"]] = record.id
        record.host_run = frame["run"]
        bell = _Bell(lambda: self._rung.put(record))
        record.streams.append(bell)
        record.waiters.append(bell)
        bell.ring()

    def _stop(self, frame: Document, how: str) -> None:
        record = self._names.get(str(frame.get("run")))
        job = None if record is None else self._guest.job(record)
        if job is None or job.ended:
            return
        if how == "cancel":
            self._guest.cancel(job.record.id)
        else:
            STOPPER.stop(job, how)

    def _answer(self, kind: str, frame: Document) -> None:
        from cella._guest.cella_runner import inspection

        code = frame["code"]
        try:
            if kind == "complete":
                answer = {"type": "completion", **self._guest.complete(code, frame["cursor"])}
            elif kind == "inspect":
                answer = {"type": "inspection", **self._guest.inspect(code, frame["cursor"])}
            else:
                answer = {"type": "completeness", "status": inspection.completeness(code)}
        except Exception as error:  # the code's own objects were asked
            answer = {"type": "inspection", "found": False, "text": type(error).__name__}
        self._send(answer)

    # What the code emits

    def write(self) -> None:
        seen: dict[str, int] = {}
        while True:
            record = self._rung.get()
            if record is None:
                self._channel.close()
                return
            is_last = record.done  # looked at first: the last events may come meanwhile
            if record.id not in seen and record.id not in self._names.values():
                continue  # its end was sent
            events = record.events(seen.get(record.id, 0))
            for event in events:
                self._emit(event, record)
            seen[record.id] = seen.get(record.id, 0) + len(events)
            if is_last:
                seen.pop(record.id, None)
                self._names.pop(record.host_run, None)

    def _emit(self, event: Document, record: Record) -> None:
        kind = event["type"]
        if kind in ("stdout", "stderr"):
            text = event["text"]
            for start in range(0, len(text), _PIECE):
                self._send({"type": kind, "text": text[start : start + _PIECE]})
        elif kind == "finished":
            self._send(
                {
                    "type": "done", "run": record.host_run, "status": _STATUS.get(event["status"], "interrupted"),
                    "exit_code": event["exit_code"], "displays_dropped": event["displays_dropped"],
                    "cpu_us": int(event["usage"]["cpu_ms"] * 1000), "lost": event["state"] == "lost",
                }
            )
        elif kind != "started":
            self._send({key: value for key, value in event.items() if key != "n"})

    def _send(self, frame: Document) -> None:
        if os.getpid() != self._owner:
            return
        body = encode(frame)
        with self._sending:
            try:
                self._channel.sendall(len(body).to_bytes(4, "little") + body)
            except OSError:
                pass  # the host has closed it
