"""DockerCommandLineCodeExecutor on a real engine: what AutoGen's of this name does, and what it only promises."""

from __future__ import annotations

import asyncio
import os
import pathlib
import sys
import time
from typing import Any

import autogen_core
import pytest
from autogen_core import CancellationToken, ComponentLoader
from autogen_core.code_executor import CodeBlock, FunctionWithRequirements, with_requirements
from lab import execute, until

import cella
from cella.autogen import DockerCommandLineCodeExecutor
from support.engine import Engine, default_images
from support.needs import require
from support.running import wait_until

pytestmark = pytest.mark.needs("docker")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    made = Engine(require("docker"))
    monkeypatch.setenv("DOCKER_HOST", made.host)
    return made


class Maker:
    def __init__(self, engine: Engine, work_dir: pathlib.Path) -> None:
        self.engine, self.work_dir = engine, work_dir

    def make(self, **options: Any) -> Any:
        options.setdefault("work_dir", self.work_dir)
        options.setdefault("image", self.engine.image)
        # The test's engine has no bridge.
        options.setdefault("network_disabled", True)
        return DockerCommandLineCodeExecutor(**options)

    def run(self, *blocks: tuple[str, str], **options: Any) -> Any:
        async def go() -> Any:
            async with self.make(**options) as executor:
                return await execute(executor, *blocks)

        return asyncio.run(go())


@pytest.fixture
def docker(engine: Engine, work_dir: pathlib.Path) -> Maker:
    return Maker(engine, work_dir)


def test_blocks_run_in_order_and_share_files_up_to_the_first_failure(docker: Maker) -> None:
    result = docker.run(
        ("python", "open('n', 'w').write('42')"), ("sh", "cat n"), ("Python", "import sys; sys.exit(3)"),
        ("sh", "echo no"),
    )
    assert (result.exit_code, result.output) == (3, "42")
    assert result.code_file is not None and result.code_file.endswith(".python")
    assert (docker.work_dir / "n").stat().st_uid == os.getuid()


def test_streams_are_merged_in_the_order_of_writing(docker: Maker) -> None:
    result = docker.run(("sh", "echo a; echo b >&2; echo c"))
    assert result.output == "a\nb\nc\n"


def test_names_of_files(docker: Maker) -> None:
    assert docker.run(("python", "# filename: sub/x.py\nprint(__file__)")).output == "/workspace/sub/x.py\n"
    assert (docker.work_dir / "sub/x.py").exists()
    for name in ("../out.py", "/tmp/out.py"):
        result = docker.run(("python", f"# filename: {name}\nprint(1)"))
        assert (result.exit_code, result.output) == (1, "Filename is not in the workspace")


def test_wrong_calls_raise_as_in_autogen(docker: Maker) -> None:
    with pytest.raises(ValueError, match=r"Timeout must be greater than or equal to 1\."):
        docker.make(timeout=0)
    with pytest.raises(ValueError, match="Module name must be a valid Python identifier"):
        docker.make(functions_module="not valid")
    with pytest.raises(RuntimeError, match="Working directory not properly initialized"):
        _ = docker.make(work_dir=None).work_dir
    with pytest.raises(ValueError, match="Container is not running"):
        asyncio.run(execute(docker.make(), ("python", "1")))
    with pytest.raises(ValueError, match="Container is not running"):
        asyncio.run(docker.make().restart())
    with pytest.raises(ValueError, match="No code blocks to execute"):
        docker.run()
    with pytest.raises(ValueError, match="Unsupported language"):
        docker.run(("cobol", "DISPLAY 1"))


