"""libcella.so in a process that is not ours: sessions from any thread, and nothing of that process changed."""

import json
import os
import subprocess
import textwrap
import threading
import time

import pytest
from support.cella import PYTHON, REPOSITORY, program, run_bounded
from support.descendants import Family
from support.libcella import Failure, Library, library_path
from support.running import wait_until

TESTS = REPOSITORY / "tests"
pytestmark = pytest.mark.skipif(
    not library_path().exists() and "CELLA_TESTS_MUST_RUN" not in os.environ, reason="needs libcella.so: build it first"
)


@pytest.fixture(scope="module")
def library(environment):
    """The engine of this process reads these when it is made."""
    kept = dict(os.environ)
    os.environ.update(environment)
    yield Library()
    os.environ.clear()
    os.environ.update(kept)


@pytest.fixture
def session(library):
    session = library.open(json.dumps({"python": PYTHON}))
    yield session
    session.free()


@pytest.fixture
def script(environment):
    """Runs Python code that has `library` in a process of its own; returns how it ended."""

    def start(code, *words, **options):
        text = "import os, signal, sys, threading, time\nfrom support.libcella import Failure, Library\n"
        text += f"library = Library()\nPOLICY = {json.dumps(json.dumps({'python': PYTHON}))}\n" + textwrap.dedent(code)
        env = {**environment, "PYTHONPATH": os.pathsep.join([str(TESTS)]), "CELLA_BIN": str(program())}
        return run_bounded([PYTHON, "-B", "-c", text, *words], env=env, **options)

    return start


def assert_printed(finished, text):
    assert (finished.exit_code, finished.text(), finished.stderr) == (0, text, b""), finished.describe()


# --- Sessions ---


@pytest.mark.as_user
def test_session_keeps_state_and_reports_results(session):
    assert session.run("x = 6").value is None
    result = session.run("print('seen')\nx * 7")
    assert (result.status, result.value, result.stdout) == ("ok", b"42", b"seen\n")
    failed = session.run("1 / 0")
    assert (failed.status, failed.exit_code, failed.error) == ("error", 1, b"division by zero")
    assert json.loads(failed.json)["error"]["name"] == "ZeroDivisionError"


@pytest.mark.as_user
def test_crash_rolls_back(session):
    session.run("x = 1")
    assert json.loads(session.run("x = 2\nimport os; os._exit(7)").json)["state"] == "rolled_back"
    assert session.run("x").value == b"1"


def test_events_come_in_order_and_end(session):
    run = session.start("print('a')\nprint('b')\n3")
    events = list(run.events())
    assert [kind for kind, _ in events] == ["started", "output", "value", "finished"] or [
        kind for kind, _ in events
    ] == ["started", "output", "output", "value", "finished"]
    assert b"".join(text for kind, text in events if kind == "output") == b"a\nb\n"
    assert run.wait().value == b"3"
    assert run.next() == ("end", None, None)
    run.free()


def test_next_returns_when_its_time_is_up(session):
    run = session.start("import time\ntime.sleep(60)")
    assert run.next()[1] == "started"
    assert run.next(nanoseconds=1_000_000) == ("nothing yet", None, None)
    run.cancel()
    assert run.wait().status == "cancelled"
    run.free()


def test_events_without_a_reader_hold_the_guest_up_and_not_the_session(session):
    run = session.start("while True: print('x' * 1000)")
    run.free()  # it goes on, and its events are dropped
    second = session.start("1")
    assert second.next(nanoseconds=1_000_000)[0] == "nothing yet"
    session.close()
    assert second.wait().status == "cancelled"
    second.free()


def test_interrupt_reaches_the_code_and_not_the_next_run(session):
    run = session.start("import time\ntry: time.sleep(60)\nexcept KeyboardInterrupt: print('caught')")
    assert run.next()[1] == "started"
    wait_until(lambda: run.next(nanoseconds=50_000_000)[0] == "nothing yet", 5)
    run.interrupt()
    assert run.wait().stdout == b"caught\n"
    run.interrupt()
    run.cancel()
    assert session.run("'next'").value == b"'next'"
    run.free()


