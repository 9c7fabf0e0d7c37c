"""sys.stdin, input() and getpass() by protocol: a run's `stdin` text first, then questions to whoever can answer."""

import builtins
import io
import sys

_builtin_input = builtins.input


class _Raw(io.RawIOBase):
    """Bytes for sys.stdin.buffer."""

    def __init__(self, text: "Input"):
        self._text = text
        self._rest = b""

    def readable(self):
        return True

    def fileno(self):
        return 0

    def readinto(self, target):
        if not self._rest:
            self._rest = self._text.readline().encode("utf-8", "surrogateescape")
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
        self._buffer = None
        self._interactive = False

    def begin(self, text, interactive: bool):
        self._pending = text or ""
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

    def line(self, prompt="", password=False) -> str:
        """A line with its end; an empty text at the end of input."""
        if not self._pending:
            if not self._interactive:
                return ""
            answer = self._ask(prompt, password)
            if answer is None:
                return ""
            self._pending = answer if answer.endswith("\n") else answer + "\n"
        head, newline, self._pending = self._pending.partition("\n")
        return head + newline

    def is_asking(self) -> bool:
        return self._interactive and not self._pending

    def readline(self, size=-1):
        line = self.line()
        if size is not None and 0 <= size < len(line):
            self._pending = line[size:] + self._pending
            line = line[:size]
        return line

    def read(self, size=-1):
        parts, length = [], 0
        while size is None or size < 0 or length < size:
            part = self.line()
            if not part:
                break
            parts.append(part)
            length += len(part)
        text = "".join(parts)
        if size is not None and 0 <= size < length:
            self._pending = text[size:] + self._pending
            text = text[:size]
        return text


def _ask_line(stream: Input, prompt: str, password: bool) -> str:
    sys.stdout.flush()
    sys.stderr.flush()
    if not stream.is_asking() and prompt:
        # Nobody sees a request: the prompt goes where it goes for a program that reads a pipe.
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
            return _builtin_input(prompt)
        return _ask_line(stream, str(prompt), False)

    builtins.input = input


def patch_getpass(module, stream: Input):
    def getpass(prompt="Password: ", stream_=None, **_):
        """Ask for a password, without echo where the asker can do that."""
        return _ask_line(stream, str(prompt), True)

    module.getpass = module.unix_getpass = getpass
