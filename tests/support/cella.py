"""Drives the `cella` program under test: finds it, runs it within a time bound, reads its Result."""

import json
import os
import pathlib
import signal
import subprocess
from dataclasses import dataclass

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PYTHON = "/usr/bin/python3"
TIME_BOUND = 30.0

# In a program of its own, since code between fork and exec is not safe where other threads run.
TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def program():
    """The program under test: CELLA_BIN, else the release build of this repository."""
    return pathlib.Path(os.environ.get("CELLA_BIN") or REPOSITORY / "build/release/bin/cella")


@dataclass(frozen=True)
class Finished:
    """How a process ended. `exit_code` is as a shell would show it: 128 + n for a signal."""

    exit_code: int
    stdout: bytes
    stderr: bytes

    def text(self):
        return self.stdout.decode(errors="replace")

    def result(self):
        """The Result that `--json` prints: exactly one document, and nothing else."""
        try:
            return json.loads(self.stdout)
        except ValueError as error:
            raise AssertionError(f"no single JSON document on stdout ({error})\n{self.describe()}") from None

    def describe(self):
        return f"exit {self.exit_code}\nstdout: {self.text()}\nstderr: {self.stderr.decode(errors='replace')}"


def run_bounded(
    argv, *, stdin=subprocess.DEVNULL, input=None, env=None, cwd=None, pass_fds=(), terminal=None, timeout=TIME_BOUND
):
    """Runs argv in a session of its own. After `timeout` its whole process group is killed and the test fails.

    `stdin` is a descriptor, or `input` the bytes to read there; `terminal` is the slave of a pty: it becomes standard
    input and the controlling terminal.
    """
    if input is not None:
        stdin = subprocess.PIPE
    if terminal is not None:
        argv = [PYTHON, "-I", "-S", "-c", TAKE_TERMINAL, *argv]
    process = subprocess.Popen(
        argv,
        stdin=stdin if terminal is None else terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        cwd=cwd,
        pass_fds=pass_fds,
        start_new_session=True,
    )
    try:
        stdout, stderr = process.communicate(input, timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        stdout, stderr = process.communicate()
        late = Finished(-1, stdout, stderr)
        raise AssertionError(f"still running after {timeout} s: {argv}\n{late.describe()}") from None
    code = process.returncode
    return Finished(code if code >= 0 else 128 - code, stdout, stderr)


class Cella:
    """The command line. All paths are the caller's; nothing is remembered between runs."""

    def __init__(self, binary):
        self.binary = binary

    def __call__(self, *args, **options):
        return run_bounded([str(self.binary), *map(str, args)], **options)

    def run_python(self, source, *args, flags=(), **options):
        """`cella run SOURCE` in the jail, with the system's Python, answering with a Result."""
        return self(
            "run", source, "--lang", "python", "--python", PYTHON, "--json", *flags, *(["--", *args] if args else []),
            **options,
        )
