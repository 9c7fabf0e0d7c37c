"""Many concurrent runs."""

import os
import pathlib
import subprocess

import pytest

from support.cella import PYTHON
from support.leftovers import assert_no_process, cgroups_of, mounts, scratch_of

COUNT = 200

# Each has an answer, an exit code and a leftover of its own.
CODE = """
import os, sys, time
number = int(sys.argv[2])
if os.fork() == 0:
    os.setsid()
    time.sleep(60)
open('mine', 'w').write(sys.argv[2])
sys.stdout.write(f"{number * number} {open('mine').read()}\\n")
sys.exit(number % 7)
"""


def start(run, token, number):
    executor = "local" if number % 10 == 0 else "sandbox"
    argv = run.argv("-c", CODE, "--python", PYTHON, "--executor", executor, "--", token, number)
    return subprocess.Popen(
        argv, env=run.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_two_hundred_concurrent_runs_end_as_expected(run, token):
    run.python("pass")  # the interpreter is known from now on
    before = mounts()
    processes = [start(run, token, number) for number in range(COUNT)]
    for number, process in enumerate(processes):
        stdout, stderr = process.communicate(timeout=120)
        assert stdout.decode() == f"{number * number} {number}\n", (number, process.returncode, stderr)
        assert (process.returncode, stderr) == (number % 7, b"")
    pids = [process.pid for process in processes]
    assert_no_process(token)
    assert mounts() == before
    assert cgroups_of(pids) == []
    assert scratch_of(pids) == []
    assert children_of_mine() == []


def children_of_mine():
    """A zombie or a stray child of this test process."""
    return pathlib.Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()


@pytest.mark.parametrize("executor", ["sandbox", "local"])
def test_sequential_runs_leave_nothing(run, token, tmp_path, executor):
    for _ in range(50):
        words = ["-c", "exit 4", "--lang", "sh", "--executor", executor, "--", token]
        assert run(*words, with_env={"TMPDIR": str(tmp_path)}).exit_code == 4
    assert os.listdir(tmp_path) == []
    assert_no_process(token)
