"""Hostile guests. Each run ends with its main process or at a limit. All processes of the guest end with it, and
the output is kept."""

import time

import pytest
from support.leftovers import assert_no_process, processes_with
from support.running import HAS_CGROUPS, IS_ROOT, wait_until

pytestmark = pytest.mark.as_user

EXECUTORS = pytest.mark.parametrize("executor", ["sandbox", "local"])

# Say "main ends" and end; what they started would go on for a minute.
LEAVES_BEHIND = {
    "a child": "if os.fork() == 0: time.sleep(60)",
    "a child that holds the output": "if os.fork() == 0:\n    time.sleep(60)\n    os.write(1, b'late')",
    "a daemon": """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.chdir('/')
        time.sleep(60)
    os._exit(0)
time.sleep(0.1)
""",
    "a daemon that closed everything": """
if os.fork() == 0:
    os.setsid()
    os.closerange(0, 100)
    if os.fork() == 0: time.sleep(60)
    os._exit(0)
time.sleep(0.1)
""",
    "a stopped child": """
if os.fork() == 0:
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(60)
time.sleep(0.1)
""",
    "a child that ignores signals": """
if os.fork() == 0:
    for number in (1, 2, 3, 15): signal.signal(number, signal.SIG_IGN)
    time.sleep(60)
""",
    "another program": "subprocess.Popen(['sleep', '300.' + sys.argv[1]])",
    "many children": "for n in range(50):\n    if os.fork() == 0:\n        time.sleep(60)\n        os._exit(0)",
    "a chain of forks": """
while True:
    # Each lives for a moment and hands on to the next: a search finds a process that is already gone.
    if os.fork() == 0:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if os.fork() != 0: os._exit(0)
    break
time.sleep(0.1)
""",
    "threads": "import threading\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
}


@EXECUTORS
@pytest.mark.parametrize("kind", LEAVES_BEHIND)
def test_background_processes_end_with_the_main_process(run, token, kind, executor):
    code = (
        "import os, signal, subprocess, sys, time\n"
        + LEAVES_BEHIND[kind]
        + "\nos.write(1, b'main ends\\n')\nos._exit(3)"
    )
    started = time.monotonic()
    result = run.python(code, "--executor", executor, "--timeout", "20s", args=[token], timeout=25)
    assert (result["status"], result["exit_code"]) == ("error", 3), result
    assert result["stdout"] == "main ends\n"
    assert time.monotonic() - started < 15
    assert_no_process(token)


# Never end by themselves, and never let go.
CLINGS = {
    "a fork bomb": "while True:\n    try: os.fork()\n    except OSError: pass",
    "a fork bomb of a shell": "os.execvp('bash', ['bash', '-c', ':() { : | : & }; :; sleep 60', sys.argv[1]])",
    "forks that outrun a killer": """
for n in range(8):
    if os.fork() == 0:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True:
            try:
                if os.fork() != 0: os._exit(0)
            except OSError: pass
while True: time.sleep(1)
""",
    "a family of daemons": """
for n in range(10):
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True: time.sleep(1)
while True: time.sleep(1)
""",
    "a pipe without a reader": "r, w = os.pipe()\nwhile True: os.write(w, b'x' * 65536)",
    "a stopped family": """
for n in range(5):
    if os.fork() == 0: os.kill(os.getpid(), signal.SIGSTOP)
os.kill(os.getpid(), signal.SIGSTOP)
""",
    "a traced child": """
import ctypes
pid = os.fork()
if pid == 0:
    ctypes.CDLL(None).ptrace(0, 0, 0, 0)
    os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(60)
""",
    "a zombie farm": """
while True:
    try:
        if os.fork() == 0: os._exit(0)
    except OSError: time.sleep(0.01)
""",
}


@pytest.mark.alone  # without cgroups a busy machine lets a fork bomb outrun its killer
@EXECUTORS
@pytest.mark.parametrize("kind", CLINGS)
def test_process_ignoring_sigterm_is_killed_at_the_limit(run, token, kind, executor):
    code = "import os, signal, sys, time\nos.write(1, b'before\\n')\n" + CLINGS[kind]
    # Should the limit not hold, the bomb still stays small: an ordinary user's rlimit is the second line.
    bounded = ["/bin/bash", "-c", 'ulimit -u 1500; exec "$@"', "bash"] if not IS_ROOT else ["/usr/bin/env"]
    result = run.python(
        code,
        "--executor",
        executor,
        "--timeout",
        "1s",
        "--pids",
        "100",
        "--memory",
        "512m",
        args=[token],
        through=bounded,
        timeout=25,
    )
    if executor == "local" and not HAS_CGROUPS and ("fork" in kind or "zombie" in kind):
        # There the watchdog counts processes, and ends the run over them.
        assert result["status"] in ("limit", "timeout"), result
    else:
        assert (result["status"], result["exit_code"]) == ("timeout", 124), result
    assert result["stdout"].startswith("before\n")
    assert result["usage"]["wall_ms"] < 15000
    assert_no_process(token)