def test_checkpoints_reset_and_files(session):
    session.run("x = 1")
    session.do("save_checkpoint", "one")
    session.run("x = 2")
    session.do("rollback", "one")
    assert session.run("x").value == b"1"
    session.do("write_file", "folder/data.bin", b"\0\xff", 2)
    assert session.run("open('folder/data.bin', 'rb').read()").value == b"b'\\x00\\xff'"
    session.do("reset")
    assert session.run("x").status == "error"
    assert session.run("open('folder/data.bin', 'rb').read()").status == "ok"
    session.do("remove_file", "folder")
    with pytest.raises(Failure, match="folder"):
        session.do("read_file", "folder/data.bin")


@pytest.mark.parametrize("language, code", [("python", "print(open('in.txt').read())"), ("ruby", "puts File.read('in.txt')")])
def test_files_of_a_run_are_in_the_workspace_before_it_begins(session, language, code):
    for content in (b"first", b"second"):
        result = session.start(code, language=language, files={"in.txt": content}).wait()
        assert (result.status, result.stdout) == ("ok", content + b"\n"), result.json
        assert json.loads(result.json)["files"] == []


# --- Storage ---


@pytest.mark.as_user
def test_artifacts_and_workflows_outlive_their_session(library, tmp_path):
    policy = json.dumps({"python": PYTHON, "storage": str(tmp_path / "data")})
    source = "async def run(n):\n    return n + 1\n"
    first = library.open(policy)
    assert first.run(f"artifacts.save('a/b', {{'n': 1}}); workflows.create('inc', {source!r}); 1").value == b"1"
    other = library.open(policy)
    assert other.run("artifacts.load('a/b')['n'], workflows.inc(4)").value == b"(1, 5)"
    assert other.run("artifacts.save('large', bytes(3 << 20)); len(artifacts.load('large'))").value == b"3145728"
    first.free()
    assert json.loads((tmp_path / "data/artifacts/a/b").read_text()) == {"n": 1}
    assert other.run("open(artifacts.path('a/b')).read()").value == b"'{\"n\": 1}'"
    other.free()


def test_storage_where_code_may_write_is_refused(library, tmp_path):
    for storage in (tmp_path / "data", tmp_path):
        with pytest.raises(Failure, match="code may write"):
            library.open(json.dumps({"python": PYTHON, "workdir": str(tmp_path), "storage": str(storage)}))
    with pytest.raises(Failure, match="own process has no storage"):
        library.open(json.dumps({"executor": "inprocess", "storage": str(tmp_path / "other")}))


# --- Tools ---


@pytest.mark.as_user
def test_code_calls_functions_of_the_application(session):
    threads = []

    def add(arguments):
        threads.append(threading.get_ident())
        document = json.loads(arguments)
        values = [*document["args"], *(value for _, value in document["kwargs"])]
        return json.dumps(sum(values))

    session.tool("add", add, "Adds numbers.", '{"type": "object"}')
    assert session.supports("calls")
    code = "tools.add(1, 2), tools.add(1, b=5), tools.list()[0].description"
    assert session.run(code).value == b"(3, 6, 'Adds numbers.')"
    assert set(threads) == {threading.get_ident()}
    run = session.start("tools.add(4, 4)")
    assert [kind for kind, _ in run.events()] == ["started", "tool", "value", "finished"]
    assert run.wait().value == b"8"


