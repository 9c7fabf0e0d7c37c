"""kill -9 of cella at any moment leaves no process, mount, cgroup or directory (or the next start removes it)."""

import contextlib
import os
import random
import signal
import time

import pytest
from support.cella import PYTHON
from support.leftovers import assert_no_process, cgroups_of, mounts, processes_with, scratch_of
from support.running import HAS_CGROUPS, wait_until

pytestmark = pytest.mark.as_user

EXECUTORS = pytest.mark.parametrize("executor", ["sandbox", "local"])

FAMILY = """
import os, signal, sys, time
for n in range(3):
    if os.fork() == 0:
        os.setsid()
        for number in (1, 2, 15): signal.signal(number, signal.SIG_IGN)
        if os.fork() == 0: time.sleep(60)
        time.sleep(60)
sys.stdout.write('ready\\n')
time.sleep(60)
"""
WRITER = "import os\nos.write(1, b'ready\\n')\nwhile True: os.write(1, b'x' * 65536)"
SPINNER = "import os\nos.write(1, b'ready\\n')\nwhile True: pass"


def assert_nothing_stays(run, token, pid, before, temporary):
    assert_no_process(token)
    assert mounts() == before
    # The next start sweeps what the dead one could not.
    assert run.shell("true", "--executor", "local", with_env={"TMPDIR": str(temporary)})["status"] == "ok"
    assert cgroups_of([pid]) == []
    assert scratch_of([pid], temporary) == []


@EXECUTORS
@pytest.mark.parametrize("code", [FAMILY, WRITER, SPINNER], ids=["family", "writer", "spinner"])
def test_kill_during_a_run_leaves_nothing(run, token, tmp_path, code, executor):
    before = mounts()
    words = ["-c", code, "--python", PYTHON, "--executor", executor, "--", token]
    with run.started(*words, with_env={"TMPDIR": str(tmp_path)}) as process:
        process.wait_for(b"ready")
        assert len(processes_with(token)) >= 2
        if HAS_CGROUPS:
            assert cgroups_of([process.pid]), "the test looks in the wrong place"
        assert bool(scratch_of([process.pid], tmp_path)) == (executor == "local")
        process.send(signal.SIGKILL)
        process.finish(5)
        assert_nothing_stays(run, token, process.pid, before, tmp_path)


@EXECUTORS
def test_kill_during_start_leaves_nothing(run, token, tmp_path, executor):
    """From before it has done anything until the program runs, in many small steps."""
    before = mounts()
    chance = random.Random(4)
    pids = []
    for step in range(40):
        words = ["-c", FAMILY, "--python", PYTHON, "--executor", executor, "--", token]
        with run.started(*words, with_env={"TMPDIR": str(tmp_path)}) as process:
            time.sleep(step * 0.0015 + chance.random() * 0.0015)
            process.send(signal.SIGKILL)
            process.finish(5)
            pids.append(process.pid)
    assert_no_process(token)
    assert mounts() == before
    assert run.shell("true", "--executor", "local", with_env={"TMPDIR": str(tmp_path)})["status"] == "ok"
    assert cgroups_of(pids) == []
    assert os.listdir(tmp_path) == []


@EXECUTORS
def test_kill_while_waiting_for_a_reader_leaves_nothing(run, token, tmp_path, executor):
    before = mounts()
    words = ["-c", WRITER, "--python", PYTHON, "--executor", executor, "--", token]
    with run.started(*words, with_env={"TMPDIR": str(tmp_path)}, collect=False) as process:
        assert wait_until(lambda: len(processes_with(token)) >= 2)
        time.sleep(0.2)
        process.send(signal.SIGKILL)
        assert wait_until(lambda: process.process.poll() is not None, 5)
        assert_nothing_stays(run, token, process.pid, before, tmp_path)


@EXECUTORS
def test_kill_during_shutdown_leaves_nothing(run, token, tmp_path, executor):
    """At the time-out, between the polite signal and the last one."""
    code = FAMILY.replace("sys.stdout", "signal.signal(2, lambda *_: os.write(1, b'told\\n'))\nsys.stdout")
    words = ["-c", code, "--python", PYTHON, "--executor", executor, "--timeout", "2s", "--", token]
    before = mounts()
    with run.started(*words, with_env={"TMPDIR": str(tmp_path)}) as process:
        process.wait_for(b"told")
        process.send(signal.SIGKILL)
        process.finish(5)
        assert_nothing_stays(run, token, process.pid, before, tmp_path)


def test_kill_with_a_workdir_leaves_nothing(run, token, tmp_path):
    """The mount of --workdir is private to the jail, and what the guest wrote is there."""
    work, temporary = tmp_path / "work", tmp_path / "tmp"
    work.mkdir()
    temporary.mkdir()
    before = mounts()
    code = "open('made', 'w').write('x')\n" + FAMILY
    with run.started("-c", code, "--python", PYTHON, "--workdir", work, "--", token) as process:
        process.wait_for(b"ready")
        process.send(signal.SIGKILL)
        process.finish(5)
        assert_nothing_stays(run, token, process.pid, before, temporary)
    assert (work / "made").read_text() == "x"


def test_killed_init_ends_the_guest_and_is_reported(run, token, tmp_path):
    """A helper process is killed instead of cella: the guest ends, and cella reports how."""
    code = FAMILY.replace("sys.stdout.write('ready\\n')", "sys.stdout.write('ready\\n'); open('ready', 'w').close()")
    with run.started("--json", "-c", code, "--python", PYTHON, "--workdir", tmp_path, "--", token) as process:
        assert wait_until((tmp_path / "ready").exists)
        for helper in open(f"/proc/{process.pid}/task/{process.pid}/children").read().split():
            with contextlib.suppress(ProcessLookupError):  # one may have gone with the one before
                os.kill(int(helper), signal.SIGKILL)
        finished = process.finish(5)
    result = finished.result()
    assert finished.exit_code == result["exit_code"] == 137
    assert (result["status"], result["signal"], result["stdout"]) == ("crashed", 9, "ready\n")
    assert_no_process(token)


def test_terminated_session_leaves_nothing(run, token, tmp_path):
    """SIGKILL for the whole process group, as a service manager does it in the end."""
    before = mounts()
    for executor in ("sandbox", "local"):
        words = ["-c", FAMILY, "--python", PYTHON, "--executor", executor, "--", token]
        with run.started(*words, with_env={"TMPDIR": str(tmp_path)}) as process:
            process.wait_for(b"ready")
            process.send_group(signal.SIGKILL)
            process.finish(5)
            assert_nothing_stays(run, token, process.pid, before, tmp_path)