# Ten families of daemons. Each process lives for a moment in a session of its own, hands on to the next, and leaves a
# byte: a look at /proc may find only those that are gone already.
DAEMONS = """
import os, signal, sys, time
for n in range(10):
    if os.fork() == 0:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.setsid()
        end = time.monotonic() + 30
        while time.monotonic() < end:
            with open(sys.argv[1], "ab") as file: file.write(b"x")
            time.sleep(0.01)
            if os.fork() != 0: os._exit(0)
            os.setsid()
        os._exit(0)
while os.path.getsize(sys.argv[1]) < 50: time.sleep(0.01)
os.write(1, b"before\\n")
"""
ENDINGS_OF_DAEMONS = {
    "with the main process": ("", ("ok", 0)),
    "at the limit": ("time.sleep(60)", ("timeout", 124)),
    # Without a jail init is a process like any other. Killed before its descendants it would set them free.
    "with a stopped init": ("os.kill(os.getppid(), signal.SIGSTOP); time.sleep(60)", ("timeout", 124)),
}


@pytest.mark.parametrize("ending", ENDINGS_OF_DAEMONS)
def test_daemons_that_change_their_session_end_with_the_run(run, tmp_path, ending):
    beats = tmp_path / "beats"
    beats.touch()
    code, end = ENDINGS_OF_DAEMONS[ending]
    result = run.python(DAEMONS + code, "--executor", "local", "--timeout", "2s", args=[beats], timeout=28)
    assert (result["status"], result["exit_code"], result["stdout"]) == (*end, "before\n"), result
    last = beats.stat().st_size
    assert not wait_until(lambda: beats.stat().st_size != last, 1)


BOMB_OF_SESSIONS = """
import os, signal, time
end = time.monotonic() + 30
for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)
while time.monotonic() < end:
    try:
        if os.fork() == 0: os.setsid()
    except OSError:
        time.sleep(0.001)
"""


@pytest.mark.alone
def test_fork_bomb_whose_children_each_open_a_session_ends_with_the_run(run, token):
    # Without cgroups a breach of `pids` would end it early; the user's own limit bounds it until the timeout.
    pids, through = (200, []) if HAS_CGROUPS else (5000, ["prlimit", "--nproc=200"])
    flags = ["--executor", "local", "--timeout", "2s", "--pids", pids, "--memory", "4g"]
    result = run.python(BOMB_OF_SESSIONS, *flags, args=[token], through=through, timeout=60)
    assert (result["status"], result["exit_code"]) in (("timeout", 124), ("limit", 137)), result
    assert_no_process(token, 2)


def test_forking_memory_hog_ends_at_the_memory_limit(run, token):
    code = """
import os, sys
os.write(1, b'before\\n')
for n in range(20):
    if os.fork() == 0: break
data = []
while True: data.append(os.urandom(1 << 20))
"""
    result = run.python(code, "--memory", "100m", "--timeout", "15s", args=[token])
    if HAS_CGROUPS:
        # The kernel may choose any of them; the main process goes on until it is chosen.
        assert (result["status"], result["exit_code"]) == ("oom", 137), result
    else:
        assert result["status"] in ("oom", "error"), result
        assert result["status"] == "oom" or "MemoryError" in result["stderr"]
    assert result["stdout"] == "before\n"
    assert_no_process(token)


def test_output_is_complete_when_both_pipes_are_full_and_one_is_read_late(run):
    code = """
import os, threading
def fill(fd):
    for n in range(64): os.write(fd, bytes([65 + fd]) * 65536)
threads = [threading.Thread(target=fill, args=(fd,)) for fd in (1, 2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    result = run.python(code, "--output-limit", "8m")
    assert result["status"] == "ok", result["status"]
    assert result["stdout"] == "B" * (64 * 65536) and result["stderr"] == "C" * (64 * 65536)


def test_signals_to_init_and_all_processes_do_not_prevent_the_timeout(run, token):
    """Not by signals to everything it sees, init among it."""
    code = """
import os, signal, time
os.write(1, b'before\\n')
for number in (signal.SIGSTOP, signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
    for pid in (1, -1):
        try: os.kill(pid, number)
        except OSError: pass
time.sleep(60)
"""
    result = run.python(code, "--timeout", "1s", args=[token])
    assert result["stdout"] == "before\n"
    # kill(-1) spares the caller and init: it lives until its time is up.
    assert (result["status"], result["exit_code"]) == ("timeout", 124), result
    assert_no_process(token)


def test_thousand_short_processes_run(run):
    result = run.shell("i=0; while [ $i -lt 1000 ]; do /bin/true; i=$((i+1)); done; echo $i")
    assert (result["status"], result["stdout"]) == ("ok", "1000\n"), result


def test_deep_directories_and_special_files_make_the_list_incomplete(run):
    code = r"""
import os, socket
os.symlink("loop", "loop")
os.mkfifo("fifo")
socket.socket(socket.AF_UNIX).bind("socket")
os.mkdir("locked"); open("locked/x", "w").close(); os.chmod("locked", 0)
open(b"\xff\xfe", "w").close()
open("new\nline", "w").close()
for n in range(100):
    os.mkdir("d"); os.chdir("d")
open("deep", "w").close()
"""
    result = run.python(code)
    assert result["status"] == "ok", result
    paths = {entry["path"] for entry in result["files"]}
    assert "new\nline" in paths and "\ufffd\ufffd" in paths
    assert not paths & {"loop", "fifo", "socket"}
    # Not all could be looked at, and that is told.
    assert result["files_complete"] is False


def test_files_beyond_the_listing_limit_are_reported_as_incomplete(run):
    result = run.python("for n in range(12000): open(f'f{n}', 'w').close()")
    assert result["status"] == "ok" and result["files_complete"] is False
    assert 5000 < len(result["files"]) <= 12000


def test_run_leaves_no_process(run, token):
    assert run.python("pass", args=[token])["status"] == "ok"
    assert processes_with(token) == {}