def test_failure_of_a_function_is_an_error_of_the_call(session):
    def fail(arguments):
        raise KeyError("no such key")

    session.tool("fail", fail)
    session.tool("broken", lambda arguments: "[")
    session.tool("null", lambda arguments: "null")
    code = """
for name in ("fail", "broken", "absent"):
    try:
        getattr(tools, name)()
    except HostCallError as error:
        print(type(error).__name__, error)
tools.null()
"""
    assert session.run(code).stdout.decode().splitlines() == [
        "ToolError KeyError: 'no such key'", "ToolError the tool's result is no JSON",
        "ToolNotFoundError there is no tool 'absent': there are broken, fail, null",
    ]


def test_function_that_waits_for_the_session_that_calls_it_is_refused(library, session):
    """It would wait for itself until the time-out of the run. Another session is no problem."""
    other = library.open(json.dumps({"python": PYTHON}))
    runs = []

    def failure_of(work):
        with pytest.raises(Failure, match="open another session") as refused:
            work()
        return refused.value.code

    def serve(arguments):
        waiting = session.start("'later'")
        runs.append(waiting)
        works = (lambda: session.run("1"), lambda: session.do("reset"), waiting.wait, waiting.next)
        refused = [failure_of(work) for work in works]
        session.do("write_file", "made", b"x", 1)
        return json.dumps([*refused, other.run("6 * 7").value.decode()])

    session.tool("serve", serve)
    begin = time.monotonic()
    assert session.run("tools.serve()").value == b"['invalid', 'invalid', 'invalid', 'invalid', '42']"
    assert time.monotonic() - begin < 30
    assert runs[0].wait().value == b"'later'" and session.run("open('made').read()").value == b"'x'"
    runs[0].free(), other.free()


@pytest.mark.parametrize("name", ["", "1x", "list", "_x", "a-b"])
def test_tool_without_a_fitting_name_is_refused(session, name):
    with pytest.raises(Failure) as refused:
        session.tool(name, lambda arguments: "1")
    assert refused.value.code == "invalid"


@pytest.mark.parametrize("path", ["../out", "/etc/passwd", "a/../../out", ""])
def test_files_outside_the_workspace_are_refused(session, path):
    with pytest.raises(Failure) as failure:
        session.do("write_file", path, b"x", 1)
    assert failure.value.code == "invalid"


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ('{"memry": 1}', "unknown key 'memry'"),
        ("{", "JSON"),
        ('{"limits": {"memory": "lots"}}', "lots"),
        ('{"executor": "unknown"}', "is none of"),
        ('{"workdir": "/does/not/exist"}', "does not exist"),
        ('{"deps": ["numpy"]}', "not available in the library"),
        ('{"environment": {"packages": ["numpy"]}}', "environment is not available in the library"),
    ],
)
def test_policy_that_cannot_be_meant_is_refused_by_name(library, policy, message):
    with pytest.raises(Failure, match=message):
        library.open(policy)


def test_limits_of_the_policy_hold(library):
    session = library.open(json.dumps({"python": PYTHON, "limits": {"timeout": "300ms"}}))
    assert session.run("while True: pass").status == "timeout"
    session.free()


@pytest.mark.parametrize("executor", ["sandbox", "local"])
def test_every_executor_that_needs_nothing_runs_code(library, executor):
    session = library.open(json.dumps({"python": PYTHON, "executor": executor}))
    assert session.run("print(6 * 7)").stdout == b"42\n"
    assert json.loads(session.run("1").json)["isolation"]["executor"] == executor
    assert session.supports("state") == (executor == "sandbox")
    assert not session.supports("no such word")
    isolated = ("filesystem_isolation", "network_isolation", "jail")
    assert [session.supports(word) for word in isolated] == [executor == "sandbox"] * 3
    assert all(session.supports(word) for word in ("timeout", "process_isolation", "memory_limit"))
    session.free()


def test_use_after_close_is_an_error(session):
    session.close()
    session.close()
    with pytest.raises(Failure) as failure:
        session.run("1")
    assert failure.value.code == "closed"


def test_close_during_a_run_ends_it(session):
    run = session.start("import time\ntime.sleep(60)")
    assert run.next()[1] == "started"
    session.close()
    assert run.wait().status == "cancelled"
    run.free()