def test_current_directory_is_warned_about(docker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(docker.work_dir)
    with pytest.warns(DeprecationWarning, match="current directory"):
        docker.make(work_dir=".")


def test_timeout_ends_code_that_ignores_signals_and_keeps_its_output(docker: Maker) -> None:
    code = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('before')\ntime.sleep(60)"
    began = time.monotonic()
    result = docker.run(("python", code), timeout=1)
    assert result.exit_code == 124 and result.output.startswith("before\n") and result.output.endswith("\n Timeout")
    assert time.monotonic() - began < 30


def test_cancelled_code_never_writes_its_file_and_keeps_its_output(docker: Maker) -> None:
    """First that it does write the file when it is not cancelled."""
    code = "import os, time\nprint('on')\nopen('on', 'w').close()\n{}\nopen('late', 'w').close()"
    assert docker.run(("python", code.format("pass"))).output == "on\n"
    assert (docker.work_dir / "late").exists()
    for name in ("on", "late"):
        (docker.work_dir / name).unlink()

    async def cancelled() -> Any:
        token = CancellationToken()
        async with docker.make() as executor:
            wait = "while not os.path.exists('go'): time.sleep(0.01)"
            running = asyncio.ensure_future(execute(executor, ("python", code.format(wait)), token=token))
            await until((docker.work_dir / "on").exists, 30)
            token.cancel()
            result = await running
            (docker.work_dir / "go").touch()
            # Another block in the same container: what was cancelled had the time.
            assert (await execute(executor, ("sh", "sleep 0.1; echo next"))).output == "next\n"
            return result

    result = asyncio.run(cancelled())
    assert result.exit_code == 1 and result.output.startswith("on\n"), result
    assert result.output.endswith("Code execution was cancelled."), result
    assert not (docker.work_dir / "late").exists()


def test_temporary_directory_lives_from_start_to_stop(docker: Maker) -> None:
    async def go() -> None:
        executor = docker.make(work_dir=None)
        await executor.start()
        directory = executor.work_dir
        assert executor.bind_dir == directory
        assert (await execute(executor, ("sh", "pwd; echo x > f"))).output == "/workspace\n"
        assert (directory / "f").read_text() == "x\n"
        await executor.stop()
        assert not directory.exists()

    asyncio.run(go())


def test_container_has_the_name_and_ends_with_stop(docker: Maker) -> None:
    async def go() -> float:
        executor = docker.make(memory_limit="96m", pids_limit=50, cpu_quota=0.5)
        await executor.start()
        host = docker.engine.inspect(executor.container_name)["HostConfig"]
        assert host["Memory"] == 96 << 20 and host["NanoCpus"] == 500_000_000 and 50 <= host["PidsLimit"] <= 60
        assert executor.container_name.startswith("autogen-code-exec-")
        began = time.monotonic()
        await executor.stop()
        took = time.monotonic() - began
        assert not docker.engine.exists(executor.container_name)
        await executor.stop()
        return took

    # AutoGen's takes ten seconds. A busy machine may hold one of them up.
    assert any(asyncio.run(go()) < 0.5 for _ in range(10))


def test_restart_keeps_the_files_of_the_working_directory(docker: Maker) -> None:
    async def go() -> str:
        async with docker.make() as executor:
            await execute(executor, ("sh", "echo kept > f; echo gone > /tmp/g"))
            await executor.restart()
            return str((await execute(executor, ("sh", "cat f; ls /tmp/g"))).output)

    output = asyncio.run(go())
    assert output.startswith("kept\n") and "No such file" in output


def test_init_command_runs_once_and_its_failure_is_that_of_the_start(docker: Maker) -> None:
    assert docker.run(("sh", "cat made"), init_command="echo once >> made").output == "once\n"
    with pytest.raises(RuntimeError, match=r"init_command failed.*reason"):
        docker.run(("sh", "true"), init_command="echo reason; false")


def test_volumes_and_bind_dir(docker: Maker, tmp_path: pathlib.Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    (given / "f").write_text("given")
    code = "cat /data/f; touch /data/g 2>/dev/null || echo read-only"
    volumes = {str(given): {"bind": "/data", "mode": "ro"}}
    result = docker.run(("sh", code), extra_volumes=volumes, bind_dir=docker.work_dir)
    assert result.output == "givenread-only\n"


@with_requirements(python_packages=[], global_imports=["math"])
def half(number: int) -> float:
    return math.floor(number) / 2  # type: ignore[name-defined]  # noqa: F821


def _plain() -> None:
    """Of a module that imports what is not there."""


def test_functions_can_be_imported(docker: Maker) -> None:
    assert isinstance(half, FunctionWithRequirements)
    result = docker.run(("python", "from functions import half; print(half(5))"), functions=[half])
    assert (result.exit_code, result.output) == (0, "2.5\n")
    broken = with_requirements(python_packages=[], global_imports=["absent_module"])(_plain)
    with pytest.raises(ValueError, match="Functions failed to load"):
        docker.run(("python", "1"), functions=[broken])


def test_temporary_files_are_deleted_only_when_asked(docker: Maker) -> None:
    docker.run(("python", "1"))
    assert [each.suffix for each in docker.work_dir.iterdir()] == [".python"]
    for each in docker.work_dir.iterdir():
        each.unlink()
    docker.run(("python", "1"), delete_tmp_files=True)
    assert list(docker.work_dir.iterdir()) == []


def test_component_round_trips_with_every_option(docker: Maker) -> None:
    executor = docker.make(
        container_name="a-name", timeout=9, bind_dir="/b", extra_volumes={"/x": {"bind": "/y", "mode": "ro"}},
        init_command="true", delete_tmp_files=True, memory_limit="1g", auto_remove=False, stop_container=False,
        extra_hosts={"a.example": "192.0.2.7"},
    )
    dumped = executor.dump_component()
    again = DockerCommandLineCodeExecutor.load_component(dumped)
    assert again.dump_component() == dumped and again.timeout == 9 and again.container_name == "a-name"


def test_component_of_autogen_loads_after_a_change_of_its_provider(docker: Maker) -> None:
    document = {
        "provider": "cella.autogen.DockerCommandLineCodeExecutor", "component_type": "code_executor", "version": 1,
        "config": {
            "image": "python:3-slim", "container_name": None, "timeout": 60, "work_dir": None, "bind_dir": None,
            "auto_remove": True, "stop_container": True, "functions_module": "functions", "extra_volumes": {},
            "extra_hosts": {}, "init_command": None, "delete_tmp_files": False,
        },
    }
    loaded = ComponentLoader.load_component(document, DockerCommandLineCodeExecutor)
    assert isinstance(loaded, DockerCommandLineCodeExecutor) and loaded.timeout == 60


def test_devices_and_names_of_machines_reach_the_engine(docker: Maker) -> None:
    result = docker.run(("sh", "grep a.example /etc/hosts"), extra_hosts={"a.example": "192.0.2.7"})
    assert result.output.split() == ["192.0.2.7", "a.example"]
    with pytest.raises(RuntimeError, match="device driver"):
        docker.run(("sh", "true"), device_requests=[{"Count": -1, "Capabilities": [["gpu"]]}])


@pytest.mark.parametrize(
    ("options", "status"),
    [({"auto_remove": False}, "exited"), ({"stop_container": False}, "running")],
    ids=["auto_remove", "stop_container"],
)
def test_kept_container_is_logged_and_replaced_by_a_restart(
    docker: Maker, caplog: pytest.LogCaptureFixture, options: dict[str, Any], status: str
) -> None:
    async def go() -> str:
        executor = docker.make(**options)
        await executor.start()
        first = docker.engine.inspect(executor.container_name)["Id"]
        await executor.restart()
        assert docker.engine.inspect(executor.container_name)["Id"] != first
        assert (await execute(executor, ("sh", "echo on"))).output == "on\n"
        await executor.stop()
        return str(executor.container_name)

    name = asyncio.run(go())
    try:
        assert f"docker rm -f {name}" in caplog.text
        assert docker.engine.inspect(name)["State"]["Status"] == status
    finally:
        docker.engine.remove(name)


def test_missing_engine_and_image_are_explained(docker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="cella-test/none:9"):
        docker.run(("sh", "true"), image="cella-test/none:9")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent.sock")
    with pytest.raises(RuntimeError, match="Failed to connect to Docker"):
        docker.run(("sh", "true"))


def test_concurrent_calls_and_a_cancelled_one_do_not_disturb_each_other(docker: Maker) -> None:
    async def go() -> tuple[Any, list[Any]]:
        token = CancellationToken()
        async with docker.make() as executor:
            slow = asyncio.ensure_future(
                executor.execute_code_blocks([CodeBlock(code="touch on; sleep 60", language="sh")], token)
            )
            others = [asyncio.ensure_future(execute(executor, ("sh", f"echo {n}"))) for n in range(4)]
            await until((docker.work_dir / "on").exists, 30)
            token.cancel()
            return await slow, [await other for other in others]

    slow, others = asyncio.run(go())
    assert slow.exit_code == 1
    assert [other.output for other in others] == [f"{n}\n" for n in range(4)]


def test_nothing_of_ours_stays(docker: Maker) -> None:
    assert wait_until(lambda: not docker.engine.containers()), docker.engine.containers()


def test_example_of_the_guide_runs_with_another_import(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from pathlib import Path

    monkeypatch.chdir(tmp_path)

    async def example() -> None:
        work_dir = Path("coding")
        work_dir.mkdir(exist_ok=True)  # noqa: ASYNC240

        async with DockerCommandLineCodeExecutor(work_dir=work_dir) as executor:
            print(
                await executor.execute_code_blocks(
                    code_blocks=[
                        CodeBlock(language="python", code="print('Hello, World!')"),
                    ],
                    cancellation_token=CancellationToken(),
                )
            )

    with default_images(engine, "python:3-slim"):
        asyncio.run(example())
    printed = capsys.readouterr().out
    assert printed.startswith(r"CommandLineCodeResult(exit_code=0, output='Hello, World!\n', code_file='"), printed
    assert not engine.containers()


# What runs in the container of the application. The engine's machine has the directory elsewhere, hence bind_dir.
IN_A_CONTAINER = """
import asyncio
from pathlib import Path

from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock
from cella.autogen import DockerCommandLineCodeExecutor

work_dir = Path("coding")
work_dir.mkdir(exist_ok=True)

async def main():
    async with DockerCommandLineCodeExecutor(
        work_dir=work_dir, bind_dir={bind_dir!r}, network_disabled=True
    ) as executor:
        print(
            await executor.execute_code_blocks(
                code_blocks=[
                    CodeBlock(language="python", code="print('Hello, World!'); open('made', 'w').write('inside')"),
                ],
                cancellation_token=CancellationToken(),
            )
        )

asyncio.run(main())
"""


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="packages for the Python of the image are needed: 3.11")
def test_application_in_a_container_runs_code_in_another(engine: Engine, tmp_path: pathlib.Path) -> None:
    """Docker out of Docker: the application's container has the engine's socket and a directory of the host."""
    coding = tmp_path / "of the host"
    coding.mkdir()
    coding.chmod(0o777)  # root of the application's container writes there, without the rights of root
    program = pathlib.Path(os.environ["CELLA_BIN"]).resolve()
    package = pathlib.Path(cella.__file__).resolve().parents[1]
    shown = {
        str(program.parent.parent): "/opt/cella", str(package): "/opt/package",
        str(pathlib.Path(autogen_core.__file__).resolve().parents[1]): "/opt/packages",
    }
    mounts = [{"Type": "bind", "Source": at, "Target": to, "ReadOnly": True} for at, to in shown.items()]
    mounts.append({"Type": "bind", "Source": engine.host.removeprefix("unix://"), "Target": "/var/run/docker.sock"})
    mounts.append({"Type": "bind", "Source": str(coding), "Target": "/app/coding"})
    settings = ["PYTHONPATH=/opt/package:/opt/packages", f"CELLA_BIN=/opt/cella/{program.parent.name}/cella"]
    code = IN_A_CONTAINER.format(bind_dir=str(coding))
    with default_images(engine, "python:3-slim"):
        command = ["/usr/bin/env", "-C", "/app", *settings, "/usr/bin/python3", "-W", "ignore", "-c", code]
        outer = engine.make(command, {"someone": "else"}, Mounts=mounts)
        try:
            assert wait_until(lambda: not engine.inspect(outer)["State"]["Running"], 60), engine.logs(outer)
            assert "exit_code=0, output='Hello, World!\\n'" in engine.logs(outer), engine.logs(outer)
        finally:
            engine.remove(outer)
    assert (coding / "made").read_text() == "inside"
    assert wait_until(lambda: not engine.containers()), engine.containers()
