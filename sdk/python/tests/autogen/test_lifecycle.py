"""Making, starting, stopping and restarting an executor, and what it warns of."""

from __future__ import annotations

import asyncio
import os
import pathlib
import venv
import warnings

import pytest
from autogen_core.code_executor import CodeExecutor
from lab import Lab, execute


def test_executor_is_an_autogen_code_executor(lab: Lab) -> None:
    assert isinstance(lab.make(), CodeExecutor)


def test_default_options_match_autogen(lab: Lab) -> None:
    executor = lab.make(work_dir=None)
    assert (executor.timeout, executor.functions_module, executor.cleanup_temp_files) == (60, "functions", True)
    asyncio.run(executor.stop())


def test_options_by_position_match_autogen(lab: Lab) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        executor = lab.type(5, str(lab.work_dir), [], "tools", False)
    assert (executor.timeout, executor.work_dir) == (5, lab.work_dir)
    assert (executor.functions_module, executor.cleanup_temp_files) == ("tools", False)


@pytest.mark.parametrize("timeout", [0, -1, 0.5])
def test_rejects_timeout_below_a_second(lab: Lab, timeout: float) -> None:
    with pytest.raises(ValueError, match=r"Timeout must be greater than or equal to 1\."):
        lab.make(timeout=timeout)


def test_fractional_timeout_is_accepted(lab: Lab) -> None:
    assert lab.python("import time\ntime.sleep(1.1)\nprint(1)", timeout=3.5).output == "1\n"
    assert lab.python("import time\ntime.sleep(60)", timeout=1.5).exit_code == 124


def test_working_directory_is_created(lab: Lab, tmp_path: pathlib.Path) -> None:
    executor = lab.make(work_dir=str(tmp_path / "fresh"))
    assert executor.work_dir == tmp_path / "fresh" and executor.work_dir.is_dir()


def test_rejects_working_directory_without_parent(lab: Lab, tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError):
        lab.make(work_dir=tmp_path / "no" / "fresh")


def test_relative_working_directory_is_resolved(
    lab: Lab, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = lab.run(("sh", "echo x > made"), ("python", "print(open('made').read())"), work_dir="relative")
    assert result.output == "x\n\n" and (tmp_path / "relative" / "made").exists()


def test_linked_working_directory_is_resolved(lab: Lab, tmp_path: pathlib.Path) -> None:
    (tmp_path / "link").symlink_to(lab.work_dir)
    assert lab.run(("sh", "echo x > made"), work_dir=tmp_path / "link").exit_code == 0
    assert lab.files() == ["made"]


def test_working_directory_with_unusual_name_works(lab: Lab, tmp_path: pathlib.Path) -> None:
    strange = tmp_path / "it's $HOME;\n\"ü\""
    assert lab.python("print(1)", work_dir=strange).output == "1\n"


def test_temporary_directory_exists_until_stop(lab: Lab) -> None:
    async def go() -> pathlib.Path:
        async with lab.make(work_dir=None) as executor:
            directory: pathlib.Path = executor.work_dir
            await execute(executor, ("sh", "echo kept > file"))
            assert (await execute(executor, ("sh", "cat file"))).output == "kept\n"
            assert (directory / "file").exists()
            return directory

    assert not asyncio.run(go()).exists()


def test_directory_of_the_caller_is_kept(lab: Lab) -> None:
    lab.run(("sh", "echo kept > file"))
    assert lab.files() == ["file"]


def test_executor_runs_without_start_and_after_stop(lab: Lab) -> None:
    async def go() -> None:
        executor = lab.make(work_dir=None)
        assert (await execute(executor, ("sh", "echo 1"))).output == "1\n"
        await executor.stop()
        assert (await execute(executor, ("sh", "echo 2"))).output == "2\n"
        await executor.stop()
        await executor.stop()

    asyncio.run(go())


def test_start_can_be_called_twice(lab: Lab) -> None:
    async def go() -> None:
        executor = lab.make(work_dir=None)
        await executor.start()
        first = executor.work_dir
        await executor.start()
        assert executor.work_dir == first
        await executor.stop()

    asyncio.run(go())


def test_restart_keeps_files(lab: Lab) -> None:
    async def go() -> None:
        async with lab.make() as executor:
            await execute(executor, ("sh", "echo kept > file"))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                await executor.restart()
            assert (await execute(executor, ("sh", "cat file"))).output == "kept\n"

    asyncio.run(go())


@pytest.mark.parametrize("lab", ["autogen", "local"], indirect=True)
def test_restart_warns_that_it_has_no_effect(lab: Lab) -> None:
    with pytest.warns(UserWarning, match="Restarting local command line code executor is not supported. No action"):
        asyncio.run(lab.make().restart())


@pytest.mark.parametrize("lab", ["autogen", "local"], indirect=True)
def test_local_executor_warns_at_the_callers_line(lab: Lab) -> None:
    with pytest.warns(UserWarning, match="Using LocalCommandLineCodeExecutor may execute code") as seen:
        lab.type(work_dir=lab.work_dir)
    assert [each.filename for each in seen] == [__file__]


def test_sandbox_executor_does_not_warn(sandbox: Lab) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        executor = sandbox.type(work_dir=sandbox.work_dir)
        asyncio.run(executor.restart())


@pytest.mark.parametrize("way", [".", "absolute"])
def test_current_directory_as_work_dir_warns(lab: Lab, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.chdir(lab.work_dir)
    directory = "." if way == "." else os.getcwd()
    with pytest.warns(DeprecationWarning, match="Using the current directory as work_dir is deprecated.") as seen:
        lab.make(work_dir=directory)
    assert {each.filename for each in seen if each.category is DeprecationWarning} == {lab.make.__code__.co_filename}


def test_virtual_environment_is_used(lab: Lab, tmp_path: pathlib.Path) -> None:
    builder = venv.EnvBuilder(with_pip=False)
    builder.create(tmp_path / "env")
    context = builder.ensure_directories(tmp_path / "env")
    result = lab.run(
        ("python", "import sys\nprint(sys.prefix)"),
        ("bash", "command -v python && python -c 'import sys; print(sys.prefix)'"),
        virtual_env_context=context,
    )
    prefix = str(tmp_path / "env")
    assert (result.exit_code, result.output) == (0, f"{prefix}\n{prefix}/bin/python\n{prefix}\n")


def test_virtual_environment_inside_the_working_directory_is_used(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(lab.work_dir.parent)
    builder = venv.EnvBuilder(with_pip=False)
    builder.create(pathlib.Path("coding/.venv"))
    context = builder.ensure_directories(pathlib.Path("coding/.venv"))
    result = lab.python("import sys\nprint(sys.prefix)", work_dir="coding", virtual_env_context=context)
    assert (result.exit_code, result.output) == (0, f"{lab.work_dir / '.venv'}\n")


def test_restart_of_the_jail_forgets_what_calls_left_behind(sandbox: Lab) -> None:
    async def main() -> None:
        async with sandbox.make() as executor:
            await execute(executor, ("python", "open('/tmp/left', 'w').write('x'); open('kept', 'w').write('y')"))
            assert (await execute(executor, ("sh", "cat /tmp/left kept"))).output == "xy"
            await executor.restart()
            assert (await execute(executor, ("sh", "ls /tmp/left || cat kept"))).output.endswith("y")

    asyncio.run(main())
