"""Measures the package on this machine: `python -m cella.bench [--json] [--rounds N]`.

Cold processes are started with the same interpreter, beside one that does nothing but import asyncio: their difference
is what this package costs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from queue import SimpleQueue
from typing import Any, Callable, Optional

import cella
import cella.sync
from cella import InProcessExecutor, SandboxExecutor
from cella._bench_calls import measure_calls

# Each says when it has its result, and ends when it is told to: the end takes the server down, which is not measured.
_COLD = {
    "cold process: nothing": "TELL",
    "cold process: import asyncio": "import asyncio\nTELL",
    "cold process: Session() to result, sync": """
from cella.sync import Session
with Session() as s:
    assert s.run('6 * 7').value == '42'
    TELL
""",
    "cold process: Session() to result, async": """
import asyncio
from cella import Session
async def main():
    async with Session() as s:
        assert (await s.run('6 * 7')).value == '42'
        TELL
asyncio.run(main())
""",
}
_TELL = "import os; os.write(1, b'x'); os.read(0, 1)"


def _times(rounds: int, work: Callable[[], object]) -> dict[str, float]:
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        taken.append((time.perf_counter() - start) * 1000)
    return _summary(taken)


def _summary(taken: list[float]) -> dict[str, float]:
    taken.sort()
    return {
        "p50_ms": round(taken[len(taken) // 2], 3),
        "p99_ms": round(taken[min(len(taken) - 1, int(len(taken) * 0.99))], 3),
        "best_ms": round(taken[0], 3),
        "rounds": len(taken),
    }


def _run_sync(rounds: int) -> dict[str, float]:
    with cella.sync.Session(SandboxExecutor(checkpoint="off")) as session:
        _times(10, lambda: session.run("x = 1"))
        return _times(rounds, lambda: session.run("x = 1"))


def _open_sync(rounds: int) -> dict[str, float]:
    taken = []
    for number in range(rounds + 3):
        start = time.perf_counter()
        session = cella.sync.Session()
        assert session.run("6 * 7").value == "42"
        if number >= 3:
            taken.append((time.perf_counter() - start) * 1000)
        session.close()
    return _summary(taken)


def _run_in_process(rounds: int) -> dict[str, dict[str, float]]:
    """Beside a thread that waits for code, compiles and executes it. They take turns, so that what disturbs the machine
    disturbs them alike."""
    asked: SimpleQueue[Optional[str]] = SimpleQueue()
    answered: SimpleQueue[None] = SimpleQueue()

    def serve() -> None:
        names: dict[str, object] = {}
        while (code := asked.get()) is not None:
            exec(compile(code, "<cell>", "exec"), names)
            answered.put(None)

    thread = threading.Thread(target=serve)
    thread.start()
    bare, ours = [], []
    with cella.sync.Session(InProcessExecutor()) as session:
        for number in range(rounds + 10):
            start = time.perf_counter()
            asked.put("x = 1")
            answered.get()
            between = time.perf_counter()
            session.run("x = 1")
            end = time.perf_counter()
            if number >= 10:
                bare.append((between - start) * 1000)
                ours.append((end - between) * 1000)
    asked.put(None)
    thread.join()
    return {"floor: x = 1 in a waiting thread": _summary(bare), "run x = 1, in this process": _summary(ours)}


def _run_local(rounds: int) -> dict[str, dict[str, float]]:
    """Programs of the `local` executor beside AutoGen's executor of the host, in turns. Nothing where AutoGen is not
    installed."""
    try:
        from autogen_core import CancellationToken
        from autogen_core.code_executor import CodeBlock
        from autogen_ext.code_executors.local import LocalCommandLineCodeExecutor as Theirs

        from cella.autogen import LocalCommandLineCodeExecutor as Ours
    except ImportError:
        return {}
    blocks = [CodeBlock(language="python", code="print(1)")]
    taken: dict[str, list[float]] = {"AutoGen's local executor, print(1)": [], "cella.autogen, local, print(1)": []}

    async def turns() -> None:
        with tempfile.TemporaryDirectory(prefix="cella-bench-") as theirs, tempfile.TemporaryDirectory() as ours:
            places = [Theirs(work_dir=theirs), Ours(work_dir=ours)]
            for place in places:
                await place.start()
            for number in range(rounds + 3):
                for name, place in zip(taken, places):
                    start = time.perf_counter()
                    result = await place.execute_code_blocks(blocks, CancellationToken())
                    if result.exit_code != 0:
                        raise SystemExit(f"{name}: {result.output}")
                    if number >= 3:
                        taken[name].append((time.perf_counter() - start) * 1000)
            for place in places:
                await place.stop()

    asyncio.run(turns())
    return {name: _summary(samples) for name, samples in taken.items()}


async def _run_async(rounds: int) -> dict[str, float]:
    async with cella.Session(SandboxExecutor(checkpoint="off")) as session:
        taken = []
        for number in range(rounds + 10):
            start = time.perf_counter()
            await session.run("x = 1")
            if number >= 10:
                taken.append((time.perf_counter() - start) * 1000)
        return _summary(taken)


async def _open_async(rounds: int) -> dict[str, float]:
    taken = []
    for number in range(rounds + 3):
        start = time.perf_counter()
        session = cella.Session()
        assert (await session.run("6 * 7")).value == "42"
        if number >= 3:
            taken.append((time.perf_counter() - start) * 1000)
        await session.aclose()
    return _summary(taken)


def _cold(codes: dict[str, str], rounds: int) -> dict[str, dict[str, float]]:
    """From the start of a process until it says that it has its result. The kinds take turns, so that what disturbs the
    machine disturbs them alike; bytecode is cached for all of them, as it is for a package that was installed."""
    taken: dict[str, list[float]] = {name: [] for name in codes}
    with tempfile.TemporaryDirectory(prefix="cella-bench-") as bytecode:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for number in range(rounds + 1):
            for name, code in codes.items():
                milliseconds = _cold_once(code, environment)
                if number:
                    taken[name].append(milliseconds)
    return {name: _summary(samples) for name, samples in taken.items()}


def _cold_once(code: str, environment: dict[str, str]) -> float:
    command = [sys.executable, "-c", code.replace("TELL", _TELL)]
    start = time.perf_counter()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdin is not None and process.stdout is not None
        if process.stdout.read(1) != b"x":
            raise SystemExit("a cold process failed: see above")
        milliseconds = (time.perf_counter() - start) * 1000
        process.stdin.close()
    return milliseconds


def measure(rounds: int, cold_rounds: int) -> dict[str, Any]:
    return {
        **_run_in_process(4 * rounds),
        "run x = 1, sync": _run_sync(rounds),
        "run x = 1, async": asyncio.run(_run_async(rounds)),
        "Session() to result, warm, sync": _open_sync(max(1, rounds // 4)),
        "Session() to result, warm, async": asyncio.run(_open_async(max(1, rounds // 4))),
        **measure_calls(rounds, _summary),
        **_run_local(max(1, rounds // 8)),
        **_cold(_COLD, cold_rounds),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m cella.bench", description="Measures the package on this machine.")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--rounds", type=int, default=500, help="runs in a live session (default: 500)")
    parser.add_argument("--cold-rounds", type=int, default=15, help="cold processes of each kind (default: 15)")
    options = parser.parse_args()
    if options.rounds < 1 or options.cold_rounds < 1:
        parser.error("at least one round is needed")
    measured = measure(options.rounds, options.cold_rounds)
    if options.json:
        print(json.dumps({"version": cella.__version__, "python": sys.version.split()[0], "measured": measured}))
        return 0
    print(f"cella {cella.__version__}, Python {sys.version.split()[0]}; milliseconds")
    print(f"{'':42}{'p50':>9}{'p99':>9}{'best':>9}")
    for name, row in measured.items():
        print(f"{name:42}{row['p50_ms']:9.3f}{row['p99_ms']:9.3f}{row['best_ms']:9.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
