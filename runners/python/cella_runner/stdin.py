"""sys.stdin, input() and getpass() by protocol: a run's `stdin` text first, then questions to the caller."""

import builtins
import io
import sys

from . import hooks

builtin_input = builtins.input


class _Raw(io.RawIOBase):
    """Bytes for sys.stdin.buffer."""

    def __init__(self, text: "Input"):
        self._text = text
        self._rest = memoryview(b"")

    def readable(self):
        return True

    def fileno(self):
        return 0

    def readinto(self, target):
        if not self._rest:
            self._rest = memoryview(self._text.readline().encode("utf-8", "surrogateescape"))
        part = self._rest[: len(target)]
        self._rest = self._rest[len(part) :]
        target[: len(part)] = part
        return len(part)


class Input(io.TextIOBase):
    """Lives as long as the session; what a run left unread is gone when the next one begins."""

    encoding = "utf-8"
    errors = "surrogateescape"
    name = "<stdin>"
    mode = "r"

    def __init__(self, ask):
        self._ask = ask
        self._pending = ""
        self._at = 0  # what of it was read: cutting it off would copy the rest for each line
        self._buffer = None
        self._interactive = False

    def begin(self, text, interactive: bool):
        self._pending = text or ""
        self._at = 0
        self._interactive = interactive
        self._buffer = None

    @property
    def buffer(self):
        if self._buffer is None:
            self._buffer = io.BufferedReader(_Raw(self))
        return self._buffer

    def readable(self):
        return True

    def fileno(self):
        return 0

    def isatty(self):
        return False

    def close(self):
        """exit() closes sys.stdin; the session goes on."""

    def _take(self, end: int) -> str:
        part = self._pending[self._at : end]
        self._at = end
        if self._at >= len(self._pending):
            self._pending, self._at = "", 0
        return part

    def _fill(self, prompt="", password=False) -> bool:
        """Whether there is something to read; asks for it where the caller answers."""
        if self._pending:
            return True
        answer = self._ask(prompt, password) if self._interactive else None
        if answer is None:
            return False
        self._pending = answer if answer.endswith("\n") else answer + "\n"
        return True

    def line(self, prompt="", password=False, size=-1) -> str:
        """A line with its end, or so many characters of it; an empty text at the end of input."""
        if not self._fill(prompt, password):
            return ""
        end = self._pending.find("\n", self._at) + 1 or len(self._pending)
        return self._take(end if size < 0 else min(end, self._at + size))

    def is_asking(self) -> bool:
        return self._interactive and not self._pending

    def readline(self, size=-1):
        return self.line(size=-1 if size is None else size)

    def read(self, size=-1):
        parts, left = [], -1 if size is None else size
        while left != 0 and self._fill():
            part = self._take(len(self._pending) if left < 0 else min(len(self._pending), self._at + left))
            parts.append(part)
            if left > 0:
                left -= len(part)
        return "".join(parts)


def ask_line(stream: Input, prompt: str, password: bool) -> str:
    sys.stdout.flush()
    sys.stderr.flush()
    if not stream.is_asking() and prompt:
        # No caller sees a request: the prompt goes where it goes for a program that reads a pipe.
        target = sys.stderr if password else sys.stdout
        target.write(prompt)
        target.flush()
    line = stream.line(prompt, password)
    if not line:
        raise EOFError("EOF when reading a line")
    return line[:-1] if line.endswith("\n") else line


def install(stream: Input):
    """Replaces input() at once; getpass.getpass() follows when that module is imported (hooks.py)."""

    def input(prompt="", /):
        """Read a line from standard input; the trailing newline is stripped."""
        if sys.stdin is not stream:
            return builtin_input(prompt)
        return ask_line(stream, str(prompt), False)

    builtins.input = input


def patch_getpass(module, stream: Input):
    def getpass(prompt="Password: ", stream_=None, **_):
        """Ask for a password, without echo where the asker can do that."""
        return ask_line(stream, str(prompt), True)

    for name in ("getpass", "unix_getpass"):
        hooks.replace(module, name, getpass)
