"""Containers of Podman, root's and rootless: what runs, and that every limit holds, by whichever side enforces it."""

import os
import signal

import pytest
from support.engine import Engine
from support.needs import require
from support.running import wait_until

pytestmark = pytest.mark.needs("podman")


@pytest.fixture(scope="module", params=["PODMAN_ROOT", "PODMAN_USER"])
def engine(request):
    settings = require("podman")
    made = Engine({"DOCKER_HOST": settings[request.param], "CELLA_TEST_IMAGE": settings["PODMAN_IMAGE"]})
    made.is_rootless = request.param == "PODMAN_USER"
    return made


@pytest.fixture
def words(engine):
    return ["--executor", "container", "--image", engine.image, "--engine", engine.host]


@pytest.fixture
def contain(run, engine, words):
    """Runs code in a container; none may stay."""
    before = {one["Id"] for one in engine.containers()}
    yield lambda code, *flags, **options: run.json("-c", code, *words, *flags, **options)
    left = lambda: {one["Id"] for one in engine.containers()} - before
    assert wait_until(lambda: not left()), left()


def test_program_runs_with_input_files_and_both_streams(contain, tmp_path):
    (tmp_path / "in").write_text("given")
    code = """
import sys
print(open('in').read(), input())
print('problem', file=sys.stderr)
open('out', 'w').write('made')
"""
    result = contain(code, "--file", tmp_path / "in", "--out", tmp_path / "files", input=b"a line\n")
    assert (result["status"], result["stdout"], result["stderr"]) == ("ok", "given a line\n", "problem\n"), result
    assert (tmp_path / "files" / "out").read_text() == "made"


def test_guest_has_no_rights_no_network_and_a_read_only_root(contain, engine):
    code = """
import os, socket
status = dict(line.split(':\\t') for line in open('/proc/self/status').read().splitlines() if ':\\t' in line)
print(int(status['CapEff'], 16), int(status['CapBnd'], 16), status['NoNewPrivs'], status['Seccomp'])
print(os.getuid(), sorted(os.listdir('/sys/class/net')))
for path in ('/etc/x', '/run/x'):
    try:
        open(path, 'w')
        print('written', path)
    except OSError as error:
        print(error.strerror)
try:
    socket.create_connection(('192.0.2.1', 80), 2)
except OSError as error:
    print(error.strerror)
"""
    lines = contain(code)["stdout"].splitlines()
    assert lines[0] == "0 0 1 2", lines
    user, network = lines[1].split(" ", 1)
    # User 0 of a rootless engine is its ordinary user.
    assert (user == "0") is engine.is_rootless and network == "['lo']", lines
    assert "Network is unreachable" in lines and lines[2] == "Read-only file system", lines


def test_limits_hold_by_the_engine_or_by_the_agent(contain, engine):
    result = contain("x = bytearray(10**9); print('never')", "--memory", "96m")
    by = result["isolation"]["limits"]["memory"]["by"]
    assert by == ("rlimit+watchdog" if engine.is_rootless and "cgroup" not in by else "cgroup")
    assert result["stdout"] == "" and result["status"] in ("oom", "error"), result
    # The agent holds the limit where the engine does not: it kills everything, so the code forks a bounded number of times.
    code = """
import os, time
made = 0
try:
    for _ in range(64):
        if os.fork() == 0:
            time.sleep(10)
            os._exit(0)
        made += 1
    time.sleep(10)
    print('never')
except OSError as error:
    print(error.strerror, made <= 20)
    os.kill(-1, 9)
"""
    result = contain(code, "--pids", "20", "--timeout", "20s")
    assert "never" not in result["stdout"] and "False" not in result["stdout"], result
    assert result["status"] != "ok" and result["usage"]["wall_ms"] < 9_000, result
    code = "f = open('/tmp/f', 'wb')\nfor _ in range(40): f.write(b'x' * 2**20); f.flush()\nprint('never')"
    assert "never" not in contain(code, "--disk", "8m")["stdout"]


def test_share_of_processors_is_enforced_or_refused_by_name(run, engine, words):
    result = run.json("-c", "print(1)", *words, "--cpus", "0.5")
    if result["status"] == "rejected":
        assert engine.is_rootless and "'cpus'" in result["error"]["message"], result
        result = run.json("-c", "print(1)", *words, "--cpus", "0.5", "--best-effort")
        assert result["isolation"]["unenforced"] == ["cpus"], result
    assert result["stdout"] == "1\n", result


def test_timeout_kills_code_that_ignores_signals(contain):
    code = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('before', flush=True)\ntime.sleep(60)"
    result = contain(code, "--timeout", "1s")
    assert (result["status"], result["stdout"]) == ("timeout", "before\n"), result


def test_session_keeps_state_and_leaves_nothing(open_session, engine, words):
    session = open_session(*words, python=None)
    session.run("x = 6")
    assert session.value("x * 7") == "42"
    assert session.run("1 / 0")["error"]["name"] == "ZeroDivisionError"
    assert session.run("echo $((6 * 7))", language="bash")["stdout"] == "42\n"


def test_killed_supervisor_leaves_no_container(run, engine, words):
    name = f"cella-test-podman-{os.getpid()}"
    command = ["-c", "import time; print('on', flush=True); time.sleep(600)", *words, "--container-name", name]
    with run.started(*command) as process:
        process.wait_for(b"on")
        assert engine.exists(name)
        process.send(signal.SIGKILL)
        process.finish()
    assert wait_until(lambda: not engine.exists(name), 60)


def test_missing_image_is_named(run, words, engine):
    image = "docker.io/cella-test/none:9"
    flags = [image if word == engine.image else word for word in words]
    assert "cella-test/none:9" in run.rejected("-c", "1", *flags, "--pull", "never", code=127)
