"""Identity and resources of a guest, seen from outside, and the cleanup of what it leaves behind."""

import contextlib
import ctypes
import os
import pathlib
import secrets
import signal
import subprocess

import pytest
from support.cella import PYTHON
from support.leftovers import assert_no_process, processes_with
from support.running import wait_until
from support.victims import Scene
from test_guests import bundle

pytestmark = pytest.mark.as_user

LONG = 5.0


@pytest.fixture
def scene():
    with Scene() as scene:
        yield scene


def test_a_daemon_ends_with_the_run(cella, scene):
    source = scene.directory / "daemon.py"
    source.write_text(bundle("daemon"))

    outside = f"cella-daemon-{secrets.token_hex(8)}"
    subprocess.run([PYTHON, source, outside], check=True, env=scene.env, stdout=subprocess.DEVNULL)
    assert wait_until(lambda: len(processes_with(outside)) == 1), "the daemon does not outlive its parent even outside"
    for pid in processes_with(outside):
        os.kill(pid, signal.SIGKILL)

    inside = f"cella-daemon-{secrets.token_hex(8)}"
    finished = cella.run_python(source, inside, env=scene.env)
    assert "RESULT: ok" in finished.result()["stdout"], finished.describe()
    # cella itself had the marker among its arguments, and is gone: whatever has it now escaped.
    assert processes_with(inside) == {}


@contextlib.contextmanager
def sleeping_guest(cella, scene):
    """A run that lasts. Yields the marker in its arguments and the pids of all its processes but cella itself."""
    marker = f"cella-guest-{secrets.token_hex(8)}"
    code = "import time; print('begun', flush=True); time.sleep(60)"
    process = subprocess.Popen(
        [cella.binary, "run", "-c", code, "--python", PYTHON, "--", marker],
        env=scene.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        # What builds the jail has the marker too, and is trusted: only from the guest's first word on is it a guest.
        assert process.stdout.readline() == b"begun\n", "the guest did not start"
        pids = set(processes_with(marker)) - {process.pid}
        assert pids, "no process has the marker"
        yield marker, pids
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_guest_is_never_root_of_the_host(cella, scene):
    with sleeping_guest(cella, scene) as (_, pids):
        for pid in pids:
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            uids = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1:]
            gids = next(line for line in status.splitlines() if line.startswith("Gid:")).split()[1:]
            assert "0" not in uids + gids, f"process {pid} of the guest has host ids {uids} {gids}"


def use_up_inotify(argv, scene):
    """Runs a program that takes all inotify instances that it gets, and meanwhile wants one for itself."""
    process = subprocess.Popen(argv, env=scene.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        taken = int(process.stdout.readline())
        fd = ctypes.CDLL(None).inotify_init1(os.O_CLOEXEC)
        if fd >= 0:
            os.close(fd)
        return taken, fd >= 0
    finally:
        process.stdin.close()
        process.wait(timeout=LONG)
        process.stdout.close()


def test_a_guest_does_not_use_up_the_callers_inotify_instances(cella, scene):
    """Counted per user, and by default there are 128: a caller without any cannot start a file watcher or a bus."""
    source = scene.directory / "guest.py"
    source.write_text(
        "import ctypes, sys\n"
        "taken = 0\n"
        "while ctypes.CDLL(None).inotify_init1(0) >= 0:\n"
        "    taken += 1\n"
        "print(taken, flush=True)\n"
        "sys.stdin.read()\n"
    )
    # For root the control would hit the machine's own services.
    if os.geteuid() != 0:
        taken, left = use_up_inotify([PYTHON, source], scene)
        assert taken > 0 and not left, "there are enough for every session"
    taken, left = use_up_inotify([cella.binary, "run", source, "--lang", "python", "--python", PYTHON], scene)
    assert left, f"the guest took {taken} instances, and the caller has none left"


def test_killing_the_supervisor_kills_the_guest(cella, scene):
    with sleeping_guest(cella, scene) as (marker, _):
        pass
    assert_no_process(marker)


def test_workspace_with_protected_directories_is_removed(cella, scene):
    """Directories without permissions, and a tree deeper than any path may be long."""
    temporary = scene.directory / "tmp"
    temporary.mkdir()
    source = scene.directory / "guest.py"
    source.write_text(
        "import os\n"
        "for depth in range(400):\n"
        "    os.mkdir('d' * 200)\n"
        "    os.chdir('d' * 200)\n"
        "open('file', 'w').close()\n"
        "os.chdir('/workspace')\n"
        "os.mkdir('locked')\n"
        "open('locked/file', 'w').close()\n"
        "os.chmod('locked', 0)\n"
    )
    finished = cella.run_python(source, env={**scene.env, "TMPDIR": str(temporary)})
    assert finished.result()["exit_code"] == 0, finished.describe()
    assert list(temporary.iterdir()) == []
