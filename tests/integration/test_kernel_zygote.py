"""Kernels that a server forks from a zygote: each is as fresh as one that was executed, and they know nothing of each other."""

import json
import os
import signal
import time

import pytest
from server import serve  # noqa: F401
from support.needs import require
from support.running import wait_until

pytestmark = pytest.mark.needs("jupyter")


@pytest.fixture
def policy():
    return {"executor": "subprocess", "python": require("jupyter")["JUPYTER_PYTHON"], "system_packages": True}


@pytest.fixture
def started(serve):  # noqa: F811
    config = {
        "allow": {"executors": ["sandbox", "subprocess"], "pythons": ["/"], "whole_machine": True},
        "sessions": {"prestart": False, "pool_parked": 1},
    }
    return serve(config=config)


def zygotes(server):
    """The processes that serve the server's forks, by what they were started with."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                words = file.read()
            with open(f"/proc/{entry}/stat", encoding="utf-8") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
        # The roots of the trees are copies of it, but their current directory is a session's or none of its own.
        if b"kernel_zygote" in words and parent == server.pid and not children(int(entry)):
            found.append(int(entry))
    return found


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def start_of(session):
    return session.run("1")["isolation"]["start"]


@pytest.fixture
def forked(started, policy):
    """A function that opens a session whose kernel is a fork."""
    client = started.client()
    first = client.open(**policy)
    assert start_of(first).startswith("exec: ")

    def open_forked(**more):
        made = []

        def is_fork():
            session = client.open(**policy, **more)
            made.append(session)
            return start_of(session).startswith("fork: ")

        assert wait_until(is_fork, 60), start_of(made[-1])
        for session in made[:-1]:
            session.delete()
        return made[-1]

    return open_forked


def evaluate(session, code):
    """The value of an expression that is JSON when printed so."""
    result = session.run(f"import json; print(json.dumps({code}))")
    assert result["status"] == "ok", result
    return json.loads(result["stdout"])


def test_forks_are_like_kernels_that_were_executed(started, policy, forked):
    executed, fork = started.client().open(**{**policy, "env": {"OTHER": "1"}}), forked()
    assert start_of(executed).startswith("exec: ")
    same = (
        "[sorted(k for k in globals() if not k.startswith('_')), __name__, len(__import__('sys').path),"
        " __import__('signal').getsignal(13).name, __import__('os').getcwd().rpartition('/')[2],"
        " __import__('sys').argv[:2], __import__('sys').flags[:], __import__('sys').stdin.read(),"
        " __import__('threading').active_count(), __import__('threading').current_thread() is"
        " __import__('threading').main_thread(), __import__('random').__name__, __import__('debugpy').__name__,"
        " sorted(k for k in __import__('os').environ if k != 'OTHER')]"
    )
    assert evaluate(fork, same) == evaluate(executed, same)
    error = "def f(n):\n    return 1 / n\nf(0)"
    tracebacks = [session.run(error)["error"]["traceback"].splitlines() for session in (fork, executed)]
    plain = [[line for line in traceback if not line.lstrip().startswith("File ")] for traceback in tracebacks]
    assert plain[0] == plain[1]


def test_forks_have_places_and_numbers_of_their_own(forked):
    mine = (
        "[__import__('sys').prefix, __import__('sys').executable, __import__('os').environ['VIRTUAL_ENV'],"
        " __import__('sysconfig').get_path('purelib'), __import__('site').getsitepackages()[0],"
        " __import__('random').random(), __import__('os').getpid(), __import__('uuid').uuid4().hex,"
        " __import__('tempfile').gettempdir() and __import__('os').getcwd()]"
    )
    sessions = [forked(), forked()]
    first, second = (evaluate(session, mine) for session in sessions)
    prefix = first[0]
    assert first[1] == prefix + "/bin/python" and first[2] == prefix
    assert first[3].startswith(prefix + "/") and first[4].startswith(prefix + "/")
    assert all(a != b for a, b in zip(first, second)), (first, second)
    for session, place in zip(sessions, (prefix, second[0])):
        listed = evaluate(session, "__import__('sys').path")
        assert any(path.startswith(place) for path in listed)
        child = "__import__('subprocess').check_output(['python', '-c', 'import sys; print(sys.prefix)'], text=True).strip()"
        assert evaluate(session, child) == place


def test_forks_run_processes_threads_and_coroutines(forked):
    session = forked()
    code = (
        "import multiprocessing, subprocess, threading, asyncio, time\n"
        "got = []\n"
        "thread = threading.Thread(target=lambda: got.append(1)); thread.start(); thread.join()\n"
        "await asyncio.sleep(0.01)\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool: got += pool.map(abs, [-2, -3])\n"
        "got.append(subprocess.run(['sh', '-c', 'exit 4']).returncode)\n"
        "got"
    )
    assert session.run(code)["value"] == "[1, 2, 3, 4]"


def test_forks_are_interrupted_killed_and_started_anew(forked):
    session = forked()
    session.run("kept = 1")
    late = session.run("import time; time.sleep(30)", timeout=0.5)
    assert (late["status"], late["state"]) == ("timeout", "kept")
    assert session.value("kept") == "1"
    stubborn = "import signal, time\nsignal.signal(2, signal.SIG_IGN)\nwhile True: time.sleep(1)"
    assert session.run(stubborn, timeout=0.5)["state"] == "lost"
    died = session.run("import os; os.kill(os.getpid(), 11)")
    assert (died["status"], died["signal"], died["state"]) == ("crashed", 11, "lost")
    assert session.run("exit(3)")["exit_code"] == 3
    again = session.run("'kept' in globals()")
    assert again["value"] == "False" and again["isolation"]["start"].startswith("fork: ")


def test_memory_limit_ends_a_fork_alone(forked):
    greedy, other = forked(limits={"memory": "400m"}), forked()
    other.run("x = 1")
    ended = greedy.run("x = bytearray(600 << 20); x[::4096] = bytes(len(x[::4096]))")
    assert ended["status"] == "oom", ended
    assert other.value("x") == "1"


def test_kernel_starts_without_a_zygote_that_was_killed(started, policy, forked):
    session = forked()
    session.run("x = 1")
    for pid in zygotes(started):
        os.kill(pid, signal.SIGKILL)
    assert session.value("x") == "1"  # forks outlive it
    client = started.client()
    assert all(client.open(**policy).run("print(6 * 7)")["stdout"] == "42\n" for _ in range(3))


def test_killed_server_leaves_neither_zygote_nor_forks(started, forked):
    session = forked()
    pid = int(session.value("__import__('os').getpid()"))
    serving = zygotes(started)
    assert serving
    started.kill()
    assert wait_until(lambda: not any(os.path.exists(f"/proc/{each}") for each in [pid, *serving]), 10)


def test_packages_that_come_later_are_seen(started, policy, tmp_path, forked):
    # The directory of packages of the interpreter gets a module; the zygote, which may have looked for it, is replaced.
    python = policy["python"]
    site = os.path.join(os.path.dirname(os.path.dirname(python)), "lib")
    site = os.path.join(site, sorted(os.listdir(site))[0], "site-packages")
    name = f"came_later_{os.getpid()}"
    forked()
    path = os.path.join(site, name + ".py")
    try:
        time.sleep(0.02)
        with open(path, "w", encoding="utf-8") as file:
            file.write("number = 7\n")
        assert forked().value(f"__import__('{name}').number") == "7"
    finally:
        os.unlink(path)
