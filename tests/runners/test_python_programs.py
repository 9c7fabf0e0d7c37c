"""Programs in forks of the zygote against the bare interpreter: the same output, the same end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from driver import ENVIRONMENT
from python_runner import INTERPRETERS, Zygote, version_of

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.python_programs import PROGRAMS, without_addresses  # noqa: E402


@pytest.fixture(scope="module", params=INTERPRETERS, ids=lambda python: "%d.%d" % version_of(python))
def zygote(request):
    with Zygote(request.param, env=dict(ENVIRONMENT)) as started:
        yield started


def place(program, directory):
    directory.mkdir()
    (directory / "program.py").write_bytes(program.source.encode("utf-8", "surrogateescape"))
    for name, text in program.files.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(text)


def run_bare(python, program, directory):
    text = {"stdin": subprocess.DEVNULL} if program.stdin is None else {"input": program.stdin.encode()}
    command = [python, "program.py", *program.args]
    done = subprocess.run(command, cwd=directory, env=ENVIRONMENT, capture_output=True, timeout=60, **text)
    return done.returncode, done.stdout.decode("utf-8", "backslashreplace"), done.stderr.decode("utf-8", "backslashreplace")


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_prints_and_returns_what_the_interpreter_does(zygote, tmp_path, name):
    program, results = PROGRAMS[name], []
    for start in ("bare", "fork"):
        # At the same path, and without the bytecode of the other one.
        directory = tmp_path / "place"
        place(program, directory)
        if start == "bare":
            result = run_bare(zygote.python, program, directory)
        else:
            status, *output = zygote.run_program(["program.py", *program.args], directory, program.stdin)
            result = (os.waitstatus_to_exitcode(status), *output)
        results.append([result[0], *map(without_addresses, result[1:])])
        os.rename(directory, tmp_path / start)
    assert results[1] == results[0]
