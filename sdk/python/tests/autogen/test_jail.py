"""What the sandbox keeps from the code. Each attack first succeeds without it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import secrets
import socket
from collections.abc import Iterator

import pytest
from lab import Lab, assert_no_process, execute, processes_with, until

from cella import Mount


@contextlib.contextmanager
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_host_files_are_hidden(sandbox: Lab, local: Lab, tmp_path: pathlib.Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("precious")
    code = f"print(open('{secret}').read())"
    assert local.python(code).output == "precious\n"
    result = sandbox.python(code)
    assert result.exit_code == 1 and "FileNotFoundError" in result.output


def test_writing_outside_the_working_directory_fails(sandbox: Lab, local: Lab, tmp_path: pathlib.Path) -> None:
    code = "open('../escaped', 'w')"
    assert local.python(code).exit_code == 0
    (tmp_path / "escaped").unlink()
    assert sandbox.python(code).exit_code == 1
    assert not (tmp_path / "escaped").exists()


def test_variables_of_the_caller_are_hidden(sandbox: Lab, local: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "precious")
    code = "import os\nprint(os.environ.get('SOME_API_KEY'))"
    assert local.python(code).output == "precious\n"
    assert sandbox.python(code).output == "None\n"


def test_network_is_unreachable(sandbox: Lab, local: Lab) -> None:
    with listening() as port:
        code = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 2)\nprint('connected')"
        assert local.python(code).output == "connected\n"
        assert sandbox.python(code).exit_code == 1


def test_host_processes_are_hidden(sandbox: Lab, local: Lab) -> None:
    code = f"import os\nos.kill({os.getpid()}, 0)\nprint('reached')"
    assert local.python(code).output == "reached\n"
    assert sandbox.python(code).exit_code == 1


def test_memory_limit_is_enforced(sandbox: Lab) -> None:
    code = "print('before', flush=True)\nx = bytearray(400 << 20)\nprint('got it')"
    assert sandbox.python(code).output == "before\ngot it\n"
    result = sandbox.python(code, memory_limit="200m")
    assert result.exit_code != 0 and "got it" not in result.output and "before" in result.output


def test_pids_limit_is_enforced(sandbox: Lab) -> None:
    code = "import subprocess\nhere = [subprocess.Popen(['sleep', '5']) for _ in range(40)]\nprint('every one')"
    assert sandbox.python(code).output == "every one\n"
    result = sandbox.python(code, pids_limit=20)
    assert result.exit_code != 0 and "every one" not in result.output


def test_named_variables_mounts_and_network_are_available(sandbox: Lab, tmp_path: pathlib.Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").write_text("data")
    with listening() as port:
        code = f"""
import os, socket
socket.create_connection(('127.0.0.1', {port}), 2)
print(os.environ['NAMED'], open('/data/x').read())
open('/data/y', 'w')
"""
        result = sandbox.python(
            code, network_disabled=False, env={"NAMED": "value"}, mounts=[Mount(str(tmp_path / "data"), "/data")]
        )
    assert result.output.endswith("value data\n") and "Read-only file system" in result.output


def test_files_and_processes_stay_until_the_executor_stops(sandbox: Lab, mark: str) -> None:
    name = secrets.token_hex(8)

    async def go() -> None:
        async with sandbox.make() as executor:
            server = f"import time\ntime.sleep(60)  # {mark}"
            first = await execute(
                executor, ("sh", f"echo x > /tmp/{name}"), ("sh", f"python3 -c '{server}' > /dev/null 2>&1 & :")
            )
            assert first.exit_code == 0, first
            assert (await execute(executor, ("sh", f"cat /tmp/{name}"))).output == "x\n"
            await until(lambda: bool(list(processes_with(mark))))
        assert_no_process(mark)
        async with sandbox.make() as another:
            assert (await execute(another, ("sh", f"cat /tmp/{name}"))).exit_code == 1

    asyncio.run(go())
    assert not pathlib.Path("/tmp", name).exists()