# --- Threads ---


def test_sessions_of_eight_threads_on_one_engine_do_not_mix(library):
    engine = library.attempt("engine_new")
    wrong = []

    def work(name):
        session = library.open(json.dumps({"python": PYTHON}), engine=engine)
        session.run(f"name = {name!r}")
        for number in range(10):
            result = session.run(f"print(name)\n(name, {number})")
            if (result.stdout, result.value) != (f"{name}\n".encode(), repr((name, number)).encode()):
                wrong.append(result.json)
        session.free()

    threads = [threading.Thread(target=work, args=(f"thread {number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    library.call("engine_free", engine)
    assert wrong == []


def test_threads_that_share_a_session_take_turns(session):
    session.run("n = 0")

    def work():
        for _ in range(10):
            session.run("n += 1")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert session.run("n").value == b"40"


def test_engine_ends_with_its_last_session(script):
    finished = script(
        """
        engine = library.attempt("engine_new")
        session = library.open(POLICY, engine=engine)
        library.call("engine_free", engine)
        print(session.run("6 * 7").value)
        session.free()
        print(os.listdir("/proc/self/task") == [str(os.getpid())])
        try:
            print(os.waitpid(-1, os.WNOHANG))
        except ChildProcessError:
            print("no child")
        """
    )
    assert_printed(finished, "b'42'\nTrue\nno child\n")


# --- A process that is not ours ---


@pytest.mark.as_user
def test_nothing_of_the_process_changes(script):
    finished = script(
        """
        import resource
        # glibc installs a handler of its own with the first thread.
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
        def picture():
            lines = open("/proc/self/status").read().splitlines()
            kept = [line for line in lines if line.startswith(("SigBlk", "SigIgn", "SigCgt", "Umask", "Groups", "Uid", "Seccomp", "NoNewPrivs"))]
            limits = [resource.getrlimit(each) for each in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_AS)]
            return kept, limits, os.getcwd(), dict(os.environ), open("/proc/self/cgroup").read()
        before = picture()
        engine = library.attempt("engine_new")
        session = library.open(POLICY, engine=engine)
        session.run("1")
        during = picture()
        masks = {line.split()[1] for task in os.listdir("/proc/self/task") if task != str(os.getpid())
                 for line in open(f"/proc/self/task/{task}/status") if line.startswith("SigBlk")}
        session.free()
        library.call("engine_free", engine)
        print(before == during == picture(), all(int(mask, 16) >> (signal.SIGPIPE - 1) & 1 for mask in masks), len(masks) > 0)
        print(os.listdir("/proc/self/task") == [str(os.getpid())])
        """
    )
    assert_printed(finished, "True True True\nTrue\n")


@pytest.mark.as_user
def test_caller_that_ignores_sigchld_is_survived(script):
    finished = script(
        """
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        session = library.open(POLICY)
        print(session.run("import os; os._exit(3)").exit_code, session.run("6 * 7").value)
        session.free()
        other = library.open('{"executor": "local"}')
        print(other.run("print(1)").stdout)
        other.free()
        """
    )
    assert_printed(finished, "3 b'42'\nb'1\\n'\n")


def test_caller_that_reaps_all_children_is_survived(script):
    finished = script(
        """
        def reap(number, frame):
            try:
                while os.waitpid(-1, os.WNOHANG)[0]: pass
            except ChildProcessError: pass
        signal.signal(signal.SIGCHLD, reap)
        for _ in range(3):
            session = library.open(POLICY)
            print(session.run("6 * 7").value)
            session.free()
        """
    )
    assert_printed(finished, "b'42'\n" * 3)


@pytest.mark.as_user
def test_after_fork_the_copies_of_the_child_do_nothing(script):
    finished = script(
        """
        session = library.open(POLICY)
        session.run("x = 1")
        child = os.fork()
        if child == 0:
            try:
                session.run("x = 2")
            except Failure as failure:
                print(failure.code, "fork" in str(failure), flush=True)
            session.free()
            own = library.open(POLICY)
            print(own.run("'of the child'").value, flush=True)
            own.free()
            sys.exit(0)
        print(os.waitpid(child, 0)[1], session.run("x").value, flush=True)
        """
    )
    assert_printed(finished, "closed True\nb\"'of the child'\"\n0 b'1'\n")


@pytest.mark.as_user
def test_engine_that_a_child_of_fork_frees_stays_the_parents(script):
    """The last handle of the child is the engine: no session or run keeps it."""
    finished = script(
        """
        from support.descendants import Family
        engine = library.attempt("engine_new")
        library.open(POLICY, engine=engine).free()
        family = Family(os.getpid())
        child = os.fork()
        if child == 0:
            library.call("engine_free", engine)
            os._exit(0)
        print(os.waitpid(child, 0)[1], len(family.members) > 1, len(family.alive()) == len(family.members))
        session = library.open(POLICY, engine=engine)
        print(session.run("6 * 7").value)
        session.free()
        library.call("engine_free", engine)
        """
    )
    assert_printed(finished, "0 True True\nb'42'\n")


def test_child_that_lives_on_does_not_keep_guests_alive(script):
    finished = script(
        """
        session = library.open(POLICY)
        session.run("1")
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
        begin = time.monotonic()
        session.free()
        print(time.monotonic() - begin < 4)
        os.close(writing)
        os.waitpid(child, 0)
        """
    )
    assert_printed(finished, "True\n")


@pytest.mark.as_user
@pytest.mark.parametrize("way", ["sys.exit(0)", "os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_guests_end_with_the_process(environment, way):
    code = f"""
import os, signal, sys
from support.libcella import Library
library = Library()
session = library.open('{json.dumps({"python": PYTHON})}')
run = session.start("while True: pass")
run.next()
print("running", flush=True)
sys.stdin.readline()
{way}
"""
    env = {**environment, "PYTHONPATH": str(TESTS), "CELLA_BIN": str(program())}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([PYTHON, "-B", "-c", code], env=env, text=True, **pipes) as process:
        assert process.stdout.readline() == "running\n"
        family = Family(process.pid)
        assert len(family.members) > 2
        process.stdin.write("\n")
        process.stdin.close()
        process.wait(timeout=20)
    family.assert_gone(10)


def test_process_may_exit_while_its_threads_open_sessions_and_run(script):
    code = """
        opened = threading.Semaphore(0)
        def work():
            try:
                while True:
                    session = library.open(POLICY)
                    opened.release()
                    session.run("1")
                    session.free()
            except Failure:
                threading.Event().wait()
        for _ in range(4):
            threading.Thread(target=work, daemon=True).start()
        for _ in range(6):
            opened.acquire()
        print(time.monotonic(), flush=True)
        __import__("ctypes").CDLL(None).exit(0)  # what main() does when it returns
        """
    for _ in range(5):
        finished = script(code)
        assert (finished.exit_code, finished.stderr) == (0, b""), finished.describe()
        # The guests ended, and were not only given up after five seconds.
        assert time.monotonic() - float(finished.text()) < 4.5


def test_missing_files_are_reported_with_the_remedy(script, tmp_path, environment):
    env = {**environment, "PYTHONPATH": str(TESTS), "CELLA_BIN": str(program()), "CELLA_HOME": str(tmp_path)}
    code = "from support.libcella import *\ntry: Library().open()\nexcept Failure as failure: print(failure.code, failure)"
    finished = run_bounded([PYTHON, "-B", "-c", code], env=env)
    assert finished.exit_code == 0 and finished.text().startswith("not_found"), finished.describe()
    assert str(tmp_path) in finished.text() and "CELLA_HOME" in finished.text(), finished.describe()


