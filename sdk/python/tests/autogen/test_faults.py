"""Faults around an executor: its server dies; its process forks, ends or is killed during a call."""

from __future__ import annotations

import asyncio
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest
from lab import Lab, assert_no_process, execute, processes_with, until

from cella._private_server import private_server
from cella.autogen._temporary import TemporaryDirectory
from cella.errors import CellaError

START = """
import asyncio, os, sys, warnings
warnings.simplefilter("ignore")
from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock
from cella.autogen import LocalCommandLineCodeExecutor, SandboxCommandLineCodeExecutor

def run(executor, code):
    block = CodeBlock(code=code, language="sh")
    return asyncio.run(executor.execute_code_blocks([block], CancellationToken())).output

executor = {kind}()
"""


def program(ours: Lab, text: str) -> list[str]:
    return [sys.executable, "-c", START.format(kind=ours.type.__name__) + text]


def test_dead_server_is_reported_and_replaced(ours: Lab, mark: str) -> None:
    async def go() -> None:
        async with ours.make(timeout=60) as executor:
            assert (await execute(executor, ("sh", "echo 1"))).output == "1\n"
            call = asyncio.ensure_future(execute(executor, ("sh", f"touch begun; sleep 60; : {mark}")))
            await until((ours.work_dir / "begun").exists)
            os.kill(private_server()._pid, signal.SIGKILL)
            with pytest.raises(CellaError, match="private server"):
                await call
            await until(lambda: not list(processes_with(mark)))
            assert ours.files() == ["begun"]
            assert (await execute(executor, ("sh", "echo 2"))).output == "2\n"

    asyncio.run(go())


def test_server_that_died_between_calls_is_replaced(ours: Lab) -> None:
    async def go() -> None:
        async with ours.make() as executor:
            await execute(executor, ("sh", "echo 1"))
            os.kill(private_server()._pid, signal.SIGKILL)
            await until(lambda: private_server().died() is None)
            assert (await execute(executor, ("sh", "echo 2"))).output == "2\n"

    asyncio.run(go())


def test_forked_child_starts_its_own_server(ours: Lab) -> None:
    text = """
print(run(executor, "echo parent"), end="", flush=True)
child = os.fork()
if child == 0:
    print(run(executor, "echo child"), end="", flush=True)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
print(run(executor, "echo parent again"), end="")
asyncio.run(executor.stop())
"""
    ended = subprocess.run(program(ours, text), capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (0, "parent\nchild\nparent again\n"), ended.stderr


@pytest.mark.parametrize("way", ["sys.exit(0)", "os.kill(os.getpid(), 9)"])
def test_process_that_ends_during_a_call_leaves_nothing(ours: Lab, mark: str, way: str) -> None:
    text = f"""
import threading
directory = executor.work_dir
threading.Thread(target=run, args=(executor, "touch begun; sleep 60; : {mark}"), daemon=True).start()
while not (directory / "begun").exists():
    pass
print(directory, flush=True)
{way}
"""
    began = time.monotonic()
    ended = subprocess.run(program(ours, text), capture_output=True, text=True, timeout=60, check=False)
    directory = pathlib.Path(ended.stdout.strip())
    assert directory.name.startswith("cella-"), ended.stderr
    assert time.monotonic() - began < 30
    assert_no_process(mark)
    if "exit" in way:
        assert not directory.exists()
    else:
        shutil.rmtree(directory)


def test_directory_is_removed_while_others_remove_its_files() -> None:
    """A call that ends just then takes its code files away."""
    directory = TemporaryDirectory("cella-")
    names = [pathlib.Path(directory.path, f"{number:05}") for number in range(3000)]
    for each in names:
        each.touch()

    def remove_too() -> None:
        for each in names:
            each.unlink(missing_ok=True)

    other = threading.Thread(target=remove_too)
    other.start()
    directory.remove()
    other.join()
    assert not os.path.exists(directory.path)


def test_executor_without_stop_leaves_no_warning(ours: Lab) -> None:
    text = 'print(run(executor, "echo 1"), end="")'
    command = [sys.executable, "-W", "error", *program(ours, text)[1:]]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "1\n", "")
