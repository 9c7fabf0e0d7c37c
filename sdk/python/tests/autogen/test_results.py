"""Exit codes and output: what AutoGen's own executor answers, ours answer as well."""

from __future__ import annotations

import asyncio
import sys

import pytest
from autogen_core import CancellationToken
from autogen_core.code_executor import CodeResult
from lab import Lab, execute


def test_what_python_prints(lab: Lab) -> None:
    result = lab.python("print('héllo')")
    assert (result.exit_code, result.output) == (0, "héllo\n")
    assert isinstance(result, CodeResult)


def test_no_block_is_no_failure(lab: Lab) -> None:
    result = lab.run()
    assert (result.exit_code, result.output, result.code_file) == (0, "", None)


def test_empty_code_runs(lab: Lab) -> None:
    result = lab.python("")
    assert (result.exit_code, result.output) == (0, "")


def test_errors_come_before_output(lab: Lab) -> None:
    result = lab.python("import sys\nprint('out', flush=True)\nprint('err', file=sys.stderr)")
    assert (result.exit_code, result.output) == (0, "err\nout\n")


def test_blocks_run_in_order_and_their_output_is_one(lab: Lab) -> None:
    result = lab.run(
        ("python", "open('n', 'w').write('1')\nprint('one')"),
        ("sh", "cat n >&2; echo two"),
        ("python", "print('three')"),
    )
    assert (result.exit_code, result.output) == (0, "one\n1two\nthree\n")


def test_each_block_is_a_process_of_its_own(lab: Lab) -> None:
    result = lab.run(("python", "x = 1"), ("python", "print('x' in globals())"))
    assert result.output == "False\n"


def test_the_first_failing_block_is_the_last(lab: Lab) -> None:
    result = lab.run(("python", "print('a')"), ("sh", "echo b; exit 3"), ("python", "open('late', 'w')"))
    assert (result.exit_code, result.output) == (3, "a\nb\n")
    assert "late" not in lab.files()


def test_an_exception_is_shown_with_its_place(lab: Lab) -> None:
    result = lab.python("def f():\n    1 / 0\nf()")
    assert result.exit_code == 1
    assert result.output.startswith("Traceback (most recent call last):\n"), result.output
    assert "line 2, in f" in result.output and "ZeroDivisionError" in result.output
    assert f'File "{lab.seen_dir}/tmp_code_' in result.output


def test_code_that_does_not_compile(lab: Lab) -> None:
    result = lab.python("if")
    assert result.exit_code == 1 and "SyntaxError" in result.output


@pytest.mark.parametrize("code", [0, 1, 2, 77, 124, 125, 126, 127, 255])
def test_the_exit_code_is_the_programs(lab: Lab, code: int) -> None:
    result = lab.python(f"print('said')\nraise SystemExit({code})")
    assert (result.exit_code, result.output) == (code, "said\n")


@pytest.mark.parametrize("signal", ["SIGSEGV", "SIGKILL", "SIGTERM", "SIGABRT"])
def test_a_signal_is_a_negative_exit_code(lab: Lab, signal: str) -> None:
    number = {"SIGSEGV": 11, "SIGKILL": 9, "SIGTERM": 15, "SIGABRT": 6}[signal]
    code = f"import os, signal\nprint('said', flush=True)\nos.kill(os.getpid(), signal.{signal})"
    result = lab.python(code)
    assert (result.exit_code, result.output) == (-number, "said\n")


def test_the_interpreter_is_the_callers(lab: Lab) -> None:
    result = lab.python("import sys\nprint(sys.version_info[:3], sys.prefix)")
    assert result.output == f"{sys.version_info[:3]} {sys.prefix}\n"


def test_packages_of_the_caller_are_there(lab: Lab) -> None:
    result = lab.python("import pytest\nprint(pytest.__version__)")
    assert (result.exit_code, result.output) == (0, f"{pytest.__version__}\n")


def test_the_working_directory(lab: Lab) -> None:
    (lab.work_dir / "data.txt").write_text("from the host")
    result = lab.python("import os\nprint(os.getcwd(), open('data.txt').read())\nopen('made.txt', 'w').write('guest')")
    assert result.output == f"{lab.seen_dir} from the host\n"
    assert (lab.work_dir / "made.txt").read_text() == "guest"


def test_nothing_but_the_code_itself_is_in_an_empty_directory(lab: Lab) -> None:
    result = lab.python("import os\nprint(os.listdir() == [os.path.basename(__file__)])")
    assert result.output == "True\n"


def test_modules_of_the_working_directory_can_be_imported(lab: Lab) -> None:
    (lab.work_dir / "own_module.py").write_text("answer = 42\n")
    assert lab.python("import own_module\nprint(own_module.answer)").output == "42\n"


def test_the_timeout_is_124(lab: Lab) -> None:
    blocks = ("python", "print('first')"), ("python", "import time\ntime.sleep(60)"), ("sh", "touch late")
    result = lab.run(*blocks, timeout=2)
    assert result.exit_code == 124
    assert result.output.startswith("first\n") and result.output.endswith("\nTimeout"), result.output
    assert result.code_file is not None and lab.files() == []


def test_the_timeout_is_that_of_one_block(lab: Lab) -> None:
    nap = ("python", "import time\ntime.sleep(1.5)\nprint('slept')")
    result = lab.run(nap, nap, timeout=2.5)
    assert (result.exit_code, result.output) == (0, "slept\nslept\n")


def test_a_token_that_was_cancelled_before_runs_nothing(lab: Lab) -> None:
    async def go() -> None:
        async with lab.make() as executor:
            token = CancellationToken()
            token.cancel()
            result = await execute(executor, ("python", "open('late', 'w')"), token=token)
            assert (result.exit_code, result.output) == (125, "\nCancelled")

    asyncio.run(go())
    assert lab.files() == []


def test_one_executor_runs_several_calls_at_once(lab: Lab) -> None:
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


def test_an_executor_outlives_an_event_loop(lab: Lab) -> None:
    executor = lab.make()
    for number in range(3):
        assert asyncio.run(execute(executor, ("python", f"print({number})"))).output == f"{number}\n"
    asyncio.run(executor.stop())


def test_a_megabyte_of_output(lab: Lab) -> None:
    result = lab.python("print(('y' * 99 + '\\n') * 20_000, end='')", timeout=30)
    assert result.exit_code == 0 and len(result.output) == 2_000_000
