"""Commands of the shell from a cell: streamed, captured, or a whole script.

They run in a session of their own, so that an interrupt can end them with all that they started.
"""

import codecs
import os
import re
import shlex
import signal
import subprocess
import sys
import threading

from .interrupts import Interrupts

GRACE_SECONDS = 0.3
WAIT_SECONDS = 0.05
_PIP = re.compile(r"(?:pip3?|python3? -m pip)\s+(.*)", re.DOTALL)
_VARIABLE = re.compile(r"(?<![\\$])\$(\w+)|(?<![\\$])\{([^{}]+)\}|\$\$")


def pip_arguments(command: str):
    match = _PIP.match(command)
    return match.group(1) if match else None


class Shell:
    def __init__(self, namespace: dict, interrupts: Interrupts, relays: bool = False):
        """`relays`: the descriptors are not those of the session, whose streams are Python's alone."""
        self._namespace = namespace
        self._interrupts = interrupts
        self._relays = relays

    def pip_arguments(self, command: str):
        """What follows in `pip ...`; None for other commands, and for several in one line."""
        arguments = pip_arguments(command)
        return None if arguments is None else self.expand(arguments, self._namespace, {})

    def expand(self, command: str, names: dict, local_names: dict) -> str:
        """`{expression}` and `$name` of the guest's variables; what is none stays for the shell."""

        def value(match):
            name, expression = match.group(1), match.group(2)
            if name is None and expression is None:
                return "$"
            if name is not None:
                found = local_names.get(name, names.get(name, match))
                return match.group(0) if found is match else str(found)
            try:
                return str(eval(expression, names, local_names))
            except Exception:
                return match.group(0)

        return _VARIABLE.sub(value, command)

    def run(self, command: str) -> int:
        return self._run([_interpreter(), "-c", command])[0]

    def capture(self, command: str) -> list:
        _, output = self._run([_interpreter(), "-c", command], stdout=subprocess.PIPE)
        return output.decode("utf-8", "replace").splitlines()

    def script(self, program: str, arguments: str, text: str):
        """%%bash: fails the cell as the script fails."""
        command = [program, *shlex.split(arguments)]
        code, _ = self._run(command, text.encode("utf-8", "surrogateescape"), stdin=subprocess.PIPE)
        if code:
            raise subprocess.CalledProcessError(code, program)

    def _run(self, command: list, text=None, **options):
        """(exit code, captured output)"""
        if self._relays:
            return self._run_relayed(command, text, "stdout" in options)
        process = None
        try:
            # An interrupt in the middle of starting a process would lose the process.
            holding = self._interrupts.hold()
            try:
                process = subprocess.Popen(command, start_new_session=True, **options)
            finally:
                if holding:
                    self._interrupts.release()
            output, _ = process.communicate(text)
        except KeyboardInterrupt:
            if process is not None:
                self._end(process)
            raise
        return process.returncode, output or b""

    def _run_relayed(self, command: list, text, captures: bool):
        """What the command writes goes through Python's streams. No wait is long, so that each can be interrupted."""
        captured, process = [], None
        try:
            pipe = subprocess.PIPE
            stdin = subprocess.DEVNULL if text is None else pipe
            process = subprocess.Popen(command, start_new_session=True, stdin=stdin, stdout=pipe, stderr=pipe)
            work = [
                (_relay, process.stdout, captured.append if captures else _writer(sys.stdout)),
                (_relay, process.stderr, _writer(sys.stderr)),
            ]
            if text is not None:
                work.append((_feed, process.stdin, text))
            threads = [threading.Thread(target=each[0], args=each[1:], daemon=True) for each in work]
            for thread in threads:
                thread.start()
            while process.poll() is None:
                try:
                    process.wait(WAIT_SECONDS)
                except subprocess.TimeoutExpired:
                    pass
            # What the command left in the background may keep the pipes open.
            for thread in threads:
                thread.join(GRACE_SECONDS)
        except KeyboardInterrupt:
            if process is not None:
                self._end(process)
            raise
        return process.returncode, b"".join(captured)

    def _end(self, process):
        for number in (signal.SIGINT, signal.SIGKILL):
            try:
                os.killpg(process.pid, number)
                process.wait(GRACE_SECONDS)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue


def _writer(stream):
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(data: bytes):
        stream.write(decoder.decode(data, not data))
        stream.flush()

    return write


def _relay(pipe, write):
    with pipe:
        while data := os.read(pipe.fileno(), 1 << 16):
            write(data)
        write(b"")


def _feed(pipe, data: bytes):
    try:
        with pipe:
            pipe.write(data)
    except BrokenPipeError:
        pass  # the command did not read it


def _interpreter() -> str:
    return "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
