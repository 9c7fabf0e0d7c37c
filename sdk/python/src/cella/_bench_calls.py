"""Rows of `python -m cella.bench` about calls of tools and values, each beside what it is compared with."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time

import cella.sync
from cella import SandboxExecutor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    Times = list[float]

_ECHO = """
import socket, sys
with socket.socket(fileno=int(sys.argv[1])) as peer:
    while (data := peer.recv(4096)):
        peer.sendall(data)
"""
_CALLS = """
import json, time
taken = []
for n in range({rounds} + 10):
    start = time.perf_counter()
    tools.nothing(n)
    taken.append((time.perf_counter() - start) * 1000)
print(json.dumps(taken[10:]))
"""
_FLOOR = "bare socket round trip, two processes"
_MIB = 16


def measure_calls(rounds: int, summary: Callable[[Times], dict[str, float]]) -> dict[str, Any]:
    rows = {_FLOOR: _socket_round_trips(rounds)}
    with cella.sync.Session(SandboxExecutor(checkpoint="off")) as session:
        session.tool(name="nothing")(lambda n: n)
        rows["tools.f() from the sandbox, sync"] = json.loads(session.run(_CALLS.format(rounds=rounds)).stdout)
        few = max(3, rounds // 10)
        three = "tools.nothing(1); tools.nothing(2); tools.nothing(3)"
        rows["one program with three calls"] = _each(few, lambda: [session.run(three)])
        single = [f"tools.nothing({n})" for n in (1, 2, 3)]
        rows["three programs with one call each"] = _each(few, lambda: [session.run(code) for code in single])
        value = os.urandom(_MIB << 20)
        few = max(3, rounds // 50)
        rows[f"put of {_MIB} MiB"] = _each(few, lambda: session.put("value", value))
        rows[f"{_MIB} MiB written and read as a file"] = _each(few, lambda: _write_and_read(value))
    return {name: summary(taken) for name, taken in rows.items()}


def _each(rounds: int, work: Callable[[], object]) -> Times:
    taken = []
    for number in range(rounds + 1):
        start = time.perf_counter()
        work()
        if number:
            taken.append((time.perf_counter() - start) * 1000)
    return taken


def _socket_round_trips(rounds: int) -> Times:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [sys.executable, "-c", _ECHO, str(theirs.fileno())]
        with subprocess.Popen(command, pass_fds=[theirs.fileno()]):
            theirs.close()
            message = b"x" * 64

            def exchange() -> None:
                ours.sendall(message)
                ours.recv(4096)

            _each(10, exchange)
            taken = _each(rounds, exchange)
            ours.shutdown(socket.SHUT_RDWR)
    return taken


def _write_and_read(value: bytes) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(value)
        file.seek(0)
        file.read()
