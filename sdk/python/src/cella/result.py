"""What a run returns: the Result, its rich outputs, the files that it changed, and the events on the way."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from typing import Any, Optional, Union


class RunError:
    """The exception that ended the code, as the guest's interpreter tells it."""

    __slots__ = ("message", "name", "traceback")

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.name: str = document.get("name") or ""
        self.message: str = document.get("message") or ""
        self.traceback: str = document.get("traceback") or ""

    def __str__(self) -> str:
        return f"{self.name}: {self.message}" if self.message else self.name

    def __repr__(self) -> str:
        return f"RunError({str(self)!r})"


class Output:
    """A rich output: its forms by MIME type. Images are base64 texts, as in a notebook."""

    __slots__ = ("left_out", "metadata", "mime")

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.mime: dict[str, str] = document.get("mime") or {}
        self.metadata: dict[str, Any] = document.get("metadata") or {}
        # Forms that are too large for the Result, with their bytes: session.fetch_output() gets them.
        self.left_out: dict[str, int] = document.get("left_out") or {}

    @property
    def text(self) -> str:
        return self.mime.get("text/plain", "")

    def data(self, mime: str) -> Optional[bytes]:
        """The bytes of one form; nothing if it has no such form."""
        from cella._images import decoded

        content = self.mime.get(mime)
        return None if content is None else decoded(mime, content)

    def __str__(self) -> str:
        """As a terminal would show it: its text, or the name and the size of a picture."""
        from cella._images import name_of_picture

        name = name_of_picture(self)
        if self.left_out:
            left_out = ", ".join(f"{mime}, {size} bytes" for mime, size in sorted(self.left_out.items()))
            return f"{name or self.text}\n[left out: {left_out}]".lstrip("\n")
        return name or self.text or f"[{', '.join(sorted(self.mime))}]"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        from cella._notebook import bundle_of_output

        return bundle_of_output(self)

    def __repr__(self) -> str:
        return f"Output({', '.join(sorted(self.mime))})"


class Text:
    """What was written to `stream`, `stdout` or `stderr`, between two displays."""

    __slots__ = ("stream", "text")

    def __init__(self, stream: str, text: str) -> None:
        self.stream = stream
        self.text = text

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Text({self.stream!r}, {_short(repr(self.text))})"


class FileChange:
    """A file of the workspace that a run created, modified or deleted."""

    __slots__ = ("change", "media_type", "path", "size")

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.path: str = document.get("path") or ""
        self.size: int = document.get("size") or 0
        self.change: str = document.get("change") or ""
        self.media_type: str = document.get("media_type") or ""

    def __repr__(self) -> str:
        return f"FileChange({self.path!r}, {self.change}, {self.size} bytes)"


class Usage:
    """What a run took: milliseconds and bytes."""

    __slots__ = ("cpu_ms", "peak_memory", "wall_ms")

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.wall_ms: float = document.get("wall_ms") or 0.0
        self.cpu_ms: float = document.get("cpu_ms") or 0.0
        self.peak_memory: int = document.get("peak_memory") or 0

    def __repr__(self) -> str:
        return f"Usage(wall_ms={self.wall_ms}, cpu_ms={self.cpu_ms}, peak_memory={self.peak_memory})"


