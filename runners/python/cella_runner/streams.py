"""Standard input, output and error of the guest, and their repair between runs.

The rule: what a cell does to descriptors 0-2 or to sys.stdin/stdout/stderr holds until that cell ends. Before the next
one, a descriptor that is not the session's own any more is put back from a spare at a high number, and a stream that
was closed, detached or replaced is the runner's own again.
"""

import io
import os
import sys
from _thread import get_ident

from . import threads
from .channel import to_high_descriptor
from .stdin import Input

NAMES = ("<stdin>", "<stdout>", "<stderr>")
# As the interpreter has chosen them; a process may be without some stream.
STANDARD = [
    (getattr(stream, "encoding", "utf-8"), getattr(stream, "errors", "strict"))
    for stream in (sys.__stdin__, sys.__stdout__, sys.__stderr__)
]


class Output(io.TextIOWrapper):
    """sys.stdout or sys.stderr; drops what threads of an earlier run print through it."""

    def __init__(self, fd: int):
        raw = io.FileIO(fd, "wb", closefd=False)
        raw.name = NAMES[fd]
        # Text that cannot be encoded (lone surrogates) is shown escaped: printing never fails for that.
        super().__init__(io.BufferedWriter(raw), "utf-8", "backslashreplace", "\n", line_buffering=True)
        self.mode = "w"

    def write(self, text):
        if threads.stale and threads.is_stale(get_ident()):
            return len(text)
        return super().write(text)


def _is_sound(stream) -> bool:
    try:
        return not stream.closed and stream.line_buffering and stream.encoding == "utf-8"
    except ValueError:  # detached
        return False


def _identity(fd: int):
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


class Streams:
    def __init__(self, ask):
        """`ask(prompt, password)` gets a line from the caller; None is the end."""
        self.input = Input(ask)
        self.outputs = [None, Output(1), Output(2)]
        self._is_used = False  # nothing can be broken before the first run
        self._spares = []
        self._identities = []  # of the spares, and thus of what belongs at 0-2; known from the second run on
        self._is_c_buffered = True
        self._fflush = None
        self._take_names()

    def open(self):
        """Once descriptors 0-2 are the session's."""
        self._spares = [to_high_descriptor(fd) for fd in range(3)]

    def adopt(self, spares):
        self._spares = spares

    def spares(self):
        """Duplicates of descriptors 1 and 2 as the session had them at first."""
        return self._spares[1:]

    def close(self):
        for spare in self._spares:
            os.close(spare)
        self._spares = []

    def _take_names(self):
        sys.stdin = sys.__stdin__ = self.input
        sys.stdout = sys.__stdout__ = self.outputs[1]
        sys.stderr = sys.__stderr__ = self.outputs[2]

    def begin(self, text, interactive: bool):
        if self._is_used:
            self._repair()
        self._is_used = True
        self.input.begin(text, interactive)

    def _repair(self):
        if not self._identities:
            self._identities = [_identity(spare) for spare in self._spares]
        for fd in range(3):
            try:
                if _identity(fd) != self._identities[fd]:
                    self._restore(fd)
            except OSError:
                self._restore(fd)
        # Letting go of a replacement may close the buffer that it shares with our own stream: look at ours afterwards.
        self._take_names()
        for fd in (1, 2):
            if not _is_sound(self.outputs[fd]):
                self.outputs[fd] = Output(fd)
                self._take_names()
            try:
                # A program that shares the pipe may have left it non-blocking.
                if not os.get_blocking(fd):
                    os.set_blocking(fd, True)
            except OSError:
                pass  # closed, and so is its spare

    def _restore(self, fd: int):
        try:
            os.dup2(self._spares[fd], fd)
        except OSError:
            return  # the guest closed the spare as well
        if fd:
            # What could not be written belongs to the cell that broke the descriptor, not to the next one.
            stream, self.outputs[fd] = self.outputs[fd], Output(fd)
            try:
                stream.buffer.raw.close()
            except (ValueError, AttributeError, OSError):
                pass
            self._take_names()

    def flush(self):
        for stream in (getattr(sys, "stdout", None), getattr(sys, "stderr", None), self.outputs[1], self.outputs[2]):
            try:
                stream.flush()
            except Exception:
                pass  # closed or broken by the cell: begin() sees to it
        if self._is_c_buffered and "ctypes" in sys.modules:
            self._flush_c()

    def _flush_c(self):
        """What C code of extensions printed lies in C's own buffers."""
        if self._fflush is None:
            try:
                self._fflush = sys.modules["ctypes"].CDLL(None).fflush
            except (AttributeError, OSError):
                self._is_c_buffered = False
                return
        self._fflush(None)

    def unbuffer_c(self):
        """In a zygote, where ctypes is at hand: what C code prints is out at once, and no run has to see to it."""
        import ctypes

        libc = ctypes.CDLL(None)
        libc.setvbuf.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t]
        unbuffered = 2  # _IONBF
        self._is_c_buffered = libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, unbuffered, 0) != 0
