"""What a guest leaves behind ends with its run."""

import os
import pathlib
import secrets
import signal
import subprocess
import time

import pytest
from support.cella import PYTHON
from support.victims import Scene
from test_guests import bundle

LONG = 5.0


@pytest.fixture
def scene():
    with Scene() as scene:
        yield scene


def processes_with(marker):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if marker.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def wait_until(condition):
    deadline = time.monotonic() + LONG
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


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
    assert processes_with(inside) == []


def test_killing_the_supervisor_kills_the_guest(cella, scene):
    marker = f"cella-orphan-{secrets.token_hex(8)}"
    process = subprocess.Popen(
        [cella.binary, "run", "-c", "import time; time.sleep(60)", "--python", PYTHON, "--", marker],
        env=scene.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        guests = wait_until(lambda: len(set(processes_with(marker)) - {process.pid}) >= 1)
        assert guests, "the guest did not start"
    finally:
        process.kill()
        process.wait()
    assert wait_until(lambda: processes_with(marker) == []), f"still alive: {processes_with(marker)}"


def test_an_unremovable_workspace_is_removed(cella, scene):
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