class Result:
    """How a run ended and what it said. A guest that failed is a Result as well: look at `status` or `ok`."""

    __slots__ = ("document",)

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document

    @property
    def id(self) -> str:
        return self.document.get("id") or ""

    @property
    def session(self) -> Optional[str]:
        return self.document.get("session")

    @property
    def status(self) -> str:
        """`ok`, `error`, `timeout`, `cancelled`, `oom`, `crashed`, `limit` or `rejected`."""
        return self.document.get("status") or "error"

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def exit_code(self) -> int:
        code = self.document.get("exit_code")
        return code if isinstance(code, int) else 126

    @property
    def signal(self) -> Optional[int]:
        return self.document.get("signal")

    @property
    def stdout(self) -> str:
        return self.document.get("stdout") or ""

    @property
    def stderr(self) -> str:
        return self.document.get("stderr") or ""

    @property
    def value(self) -> Optional[str]:
        """The repr() of the last expression; nothing if there was none."""
        return self.document.get("value")

    @property
    def outputs(self) -> list[Output]:
        return [Output(each) for each in self.document.get("outputs") or ()]

    @property
    def items(self) -> list[Union[Text, Output]]:
        """Texts and displays in the order in which the code emitted them. A server's have standard output
        before standard error between two displays."""
        outputs, items = self.outputs, self.document.get("items")
        if items is None:
            texts = [Text("stdout", self.stdout), Text("stderr", self.stderr)]
            return [*(text for text in texts if text.text), *outputs]
        return [Text(each["stream"], each["text"]) if "text" in each else outputs[each["output"]] for each in items]

    @property
    def error(self) -> Optional[RunError]:
        error = self.document.get("error")
        return RunError(error) if error else None

    @property
    def files(self) -> list[FileChange]:
        return [FileChange(each) for each in self.document.get("files") or ()]

    @property
    def files_complete(self) -> bool:
        """False: more files changed than are listed."""
        return self.document.get("files_complete") is not False

    @property
    def truncated(self) -> dict[str, int]:
        """Bytes that `stdout` and `stderr` left out in their middle; how many `outputs` are missing or not whole."""
        return self.document.get("truncated") or {}

    @property
    def usage(self) -> Usage:
        return Usage(self.document.get("usage") or {})

    @property
    def state(self) -> str:
        """`kept`, `rolled_back` (to before this run; when the run ended well, to before the one before it), `lost` or
        `none`."""
        return self.document.get("state") or "none"

    @property
    def still_running(self) -> bool:
        """True: the code could not be stopped, and goes on in a thread that its session has given up."""
        return self.document.get("still_running") is True

    @property
    def checkpoint(self) -> str:
        return self.document.get("checkpoint") or "off"

    @property
    def isolation(self) -> Optional[dict[str, Any]]:
        """What was truly enforced, and by what."""
        return self.document.get("isolation")

    def save_images(self, directory: Union[str, os.PathLike[str]]) -> list[str]:
        """Writes the plots and pictures of this run into a directory; the paths of the files."""
        from cella._images import save_images

        return save_images(self, directory)

    def to_json(self) -> str:
        import json

        return json.dumps(self.document)

    @classmethod
    def from_json(cls, text: str) -> Result:
        import json

        return cls(json.loads(text))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        from cella._notebook import bundle_of_result

        return bundle_of_result(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Result) and self.document == other.document

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        """As a terminal would show it: what was printed and displayed, then the value or the traceback."""
        parts = [str(item) for item in self.items]
        error = self.error
        if error is not None:
            parts.append(error.traceback or str(error))
        elif self.value is not None and all(output.text != self.value for output in self.outputs):
            parts.append(self.value)  # as a rule a value is one of the outputs
        if not self.ok and error is None:
            parts.append(f"[{self.status}, exit code {self.exit_code}]")
        return "\n".join(part[:-1] if part.endswith("\n") else part for part in parts if part)

    def __repr__(self) -> str:
        words = [self.status]
        if self.value is not None:
            words.append(f"value={_short(self.value)}")
        if self.error is not None:
            words.append(f"error={_short(str(self.error))}")
        if self.stdout:
            words.append(f"stdout={_short(repr(self.stdout))}")
        return f"<Result {' '.join(words)}>"


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


class Event:
    """One step of a run, numbered. `type` is one of started, stdout, stderr, display, value, error, input_request,
    file, truncated, progress, tool, finished; `document` has all of it."""

    __slots__ = ("document",)

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document

    @property
    def n(self) -> int:
        return self.document.get("n") or 0

    @property
    def type(self) -> str:
        return self.document.get("type") or ""

    @property
    def text(self) -> str:
        """Of stdout, stderr, value and progress."""
        return self.document.get("text") or ""

    @property
    def prompt(self) -> str:
        """Of input_request."""
        return self.document.get("prompt") or ""

    @property
    def password(self) -> bool:
        """Of input_request: what is typed should not be seen."""
        return self.document.get("password") is True

    @property
    def output(self) -> Output:
        """Of display and value."""
        return Output(self.document)

    @property
    def error(self) -> Optional[RunError]:
        """Of error and finished."""
        if self.type == "error":
            return RunError(self.document)
        error = self.document.get("error")
        return RunError(error) if error else None

    def __repr__(self) -> str:
        return f"<Event {self.n} {self.type}{' ' + _short(repr(self.text)) if self.text else ''}>"
