"""The executors under test, side by side: AutoGen's own, which shows that an expectation is real, and ours."""

from __future__ import annotations

import asyncio
import os
import pathlib
import time
import warnings
from collections.abc import Iterator
from typing import Any, Callable

from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock, CodeExecutor
from autogen_ext.code_executors.local import LocalCommandLineCodeExecutor as AutoGensOwn

from cella.autogen import LocalCommandLineCodeExecutor, SandboxCommandLineCodeExecutor

KINDS: dict[str, type[CodeExecutor]] = {
    "autogen": AutoGensOwn,
    "local": LocalCommandLineCodeExecutor,
    "sandbox": SandboxCommandLineCodeExecutor,
}
OURS = ("local", "sandbox")


class Lab:
    """One kind of executor, with a working directory that the test can look into."""

    def __init__(self, kind: str, work_dir: pathlib.Path) -> None:
        self.kind = kind
        self.type: Any = KINDS[kind]
        self.work_dir = work_dir
        # Where the code finds its working directory.
        self.seen_dir = "/workspace" if kind == "sandbox" else str(work_dir)

    def make(self, **options: Any) -> Any:
        options.setdefault("work_dir", self.work_dir)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Using LocalCommandLineCodeExecutor", UserWarning)
            return self.type(**options)

    def run(self, *blocks: tuple[str, str], **options: Any) -> Any:
        """The result of blocks (language, code), by an executor that is started and stopped."""
        return asyncio.run(self.go(*blocks, **options))

    async def go(self, *blocks: tuple[str, str], **options: Any) -> Any:
        async with self.make(**options) as executor:
            return await execute(executor, *blocks)

    def python(self, code: str, **options: Any) -> Any:
        return self.run(("python", code), **options)

    def files(self) -> list[str]:
        return sorted(entry.name for entry in self.work_dir.iterdir() if entry.name != "__pycache__")


async def execute(executor: Any, *blocks: tuple[str, str], token: CancellationToken | None = None) -> Any:
    wanted = [CodeBlock(code=code, language=language) for language, code in blocks]
    return await executor.execute_code_blocks(wanted, cancellation_token=token or CancellationToken())


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        await asyncio.sleep(0.01)


def processes_with(mark: str) -> Iterator[int]:
    """Those that have the mark among their arguments, in whatever namespace."""
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            words = pathlib.Path("/proc", entry, "cmdline").read_bytes()
        except OSError:
            continue
        if mark.encode() in words:
            yield int(entry)


def assert_no_process(mark: str) -> None:
    assert wait_until(lambda: not list(processes_with(mark)), 5.0), f"still alive: {list(processes_with(mark))}"
