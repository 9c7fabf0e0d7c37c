"""Evaluate 200 programs of a model against their expected output, each in its own jail.

For comparison, AutoGen's local executor runs the same programs one by one without a jail (needs autogen-ext; otherwise
that row is omitted).

    python examples/batch_evaluation.py [NUMBER OF PROGRAMS]
"""

from __future__ import annotations

import asyncio
import math
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable

import cella

# Modules that models often import. They are imported once, before the first jail starts.
USUAL = ["collections", "dataclasses", "datetime", "itertools", "json", "math", "random", "re", "statistics", "typing"]
WARM = cella.SandboxExecutor(preload=USUAL)
HEAD = f"import {', '.join(USUAL)}\n"


def programs(count: int) -> list[dict[str, str]]:
    """Programs as a model might write them: most correct, some with wrong output, some that fail."""
    made = []
    for number in range(count):
        line, expected = f"print(math.comb({number}, 2))", f"{math.comb(number, 2)}\n"
        if number % 20 == 7:
            line = f"print(math.comb({number}, 3) + 1)"
        elif number % 20 == 13:
            line = "print(undefined)"
        made.append({"code": HEAD + line, "expected": expected, "timeout": "5s"})
    return made


async def with_cella(wanted: list[dict[str, str]]) -> Counter[str]:
    # More than the number of processors: while one jail is removed, another one can run.
    items = await cella.run_batch(wanted, concurrency=8, executor=WARM)
    return Counter("passed" if item.passed else item.result.status if item.result else "not run" for item in items)


async def with_autogen(wanted: list[dict[str, str]]) -> Counter[str]:
    from autogen_core import CancellationToken
    from autogen_core.code_executor import CodeBlock
    from autogen_ext.code_executors.local import LocalCommandLineCodeExecutor

    verdicts: Counter[str] = Counter()
    warnings.filterwarnings("ignore", "Using LocalCommandLineCodeExecutor", UserWarning)
    with tempfile.TemporaryDirectory() as work_dir:
        async with LocalCommandLineCodeExecutor(timeout=5, work_dir=work_dir) as executor:
            for each in wanted:
                block = CodeBlock(code=each["code"], language="python")
                result = await executor.execute_code_blocks([block], CancellationToken())
                passed = result.exit_code == 0 and result.output == each["expected"]
                verdicts["passed" if passed else "error" if result.exit_code else "ok"] += 1
    return verdicts


async def measure(name: str, run: Callable[[list[dict[str, str]]], Awaitable[Counter[str]]], count: int) -> float:
    wanted = programs(count)
    began = time.perf_counter()
    verdicts = await run(wanted)
    seconds = time.perf_counter() - began
    told = ", ".join(f"{number} {verdict}" for verdict, number in sorted(verdicts.items()))
    print(f"{name:<46} {seconds:6.2f} s {count / seconds:7.0f} programs/s   {told}")
    return seconds


async def main(count: int) -> None:
    # The first use starts the private server and a warm interpreter. Keep that out of the measurement.
    await cella.run_batch(["pass"], executor=WARM, progress=False)
    ours = await measure("Cella, each in a jail of its own", with_cella, count)
    try:
        theirs = await measure("AutoGen's local executor, one by one, no jail", with_autogen, count)
    except ModuleNotFoundError as missing:
        print(f"no comparison: {missing}")
        return
    print(f"{theirs / ours:.1f} times as fast")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
