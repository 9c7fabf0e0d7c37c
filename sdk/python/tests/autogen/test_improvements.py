"""Cases in which AutoGen's own executor fails and ours do not. Each was seen to fail with AutoGen's."""

from __future__ import annotations

import asyncio
import os
import pathlib

import pytest
from autogen_core import CancellationToken
from lab import Lab, execute


def test_output_that_is_not_utf8_is_decoded(ours: Lab) -> None:
    code = "import sys\nsys.stdout.buffer.write(b'a\\xff\\xfeb\\n')\nsys.stderr.buffer.write(b'\\x80\\n')"
    result = ours.python(code)
    assert (result.exit_code, result.output) == (0, "\ufffd\na\ufffd\ufffdb\n")


def test_code_with_a_lone_surrogate_is_a_syntax_error(ours: Lab) -> None:
    result = ours.python("print('\ud83d')")
    assert result.exit_code == 1 and "SyntaxError" in result.output


def test_equal_code_runs_concurrently(ours: Lab) -> None:
    async def go() -> list[tuple[int, str]]:
        async with ours.make() as executor:
            results = await asyncio.gather(*(execute(executor, ("python", "print('same')")) for _ in range(24)))
            return [(result.exit_code, result.output) for result in results]

    assert asyncio.run(go()) == [(0, "same\n")] * 24
    assert ours.files() == []


def test_two_executors_can_share_a_directory_and_a_file_name(ours: Lab) -> None:
    async def go() -> set[str]:
        async with ours.make() as one, ours.make() as two:
            code = "# filename: shared.py\nimport time\ntime.sleep(0.2)\nprint(open('shared.py').readline())"
            block = ("python", code)
            return {result.output for result in await asyncio.gather(execute(one, block), execute(two, block))}

    assert asyncio.run(go()) == {"# filename: shared.py\n\n"}
    assert ours.files() == []


def test_file_name_creates_its_directories(ours: Lab) -> None:
    result = ours.python("# filename: a/b/c.py\nprint(__file__)", cleanup_temp_files=False)
    assert (result.exit_code, result.output) == (0, f"{ours.seen_dir}/a/b/c.py\n")


@pytest.mark.parametrize("name", [".", "", "sub", "x" * 300, "file.txt/x.py", "nul\0.py", "loop/x.py"])
def test_invalid_file_names_are_refused(ours: Lab, name: str) -> None:
    (ours.work_dir / "sub").mkdir()
    (ours.work_dir / "file.txt").touch()
    (ours.work_dir / "loop").symlink_to("loop")
    before = ours.files()
    result = ours.python(f"# filename: {name}\nprint('ran')")
    assert (result.exit_code, result.output) == (1, "Filename is not in the workspace")
    assert ours.files() == before


def test_files_written_before_a_refused_name_are_removed(ours: Lab) -> None:
    result = ours.run(("python", "print(1)"), ("python", "# filename: /out.py"))
    assert result.exit_code == 1 and ours.files() == []


def test_symlink_left_by_the_code_is_not_written_through(ours: Lab, tmp_path: pathlib.Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    code = "# filename: next.py\nprint('ran')"
    # The code of an earlier call leaves a link where the next call writes its file.
    ours.run(("sh", f"ln -s {victim} next.py; ln -s /nowhere gone.py"))
    for each in (code, code.replace("next", "gone")):
        result = ours.python(each, cleanup_temp_files=False)
        assert (result.exit_code, result.output) in [(0, "ran\n"), (1, "Filename is not in the workspace")]
    assert victim.read_text() == "precious"


def test_fifo_with_the_file_name_does_not_block(ours: Lab) -> None:
    ours.run(("sh", "mkfifo next.py"))
    assert ours.python("# filename: next.py\nprint('ran')", timeout=5).output == "ran\n"


def test_missing_working_directory_is_reported(ours: Lab) -> None:
    executor = ours.make()
    ours.work_dir.rmdir()
    with pytest.raises(FileNotFoundError, match="coding"):
        asyncio.run(execute(executor, ("python", "print(1)")))


def test_standard_input_is_empty(ours: Lab) -> None:
    result = ours.python("print(repr(input()))")
    assert result.exit_code == 1 and "EOFError" in result.output


def test_many_calls_leak_no_descriptor_or_thread(ours: Lab) -> None:
    """No descriptor and no thread more than after the first calls."""

    def held() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

    async def go() -> None:
        async with ours.make() as executor:
            token = CancellationToken()
            for _ in range(3):
                await execute(executor, ("sh", "echo 1"), token=token)
            before = held()
            for _ in range(20):
                await execute(executor, ("sh", "echo 1"), token=token)
            assert held() == before

    asyncio.run(go())


@pytest.mark.parametrize("size", [10_000_000])
def test_large_output_is_complete(ours: Lab, size: int) -> None:
    result = ours.python(f"import sys\nsys.stdout.write('z' * {size})", timeout=60)
    assert result.exit_code == 0 and len(result.output) == size
