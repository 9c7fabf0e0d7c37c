"""The Python runner for its tests: the interpreters, both ways to start it, and its fork library's stand-in."""

import array
import contextlib
import functools
import os
import pathlib
import re
import select
import socket
import struct
import subprocess
import sys
import tempfile

import pytest

from driver import ENVIRONMENT, PATIENCE, Collector, Runner

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE.parent.parent / "runners" / "python" / "cella_runner"
SYSTEM = "/usr/bin/python3"
OLDEST, NEWEST = (3, 8), (3, 13)


def _interpreters():
    """CELLA_TEST_PYTHON (several by `:`, or `all`), else the oldest and the newest of pyenv's, and the distribution's."""
    chosen = os.environ.get("CELLA_TEST_PYTHON", "")
    if chosen not in ("", "all"):
        return chosen.split(":")
    root = pathlib.Path(os.environ.get("PYENV_ROOT") or pathlib.Path.home() / ".pyenv") / "versions"
    found = {}
    for path in sorted(root.glob("3.*/bin/python3")):
        version = tuple(int(part) for part in re.findall(r"\d+", path.parent.parent.name)[:2])
        if OLDEST <= version <= NEWEST:
            found[version] = str(path)
    every = [found[version] for version in sorted(found)]
    if chosen == "all":
        return every
    return [*dict.fromkeys([*every[:1], *every[-1:], SYSTEM])]


INTERPRETERS = _interpreters()


@functools.lru_cache(maxsize=None)
def version_of(python):
    answer = subprocess.run([python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, check=True)
    return tuple(int(part) for part in answer.stdout.split())


@functools.lru_cache(maxsize=None)
def can_import(python, module):
    return subprocess.run([python, "-c", "import " + module], capture_output=True).returncode == 0


@functools.lru_cache(maxsize=None)
def fork_library():
    folder = tempfile.TemporaryDirectory(prefix="cella-runner-test-")
    library = pathlib.Path(folder.name) / "libcella_fork.so"
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, HERE / "fork_library.c"], check=True)
    fork_library.folder = folder
    return str(library)


def command(python, *arguments):
    return [python, "-I", "-B", str(PACKAGE), *arguments]


def start(python, **options):
    """By exec; not configured yet."""
    return Runner(command(python), checkpoints=True, **options)


class Zygote:
    """A zygote process; fork() is a new session. The `first` ones are asked for before it begins, so that they are
    born before it imports what no session waits for."""

    def __init__(self, python, options="{}", library=None, first=0, **popen):
        self.python = python
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(PATIENCE)
        asked = [self._ask() for _ in range(first)]
        self.process = subprocess.Popen(
            command(python, "--zygote", str(theirs.fileno()), library or fork_library(), options),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            **popen,
        )
        theirs.close()
        self.greeting = self.control.recv(1 << 16)
        self.first = [self._take(*each) for each in asked]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.control.close()
        self.process.wait(PATIENCE)

    def fork(self):
        return self._take(*self._ask())

    def run_program(self, argv, cwd, stdin=None, env=None):
        """(wait status, stdout, stderr) of a program in a fork. `stdin` is text for a pipe; None: /dev/null."""
        given = os.pipe()
        runner = self._take(*self._ask(b"p", given[0] if stdin is not None else None), keep=True)
        os.close(given[0])
        with runner:
            frame = {"type": "program", "argv": [self.python, *argv], "cwd": str(cwd), "env": env or dict(ENVIRONMENT)}
            runner.send(frame)
            with os.fdopen(given[1], "w") as pipe, contextlib.suppress(BrokenPipeError):
                pipe.write(stdin or "")
                pipe.flush()
            assert select.select([runner.status], [], [], PATIENCE)[0], "the program does not end"
            (status,) = struct.unpack("i", os.read(runner.status, 4))
            os.close(runner.status)
            return status, runner.stdout.take(), runner.stderr.take()

    def _ask(self, kind=b"f", stdin=None):
        ours, theirs = socket.socketpair()
        stdout, stderr, pid = os.pipe(), os.pipe(), os.pipe()
        null = os.open(os.devnull, os.O_RDONLY)
        sent = [theirs.fileno(), null, stdout[1], stderr[1], pid[1]]
        if stdin is not None:
            sent[1] = stdin
        self.control.sendmsg([kind], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", sent))])
        for fd in (null, stdout[1], stderr[1], pid[1]):
            os.close(fd)
        theirs.close()
        return ours, stdout[0], stderr[0], pid[0]

    @staticmethod
    def _take(sock, stdout, stderr, pid, keep=False):
        assert select.select([pid], [], [], PATIENCE)[0], "the zygote does not fork"
        (number,) = struct.unpack("i", os.read(pid, 4))
        runner = Runner.adopt(sock, Collector(stdout), Collector(stderr), number, checkpoints=True)
        if keep:
            runner.status = pid
        else:
            os.close(pid)
        return runner


@pytest.fixture(params=INTERPRETERS, ids=lambda python: "%d.%d" % version_of(python))
def runner(request):
    """A configured runner, started by exec, for every interpreter."""
    with start(request.param) as started:
        started.python = request.param
        started.version = version_of(request.param)
        yield started.configure()
