"""Exit codes and output: what AutoGen's own executor answers, ours answer as well."""

from __future__ import annotations

import asyncio
import sys

import pytest
from autogen_core import CancellationToken
from autogen_core.code_executor import CodeResult
from lab import Lab, execute


def test_output_of_python_is_returned(lab: Lab) -> None:
    result = lab.python("print('héllo')")
    assert (result.exit_code, result.output) == (0, "héllo\n")
    assert isinstance(result, CodeResult)


def test_empty_list_of_blocks_succeeds(lab: Lab) -> None:
    result = lab.run()
    assert (result.exit_code, result.output, result.code_file) == (0, "", None)


def test_empty_code_runs(lab: Lab) -> None:
    result = lab.python("")
    assert (result.exit_code, result.output) == (0, "")


def test_stderr_precedes_stdout(lab: Lab) -> None:
    result = lab.python("import sys\nprint('out', flush=True)\nprint('err', file=sys.stderr)")
    assert (result.exit_code, result.output) == (0, "err\nout\n")


def test_blocks_run_in_order_with_joined_output(lab: Lab) -> None:
    result = lab.run(
        ("python", "open('n', 'w').write('1')\nprint('one')"),
        ("sh", "cat n >&2; echo two"),
        ("python", "print('three')"),
    )
    assert (result.exit_code, result.output) == (0, "one\n1two\nthree\n")


def test_each_block_is_a_new_process(lab: Lab) -> None:
    result = lab.run(("python", "x = 1"), ("python", "print('x' in globals())"))
    assert result.output == "False\n"


def test_failing_block_prevents_the_following_ones(lab: Lab) -> None:
    result = lab.run(("python", "print('a')"), ("sh", "echo b; exit 3"), ("python", "open('late', 'w')"))
    assert (result.exit_code, result.output) == (3, "a\nb\n")
    assert "late" not in lab.files()


def test_traceback_names_file_and_line(lab: Lab) -> None:
    result = lab.python("def f():\n    1 / 0\nf()")
    assert result.exit_code == 1
    assert result.output.startswith("Traceback (most recent call last):\n"), result.output
    assert "line 2, in f" in result.output and "ZeroDivisionError" in result.output
    assert f'File "{lab.seen_dir}/tmp_code_' in result.output


def test_code_that_does_not_compile_is_an_error(lab: Lab) -> None:
    result = lab.python("if")
    assert result.exit_code == 1 and "SyntaxError" in result.output


@pytest.mark.parametrize("code", [0, 1, 2, 77, 124, 125, 126, 127, 255])
def test_program_exit_code_is_returned(lab: Lab, code: int) -> None:
    result = lab.python(f"print('said')\nraise SystemExit({code})")
    assert (result.exit_code, result.output) == (code, "said\n")


@pytest.mark.parametrize("signal", ["SIGSEGV", "SIGKILL", "SIGTERM", "SIGABRT"])
def test_a_signal_is_a_negative_exit_code(lab: Lab, signal: str) -> None:
    number = {"SIGSEGV": 11, "SIGKILL": 9, "SIGTERM": 15, "SIGABRT": 6}[signal]
    code = f"import os, signal\nprint('said', flush=True)\nos.kill(os.getpid(), signal.{signal})"
    result = lab.python(code)
    assert (result.exit_code, result.output) == (-number, "said\n")


def test_interpreter_is_the_callers(lab: Lab) -> None:
    result = lab.python("import sys\nprint(sys.version_info[:3], sys.prefix)")
    assert result.output == f"{sys.version_info[:3]} {sys.prefix}\n"


def test_packages_of_the_caller_are_importable(lab: Lab) -> None:
    result = lab.python("import pytest\nprint(pytest.__version__)")
    assert (result.exit_code, result.output) == (0, f"{pytest.__version__}\n")


def test_code_runs_in_the_working_directory(lab: Lab) -> None:
    (lab.work_dir / "data.txt").write_text("from the host")
    result = lab.python("import os\nprint(os.getcwd(), open('data.txt').read())\nopen('made.txt', 'w').write('guest')")
    assert result.output == f"{lab.seen_dir} from the host\n"
    assert (lab.work_dir / "made.txt").read_text() == "guest"


def test_new_working_directory_contains_only_the_code_file(lab: Lab) -> None:
    result = lab.python("import os\nprint(os.listdir() == [os.path.basename(__file__)])")
    assert result.output == "True\n"


def test_modules_of_the_working_directory_can_be_imported(lab: Lab) -> None:
    (lab.work_dir / "own_module.py").write_text("answer = 42\n")
    assert lab.python("import own_module\nprint(own_module.answer)").output == "42\n"


def test_timeout_exits_124(lab: Lab) -> None:
    blocks = ("python", "print('first')"), ("python", "import time\ntime.sleep(60)"), ("sh", "touch late")
    result = lab.run(*blocks, timeout=2)
    assert result.exit_code == 124
    assert result.output.startswith("first\n") and result.output.endswith("\nTimeout"), result.output
    assert result.code_file is not None and lab.files() == []


def test_timeout_applies_to_each_block(lab: Lab) -> None:
    nap = ("python", "import time\ntime.sleep(1.5)\nprint('slept')")
    result = lab.run(nap, nap, timeout=2.5)
    assert (result.exit_code, result.output) == (0, "slept\nslept\n")


def test_cancelled_token_runs_nothing(lab: Lab) -> None:
    async def go() -> None:
        async with lab.make() as executor:
            token = CancellationToken()
            token.cancel()
            result = await execute(executor, ("python", "open('late', 'w')"), token=token)
            assert (result.exit_code, result.output) == (125, "\nCancelled")

    asyncio.run(go())
    assert lab.files() == []


def test_executor_runs_concurrent_calls(lab: Lab) -> None:
    # Each waits for the other, so that one after the other would time out.
    code = """
import os, sys, time
mine, other = {names}
open(mine, 'w')
while not os.path.exists(other):
    time.sleep(0.01)
print(mine)
"""

    async def go() -> list[str]:
        async with lab.make(timeout=10) as executor:
            calls = [execute(executor, ("python", code.format(names=names))) for names in (("a", "b"), ("b", "a"))]
            return [result.output for result in await asyncio.gather(*calls)]

    assert asyncio.run(go()) == ["a\n", "b\n"]


def test_executor_works_in_a_second_event_loop(lab: Lab) -> None:
    executor = lab.make()
    for number in range(3):
        assert asyncio.run(execute(executor, ("python", f"print({number})"))).output == f"{number}\n"
    asyncio.run(executor.stop())


def test_megabyte_of_output_is_complete(lab: Lab) -> None:
    result = lab.python("print(('y' * 99 + '\\n') * 20_000, end='')", timeout=30)
    assert result.exit_code == 0 and len(result.output) == 2_000_000
