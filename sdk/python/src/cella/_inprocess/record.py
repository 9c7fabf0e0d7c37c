"""A run: what its code emits, as frames; from them the numbered events and the Result, as the server makes them.

The code's threads only append to a deque: an exception that stops the code may strike between any two lines there, so
no lock may be held. Frames become events in the thread that reads them.
"""

from __future__ import annotations

import os
import time
from _thread import allocate_lock
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional, Protocol, Union

    class Bell(Protocol):
        def ring(self) -> None: ...

    Document = dict[str, Any]
    # A text of standard output, or a kind with its content.
    Frame = Union[str, tuple[str, Any]]

# Of each stream; half of it is the head, half the tail.
OUTPUT_LIMIT = 1 << 20
_MOST_OUTPUTS = 1024
_MOST_OUTPUT_BYTES = 32 << 20

ISOLATION: Document = {
    "executor": "inprocess", "namespaces": [], "seccomp": False, "landlock": 0, "cgroup": "none",
    "network": "host", "proc": "host", "limits": {}, "runs_as": "this process",
}
_NAMES = ("stdin", "stdout", "stderr")


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "backslashreplace"))


def _clean(text: str) -> str:
    """Lone surrogates are shown escaped, as the runner's streams do."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


class _Tail:
    """What a stream wrote beyond its head: the newest part of it."""

    __slots__ = ("dropped", "most", "parts", "size")

    def __init__(self, most: int) -> None:
        self.parts: deque[str] = deque()
        self.most = most
        self.size = 0
        self.dropped = 0

    def add(self, text: str) -> None:
        if len(text) > self.most:
            self.dropped += _size(text[: -self.most])
            text = text[-self.most :]
        self.parts.append(text)
        self.size += len(text)
        while self.size > self.most:
            try:
                oldest = self.parts.popleft()
            except IndexError:
                return  # another thread of the code was faster
            excess = self.size - self.most
            self.size -= len(oldest)
            if len(oldest) > excess:
                kept = oldest[excess:]
                self.parts.appendleft(kept)
                self.size += len(kept)
                oldest = oldest[:excess]
            self.dropped += _size(oldest)


class Record:
    """Safe for any number of writing and reading threads."""

    def __init__(self, session: str, timeout: Optional[float], output_limit: int = OUTPUT_LIMIT) -> None:
        self.id = "run_" + os.urandom(16).hex()
        self.host_run = self.id  # as libcella calls it
        self.session = session
        self.timeout = timeout
        self.status = "queued"
        self.stopped: Optional[str] = None  # timeout, cancel or interrupt, once that was asked for
        self.done = False
        self.streams: list[Bell] = []  # rung for every frame
        self.waiters: list[Bell] = []  # rung at the end
        self._frames: deque[Frame] = deque()
        self._half = max(1, output_limit // 2)
        self._left = [0, self._half, self._half]
        self._tails: list[Optional[_Tail]] = [None, None, None]
        self._display_bytes = 0
        self.displays_dropped = 0
        self._begin = 0.0
        self._events: list[Document] = []
        self._reading = allocate_lock()
        self._result: Optional[Document] = None

    # By the code's threads

    def started(self) -> None:
        self.status = "running"
        self._begin = time.perf_counter()
        self._frames.append(("started", None))
        self._ring()

    def write(self, stream: int, text: str) -> None:
        left = self._left[stream]
        if left > 0:
            head = text if len(text) <= left else text[:left]
            self._left[stream] = left - len(head)
            self._frames.append(head if stream == 1 else ("stderr", head))
            self._ring()
            text = text[left:]
        if text:
            tail = self._tails[stream]
            if tail is None:
                tail = self._tails[stream] = _Tail(self._half)
            tail.add(text)

    def show(self, frame: Document) -> None:
        """A display or a value."""
        size = sum(map(len, frame["mime"].values()))
        if frame["type"] == "display" and self._display_bytes + size > _MOST_OUTPUT_BYTES:
            self.displays_dropped += 1
            return
        self._display_bytes += size
        self._frames.append((frame["type"], frame))
        self._ring()

    def ask(self, prompt: str, password: bool) -> None:
        self._frames.append(("input_request", {"prompt": prompt, "password": password}))
        self._ring()

    def tool(self, namespace: str, name: str, status: str, wall_ms: float) -> None:
        """A call to the host has ended."""
        event = {"namespace": namespace, "name": name, "status": status, "wall_ms": round(wall_ms, 3)}
        self._frames.append(("tool", event))
        self._ring()

    def finish(self, outcome: Document) -> None:
        """The last call: status, exit_code, error, state, cpu_ms and displays_dropped."""
        for stream in (1, 2):
            tail = self._tails[stream]
            if tail is not None:
                if tail.dropped:
                    self._frames.append(("truncated", {"stream": _NAMES[stream], "dropped": tail.dropped}))
                self._frames.append((_NAMES[stream], "".join(tail.parts)))
        if outcome["error"] is not None and outcome["error"]["traceback"]:
            self._frames.append(("error", outcome["error"]))
        outcome["wall_ms"] = (time.perf_counter() - self._begin) * 1000 if self._begin else 0.0
        self._frames.append(("finished", outcome))
        self.status = outcome["status"]
        self.done = True
        self._ring()
        for bell in list(self.waiters):
            bell.ring()

    def _ring(self) -> None:
        for bell in self.streams:
            bell.ring()

    # By those that read

    def events(self, after: int = 0) -> list[Document]:
        """Those that have happened since that number."""
        with self._reading:
            self._read_frames()
            return self._events[after:]

    def result(self) -> Document:
        """Once it is done."""
        if self._result is None:
            with self._reading:
                self._read_frames()
                self._result = _fold(self, self._events)
        return self._result

    def _read_frames(self) -> None:
        frames, events = self._frames, self._events
        parts: list[str] = []
        stream = ""  # neighbours of one stream become one event
        while frames:
            frame = frames.popleft()
            kind, content = ("stdout", frame) if isinstance(frame, str) else frame
            if parts and kind != stream:
                events.append({"n": len(events) + 1, "type": stream, "text": _clean("".join(parts))})
                parts = []
            if kind in ("stdout", "stderr"):
                stream = kind
                parts.append(content)
            else:
                events.append({"n": len(events) + 1, "type": kind, **self._fields(kind, content)})
        if parts:
            events.append({"n": len(events) + 1, "type": stream, "text": _clean("".join(parts))})

    def _fields(self, kind: str, content: Any) -> Document:
        if kind == "started":
            return {"run": self.id, "language": "python", "isolation": ISOLATION}
        if kind == "finished":
            return {
                "status": content["status"], "exit_code": content["exit_code"], "signal": None,
                "error": content["error"], "usage": _usage(content), "state": content["state"], "checkpoint": "off",
                "displays_dropped": content["displays_dropped"] + self.displays_dropped,
                **({"still_running": True} if content.get("still_running") else {}),
            }
        return {key: value for key, value in content.items() if key != "type"}


def _usage(outcome: Document) -> Document:
    return {"wall_ms": round(outcome["wall_ms"], 3), "cpu_ms": round(outcome["cpu_ms"], 3), "peak_memory": 0}


class _Fold:
    """From events to a Result."""

    def __init__(self) -> None:
        self.text: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self.truncated: dict[str, int] = {"stdout": 0, "stderr": 0}
        self.outputs: list[Document] = []
        self.items: list[Document] = []
        self.shown: list[tuple[str, int]] = []
        self.value: Optional[str] = None
        self.dropped = 0

    def add(self, event: Document) -> None:
        kind = event["type"]
        if kind in self.text:
            self._write(kind, event["text"])
        elif kind == "truncated":
            self.truncated[event["stream"]] += event["dropped"]
            self._write(event["stream"], f"\n[... {event['dropped']} bytes dropped ...]\n")
        elif kind in ("display", "value"):
            if kind == "value":
                self.value = event["text"]
            self._show(event)

    def _write(self, stream: str, text: str) -> None:
        self.text[stream].append(text)
        self.items.append({"stream": stream, "text": text})

    def _show(self, event: Document) -> None:
        output = {"mime": event["mime"], "metadata": event["metadata"]}
        name = event.get("display_id")
        if event.get("update") and name:
            for known, index in self.shown:
                if known == name:
                    self.outputs[index] = output
            return
        if len(self.outputs) >= _MOST_OUTPUTS:
            self.dropped += 1
            return
        self.outputs.append(output)
        self.items.append({"output": len(self.outputs) - 1})
        if name:
            self.shown.append((name, len(self.outputs) - 1))


def _fold(record: Record, events: list[Document]) -> Document:
    fold = _Fold()
    for event in events:
        fold.add(event)
    last = events[-1]
    dropped = fold.dropped + last["displays_dropped"]
    return {
        "id": record.id, "session": record.session, "status": last["status"], "exit_code": last["exit_code"],
        "signal": None, "stdout": "".join(fold.text["stdout"]), "stderr": "".join(fold.text["stderr"]),
        "value": fold.value, "outputs": fold.outputs, "items": fold.items, "error": last["error"], "files": [],
        "truncated": {**fold.truncated, **({"outputs": dropped} if dropped else {})}, "usage": last["usage"],
        "state": last["state"], "isolation": ISOLATION, "checkpoint": "off",
        **({"still_running": True} if last.get("still_running") else {}),
    }
