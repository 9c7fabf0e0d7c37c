"""JupyterCodeExecutor beside AutoGen's own: each expectation is first one of the original."""

from __future__ import annotations

import asyncio
import json
import pathlib
import warnings
from typing import Any

import pytest
from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock, CodeExecutor
from autogen_ext.code_executors.jupyter import JupyterCodeExecutor as AutoGensOwn

from cella.autogen import JupyterCodeExecutor

KINDS: dict[str, Any] = {"autogen": AutoGensOwn, "cella": JupyterCodeExecutor}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Any:
    return KINDS[request.param]


def blocks(*codes: str) -> list[CodeBlock]:
    return [CodeBlock(code=code, language="python") for code in codes]


def run(kind: Any, *codes: str, **options: Any) -> Any:
    async def execute() -> Any:
        async with kind(**options) as executor:
            return await executor.execute_code_blocks(blocks(*codes), CancellationToken())

    return asyncio.run(execute())


def test_output_value_and_state(kind: Any) -> None:
    result = run(kind, "x = 41; print('first'); print('line')", "x + 1")
    assert (result.exit_code, result.output, result.output_files) == (0, "first\nline\n\n42", [])


def test_streams_are_joined_in_order(kind: Any) -> None:
    code = "import sys; print('a'); print('b', file=sys.stderr, flush=True); sys.stdout.flush(); print('c'); 'v'"
    parts = run(kind, code).output.split("\n")
    assert parts[-1] == "'v'" and sorted(part for part in parts if part in ("a", "b", "c")) == ["a", "b", "c"]


def test_a_failing_block_ends_the_call_with_its_traceback(kind: Any) -> None:
    result = run(kind, "print('before')", "def f():\n    1 / 0\nf()", "print('never')")
    assert result.exit_code == 1
    assert result.output.startswith("before\n\n") and "never" not in result.output
    assert "\x1b" not in result.output and result.output.endswith("ZeroDivisionError: division by zero")


def test_tracebacks_are_equal() -> None:
    codes = ("def f(n):\n    return 1 / n\n", "f(0)")

    def traceback(kind: Any) -> str:
        # The file's name has the number of the kernel's process.
        output: str = run(kind, *codes).output
        return "\n".join(line for line in output.splitlines() if not line.lstrip().startswith("File "))

    assert traceback(JupyterCodeExecutor) == traceback(AutoGensOwn)


@pytest.mark.parametrize("clear", ["clear_output()", "clear_output(wait=True)"])
def test_cleared_output_is_gone(kind: Any, clear: str, tmp_path: pathlib.Path) -> None:
    code = (
        "from IPython.display import clear_output, display\n"
        f"print('gone'); display({{'image/png': '{PNG}', 'text/plain': 'an image'}}, raw=True)\n"
        f"{clear}; print('kept')"
    )
    result = run(kind, code, output_dir=tmp_path / "out")
    assert (result.output.strip(), result.output_files) == ("kept", [])


def test_images_and_pages_become_files(kind: Any, tmp_path: pathlib.Path) -> None:
    code = (
        "from IPython.display import display\n"
        f"display({{'image/png': '{PNG}', 'text/plain': 'an image'}}, raw=True)\n"
        "display({'text/html': '<b>ü</b>', 'text/plain': 'a page'}, raw=True)\n"
        "display({'application/json': {'k': 1}}, raw=True)\n"
        "display({'image/jpeg': 'aaaa'}, raw=True)"
    )
    result = run(kind, code, output_dir=tmp_path / "out")
    assert sorted(path.suffix for path in result.output_files) == [".html", ".png"]
    assert all(path.parent == tmp_path / "out" for path in result.output_files)
    by_kind = {path.suffix: path for path in result.output_files}
    assert by_kind[".png"].read_bytes().startswith(b"\x89PNG")
    assert by_kind[".html"].read_text() == "<b>ü</b>"
    assert result.output == 'an image\na page\n{"k": 1}'


def test_python3_is_the_callers_interpreter(kind: Any) -> None:
    import sys

    assert run(kind, "import sys; sys.prefix").output == repr(sys.prefix)


def test_timeout_raises(kind: Any) -> None:
    with pytest.raises(asyncio.TimeoutError):
        run(kind, "import time; time.sleep(30)", timeout=1)


def test_timeout_stops_the_code_and_keeps_the_session() -> None:
    async def execute() -> Any:
        async with JupyterCodeExecutor(timeout=1) as executor:
            token = CancellationToken()
            await executor.execute_code_blocks(blocks("x = 7"), token)
            with pytest.raises(asyncio.TimeoutError):
                await executor.execute_code_blocks(blocks("import time; time.sleep(30)"), token)
            return await executor.execute_code_blocks(blocks("x"), token)

    assert asyncio.run(execute()).output == "7"


def test_cancel_raises_and_stops_the_code() -> None:
    async def execute() -> Any:
        async with JupyterCodeExecutor() as executor:
            token = CancellationToken()
            task = asyncio.create_task(
                executor.execute_code_blocks(blocks("import time\nopen('/dev/null')\ntime.sleep(30)"), token)
            )
            await asyncio.sleep(0.3)
            token.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return await executor.execute_code_blocks(blocks("'usable'"), CancellationToken())

    assert asyncio.run(asyncio.wait_for(execute(), 25)).output == "'usable'"


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os._exit(3)", "os._exit(0)"])
def test_death_of_the_kernel_raises(kind: Any, end: str) -> None:
    with pytest.raises(RuntimeError, match="Kernel died"):
        run(kind, f"import os; {end}")


def test_restart_gives_a_fresh_kernel(kind: Any) -> None:
    async def execute() -> Any:
        async with kind() as executor:
            await executor.execute_code_blocks(blocks("x = 1"), CancellationToken())
            await executor.restart()
            return await executor.execute_code_blocks(blocks("'x' in globals()"), CancellationToken())

    assert asyncio.run(execute()).output == "False"


def test_use_before_start_and_bad_options_are_refused(kind: Any) -> None:
    with pytest.raises(ValueError, match=r"Timeout must be greater than or equal to 1\."):
        kind(timeout=0)
    with pytest.raises(RuntimeError, match="must be started"):
        asyncio.run(kind().execute_code_blocks(blocks("1"), CancellationToken()))


def test_unknown_kernel_is_an_error_of_jupyter(kind: Any) -> None:
    from jupyter_client.kernelspec import NoSuchKernel

    with pytest.raises(NoSuchKernel):
        run(kind, "1", kernel_name="no-such-kernel")


def test_component_round_trips_and_is_autogens(tmp_path: pathlib.Path) -> None:
    document = json.loads(AutoGensOwn(timeout=9, output_dir=tmp_path).dump_component().model_dump_json())
    document["provider"] = "cella.autogen.JupyterCodeExecutor"
    loaded = CodeExecutor.load_component(document)
    assert isinstance(loaded, JupyterCodeExecutor)
    assert loaded.dump_component().config == document["config"]


def test_current_directory_as_output_warns(kind: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert kind(output_dir=".").output_dir == pathlib.Path(".")
    assert [warning.category for warning in caught] == [DeprecationWarning]
