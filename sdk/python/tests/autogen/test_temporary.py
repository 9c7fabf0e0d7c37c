"""The temporary working directory goes away, whatever the code has made of it."""

from __future__ import annotations

import asyncio
import os
import pathlib

import pytest
from lab import Lab, execute

MESS = {
    "nothing": "pass",
    "files and directories": "import os\nos.makedirs('a/b/c')\nopen('a/b/c/d', 'w')\nos.mkfifo('a/f')",
    "permissions taken away": "import os\nos.makedirs('a/b/c')\nfor each in ('a/b/c', 'a/b', 'a'): os.chmod(each, 0)",
    "a very deep tree": "import os\nfor _ in range(3000):\n    os.mkdir('x')\n    os.chdir('x')",
    "many files": "for n in range(3000): open(str(n), 'w')",
    "names that are no text": "open(b'\\xff\\xfe', 'w')\nimport os\nos.mkdir(b'\\x80')",
}


@pytest.mark.parametrize("mess", MESS)
def test_temporary_directory_is_removed_whatever_the_code_made(ours: Lab, mess: str) -> None:
    async def go() -> pathlib.Path:
        async with ours.make(work_dir=None) as executor:
            result = await execute(executor, ("python", MESS[mess]))
            assert result.exit_code == 0, result.output
            directory: pathlib.Path = executor.work_dir
            return directory

    assert not asyncio.run(go()).exists()


def test_targets_of_symlinks_are_kept(ours: Lab, tmp_path: pathlib.Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    victim.chmod(0o755)
    (victim / "file").write_text("precious")
    code = f"import os\nos.symlink('{victim}', 'to_directory')\nos.symlink('{victim}/file', 'to_file')\nos.mkdir('d')\n"
    code += f"os.symlink('{victim}', 'd/below')\nos.chmod('d', 0)"

    async def go() -> pathlib.Path:
        async with ours.make(work_dir=None) as executor:
            assert (await execute(executor, ("python", code))).exit_code == 0
            directory: pathlib.Path = executor.work_dir
            return directory

    assert not asyncio.run(go()).exists()
    assert (victim / "file").read_text() == "precious"
    assert os.stat(victim).st_mode & 0o777 == 0o755


def test_temporary_directory_is_removed_with_an_unstopped_executor(ours: Lab) -> None:
    executor = ours.make(work_dir=None)
    directory = executor.work_dir
    assert directory.is_dir()
    del executor
    assert not directory.exists()
