"""Ends from outside: the time-out, AutoGen's cancellation, the owner's task, stop. For ours only: AutoGen's own
executor loses the output, kills one process of the tree or none, and waits for it without a bound."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from autogen_core import CancellationToken
from lab import Lab, assert_no_process, execute, processes_with, until

# Each says "before" when it is as stubborn as it can be, has processes with the mark, and shall never say more.
HEAD = """
import os, signal, subprocess, sys, time
MARK = '{mark}'
def begin():
    print('before')
    open('begun', 'w')
"""
STUBBORN = {
    "sleeps": "begin()\ntime.sleep(60)",
    "spins": "begin()\nwhile True: pass",
    "ignores signals": """
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
begin()
time.sleep(60)""",
    "has children in sessions of their own": """
for _ in range(3):
    subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)', MARK], start_new_session=True)
begin()
time.sleep(60)""",
    "has left a grandchild to init": """
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, '-c', 'import time; time.sleep(60)', MARK])
    os._exit(0)
os.wait()
begin()
time.sleep(60)""",
}


def stubborn(kind: str, mark: str) -> str:
    return HEAD.format(mark=mark) + STUBBORN[kind] + "\nprint('late')\n"


@pytest.mark.parametrize("kind", STUBBORN)
def test_timeout_kills_all_processes_and_keeps_the_output(ours: Lab, kind: str, mark: str) -> None:
    began = time.monotonic()
    result = ours.python(stubborn(kind, mark), timeout=2)
    assert time.monotonic() - began < 20
    assert result.exit_code == 124
    assert result.output.endswith("before\n\nTimeout"), result.output
    assert_no_process(mark)


def cancelled_by(ours: Lab, mark: str, code: str, cancel: object) -> tuple[object, float]:
    """The result of a call whose token is cancelled once its code is at work, and how long that took."""

    async def go() -> tuple[object, float]:
        token = CancellationToken()
        async with ours.make(timeout=60) as executor:
            call = asyncio.ensure_future(execute(executor, ("python", "print('first')"), ("python", code), token=token))
            await until((ours.work_dir / "begun").exists)
            began = time.monotonic()
            cancel(token)  # type: ignore[operator]
            return await call, time.monotonic() - began

    return asyncio.run(go())


@pytest.mark.parametrize("kind", STUBBORN)
def test_cancelled_token_kills_all_processes_and_keeps_the_output(ours: Lab, kind: str, mark: str) -> None:
    result, seconds = cancelled_by(ours, mark, stubborn(kind, mark), CancellationToken.cancel)
    assert seconds < 20
    assert result.exit_code == 125  # type: ignore[attr-defined]
    output = result.output  # type: ignore[attr-defined]
    assert output.startswith("first\n") and output.endswith("before\n\nCancelled"), output
    assert ours.files() == ["begun"]
    assert_no_process(mark)


def test_token_can_be_cancelled_from_another_thread(ours: Lab, mark: str) -> None:
    def cancel(token: CancellationToken) -> None:
        thread = threading.Thread(target=token.cancel)
        thread.start()
        thread.join()

    result, seconds = cancelled_by(ours, mark, stubborn("sleeps", mark), cancel)
    assert result.exit_code == 125 and seconds < 20  # type: ignore[attr-defined]


def test_token_can_be_cancelled_from_another_loop(ours: Lab, mark: str) -> None:
    def cancel(token: CancellationToken) -> None:
        async def go() -> None:
            token.cancel()

        thread = threading.Thread(target=lambda: asyncio.run(go()))
        thread.start()
        thread.join()

    result, _ = cancelled_by(ours, mark, stubborn("sleeps", mark), cancel)
    assert result.exit_code == 125  # type: ignore[attr-defined]


def test_token_cancelled_after_its_call_has_no_effect(ours: Lab) -> None:
    async def go() -> None:
        token = CancellationToken()
        async with ours.make() as executor:
            assert (await execute(executor, ("sh", "echo 1"), token=token)).output == "1\n"
            token.cancel()
            assert (await execute(executor, ("sh", "echo 2"))).output == "2\n"

    asyncio.run(go())


def test_token_cancels_only_its_own_calls(ours: Lab, mark: str) -> None:
    async def go() -> None:
        token = CancellationToken()
        async with ours.make(timeout=30) as executor:
            doomed = [
                asyncio.ensure_future(execute(executor, ("sh", f"touch a{n}; sleep 60; : {mark}"), token=token))
                for n in range(3)
            ]
            other = asyncio.ensure_future(
                execute(executor, ("sh", "touch other; until [ -e go ]; do sleep 0.02; done; echo well"))
            )
            for name in ("a0", "a1", "a2", "other"):
                await until((ours.work_dir / name).exists)
            token.cancel()
            assert {(await call).exit_code for call in doomed} == {125}
            (ours.work_dir / "go").touch()
            result = await other
            assert (result.exit_code, result.output) == (0, "well\n")

    asyncio.run(go())


def test_cancelled_task_kills_the_code_and_stays_cancelled(ours: Lab, mark: str) -> None:
    async def go() -> None:
        async with ours.make(timeout=60) as executor:
            task = asyncio.ensure_future(execute(executor, ("python", stubborn("ignores signals", mark))))
            await until((ours.work_dir / "begun").exists)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(lambda: not list(processes_with(mark)))
            assert ours.files() == ["begun"]
            assert (await execute(executor, ("sh", "echo well"))).output == "well\n"

    asyncio.run(go())


def test_wait_for_raises_timeout_in_time(ours: Lab) -> None:
    async def go() -> None:
        async with ours.make(timeout=60) as executor:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(execute(executor, ("sh", "sleep 60")), 0.5)

    began = time.monotonic()
    asyncio.run(go())
    assert time.monotonic() - began < 20


def test_stop_ends_current_calls_before_it_removes_the_directory(ours: Lab, mark: str) -> None:
    async def go() -> None:
        executor = ours.make(work_dir=None, timeout=60)
        directory = executor.work_dir
        code = f"touch begun; while :; do touch still; sleep 0.01; done; : {mark}"
        call = asyncio.ensure_future(execute(executor, ("sh", code)))
        await until((directory / "begun").exists)
        await executor.stop()
        assert not directory.exists()
        result = await call
        assert (result.exit_code, result.output[-10:]) == (125, "\nCancelled")

    asyncio.run(go())


def test_child_holding_the_output_does_not_delay_the_end(ours: Lab, mark: str) -> None:
    began = time.monotonic()
    code = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)', '{mark}'])"
    result = ours.python(code + "\nprint('done')", timeout=20)
    assert (result.exit_code, result.output) == (0, "done\n")
    assert time.monotonic() - began < 10
    assert_no_process(mark)


def test_call_after_a_timeout_succeeds(ours: Lab) -> None:
    async def go() -> None:
        async with ours.make(timeout=2) as executor:
            assert (await execute(executor, ("sh", "sleep 60"))).exit_code == 124
            assert (await execute(executor, ("sh", "echo well"))).output == "well\n"

    asyncio.run(go())
