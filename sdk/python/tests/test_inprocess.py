"""The executor that runs code in this process. Sessions never mix, nothing of the caller's is changed for good, and a
late stop hits nothing."""

import contextlib
import io
import os
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import cella
import cella.sync
from cella._inprocess.stopper import STOPPER
from cella.execution import InProcessConfig, InProcessExecutor
from support.leftovers import assert_no_process
from support.running import wait_until

SESSIONS = 16


@pytest.fixture
def session(open_session):
    return open_session(InProcessExecutor())


def state_of_the_process():
    import linecache
    import signal

    return {
        "streams": (sys.stdin, sys.stdout, sys.stderr), "module": type(sys), "start": threading.Thread.start,
        "main": sys.modules["__main__"], "directory": os.getcwd(), "path": list(sys.path),
        "handlers": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGURG, signal.SIGALRM)],
        "builtins": sorted(vars(__import__("builtins"))), "finders": list(sys.meta_path),
        "excepthook": (sys.excepthook, threading.excepthook),
        "lines": {name for name in linecache.cache if "cell " in name},
        "threads": {thread.name for thread in threading.enumerate() if thread.name.startswith("cella-")},
    }


def test_values_output_errors_and_displays(session, wait):
    result = wait(session.run("import sys\nprint('out'); print('err', file=sys.stderr)\ndisplay('shown')\n6 * 7"))
    assert (result.status, result.value, result.stdout, result.stderr) == ("ok", "42", "out\n", "err\n")
    assert [output.text for output in result.outputs] == ["'shown'", "42"]
    failed = wait(session.run("def f():\n    return 1 / 0\nf()"))
    assert failed.error.name == "ZeroDivisionError" and 'File "cell 2", line 3' in failed.error.traceback
    assert "cella" not in failed.error.traceback and "session " not in failed.error.traceback
    assert wait(session.run("import asyncio\nawait asyncio.sleep(0, 'awaited')")).value == "'awaited'"
    assert wait(session.run("_")).value == "'awaited'"
    assert wait(session.run("__name__")).value == "'__main__'"


def test_no_program_is_needed(tmp_path):
    """A wheel without programs has this executor all the same."""
    code = """
        import cella.sync, cella._programs
        with cella.sync.Session(cella.InProcessExecutor()) as session:
            print(session.run("1 + 1"))
        import cella._private_server as private
        assert private._current is None
    """
    environment = {**os.environ, "CELLA_BIN": str(tmp_path / "none"), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=environment, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("2\n", "")


def test_after_the_last_close_every_hook_is_gone(open_session, wait, twin):
    before = state_of_the_process()
    sessions = [open_session(InProcessExecutor()) for _ in range(3)]
    for session in sessions:
        assert wait(session.run("import threading\nthreading.Thread(target=print, args=(1,)).start()\n1")).ok
    assert type(sys) is not before["module"] and threading.Thread.start is not before["start"]
    for session in sessions:
        twin.close(session)
    assert wait_until(lambda: state_of_the_process() == before, 10), (before, state_of_the_process())


CODE_OF_ONE_OF_MANY = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
name = "session-{number}"
def speak(index):
    for turn in range(20):
        print(name, index, turn)
        print(name, index, turn, file=sys.stderr)
        assert name == "session-{number}"
threads = [threading.Thread(target=speak, args=(index,)) for index in range(3)]
for thread in threads: thread.start()
with ThreadPoolExecutor(2) as pool: list(pool.map(speak, (3, 4)))
for thread in threads: thread.join()
name
"""


def test_sessions_in_threads_never_mix_output_or_names():
    failures = []
    start = threading.Barrier(SESSIONS)

    def use(number):
        try:
            with cella.sync.Session(InProcessExecutor()) as session:
                start.wait(30)
                for _ in range(5):
                    result = session.run(CODE_OF_ONE_OF_MANY.format(number=number), timeout=60)
                    assert result.ok, result
                    assert result.value == f"'session-{number}'"
                    for text in (result.stdout, result.stderr):
                        assert text.count(f"session-{number} ") == 5 * 20
                        assert text.count("session-") == 5 * 20
        except BaseException as error:
            failures.append(error)

    written = io.StringIO()
    threads = [threading.Thread(target=use, args=(number,)) for number in range(SESSIONS)]
    with contextlib.redirect_stdout(written):
        for thread in threads:
            thread.start()
        for turn in range(50):
            print("the caller", turn)
            time.sleep(0.002)
        for thread in threads:
            thread.join(120)
    assert not failures, failures
    assert written.getvalue() == "".join(f"the caller {turn}\n" for turn in range(50))


def test_code_that_replaces_stdout_changes_its_own_alone(open_session, wait):
    one, other = open_session(InProcessExecutor()), open_session(InProcessExecutor())
    code = """
        import io, sys, contextlib
        class Tee:
            def __init__(self, under): self.under = under
            def write(self, text): return self.under.write(text.upper())
            def flush(self): pass
        with contextlib.redirect_stdout(io.StringIO()) as kept:
            print('hidden')
        sys.stdout = Tee(sys.stdout)
        print('shown')
        kept.getvalue()
    """
    result = wait(one.run(textwrap.dedent(code)))
    assert (result.value, result.stdout) == ("'hidden\\n'", "SHOWN\n")
    assert wait(other.run("print('plain')")).stdout == "plain\n"
    assert wait(one.run("print('plain again')")).stdout == "plain again\n"


def test_the_callers_prints_stay_its_own(session, wait, capsys):
    wait(session.run("print('of the session')"))
    print("of the caller")
    with contextlib.redirect_stdout(io.StringIO()) as outer:
        print("outer")
        with contextlib.redirect_stdout(io.StringIO()) as inner:
            print("inner")
        print("outer again")
    print("of the caller again")
    assert (outer.getvalue(), inner.getvalue()) == ("outer\nouter again\n", "inner\n")
    assert capsys.readouterr().out == "of the caller\nof the caller again\n"


@pytest.mark.parametrize("code", ["while True: pass", "import asyncio; await asyncio.sleep(60)", """
import asyncio
async def busy():
    while True: pass
await busy()
"""])
def test_timeout_stops_code_and_keeps_the_state(session, wait, code):
    wait(session.run("x = 1"))
    result = wait(session.run(f"x = 2\n{code}", timeout=0.2))
    assert (result.status, result.exit_code, result.state, result.still_running) == ("timeout", 124, "kept", False)
    assert result.error.name == "Timeout"
    assert wait(session.run("x")).value == "2"


@pytest.mark.parametrize("code", [
    "import time; time.sleep(4)",
    "import time\nend = time.monotonic() + 4\nwhile time.monotonic() < end:\n    try: time.sleep(1)\n"
    "    except BaseException: pass",
])
def test_code_that_does_not_stop_is_given_up(session, wait, code):
    wait(session.run("x = 1"))
    begin = time.monotonic()
    result = wait(session.run(f"{code}\nprint('too late')", timeout=0.2))
    assert (result.status, result.state, result.still_running) == ("timeout", "lost", True)
    assert time.monotonic() - begin < 3.5
    after = wait(session.run("'x' in globals(), 1"))
    assert (after.value, after.stdout) == ("(False, 1)", "")
    assert wait(session.run("import time; time.sleep(5)", timeout="30s")).stdout == ""


def test_a_late_stop_never_reaches_the_next_run(session, wait):
    """Runs that end just when their time is over: each ends in one of two ways, and the next is as if nothing were."""
    ends = set()
    for number in range(300):
        code = f"import time\nend = time.perf_counter() + {0.004 + number % 20 * 0.0001}\n"
        result = wait(session.run(code + "while time.perf_counter() < end: pass", timeout=0.005))
        ends.add(result.status)
        assert result.status in ("ok", "timeout") and result.state == "kept", result
        following = wait(session.run(f"print({number}); {number}"))
        assert (following.status, following.value) == ("ok", str(number)), following
    assert ends == {"ok", "timeout"}


def test_shell_commands_stream_and_end_with_their_run(session, wait, token):
    result = wait(session.run("!echo out; echo err >&2; exit 3\nlines = !printf 'a\\nb'\nprint(_exit_code)\nlines"))
    assert (result.stdout, result.stderr, result.value) == ("out\n3\n", "err\n", "['a', 'b']")
    script = wait(session.run("%%bash\nread line <<< text; echo $line\nsleep 30 & echo $!"))
    text, background = script.stdout.split()
    os.kill(int(background), 9)
    assert text == "text" and wait(session.run("x = 1\n!cat")).ok
    stopped = wait(session.run(f"!sh -c 'sleep 60; :' {token}", timeout=0.3))
    assert (stopped.status, stopped.state, stopped.still_running) == ("timeout", "kept", False)
    assert_no_process(token, 5)
    assert wait(session.run("x")).value == "1"


def test_interrupt_and_cancel(session, twin, wait):
    def during(code, stop):
        stream = session.stream(code)
        for event in twin.each(stream):
            if event.type == "stdout" and "ready" in event.text:
                wait(stop())
        return stream.result

    result = during("import time\nprint('ready')\nfor _ in range(6000): time.sleep(0.01)", session.interrupt)
    assert (result.status, result.exit_code, result.error.name) == ("error", 130, "KeyboardInterrupt")
    caught = during(
        "try:\n    print('ready')\n    while True: pass\nexcept KeyboardInterrupt: pass\n'went on'", session.interrupt
    )
    assert caught.value == "'went on'"
    cancelled = during("print('ready')\nwhile True: pass", session.cancel)
    assert (cancelled.status, cancelled.exit_code, cancelled.state) == ("cancelled", 125, "kept")
    assert wait(session.interrupt()) is False
    assert wait(session.run("'here'")).value == "'here'"


def test_a_queued_run_is_cancelled_in_the_queue(session, wait):
    first = wait(session.start("import time\nwhile True: time.sleep(0.01)"))
    second = wait(session.start("never = 1"))
    assert wait(second.cancel()) is True
    assert wait(second.result()).status == "cancelled"
    assert wait(first.cancel()) is True
    assert wait(first.result()).status == "cancelled"
    assert wait(session.run("'never' in globals()")).value == "False"


def test_what_cannot_exist_here_is_one_typed_error(session, wait):
    wait(session.open())
    for action in (
        lambda: session.checkpoint("a"), lambda: session.rollback("a"), session.checkpoints,
        lambda: session.upload("a", b""), lambda: session.download("a"), session.files.list,
        lambda: session.run("1", language="bash"),
    ):
        with pytest.raises(cella.Unsupported, match="inprocess"):
            wait(action())
    for word in ("checkpoints", "files", "process_isolation", "memory_limit", "no such word"):
        assert not session.supports(word)
    assert session.capabilities >= {"state", "timeout", "reset", "interrupt"}


def test_reset_and_input(session, wait):
    wait(session.run("x = 1"))
    wait(session.reset())
    assert wait(session.run("'x' in globals()")).value == "False"
    assert wait(session.run("input('name? ')", on_input=lambda prompt: prompt.upper())).value == "'NAME? '"
    assert wait(session.run("import sys; input() + sys.stdin.read()", stdin="a\nb\n")).value == "'ab\\n'"
    assert wait(session.run("input()")).error.name == "EOFError"
    with pytest.raises(cella.InvalidRequest):
        wait(session.input("nobody asked"))


def test_exit_and_endless_recursion_are_results(session, wait):
    assert wait(session.run("import sys; sys.exit(7)")).exit_code == 7
    assert wait(session.run("exit()")).status == "ok"
    assert wait(session.run("def f(): f()\nf()")).error.name == "RecursionError"
    assert wait(session.run("1")).value == "1"


@pytest.mark.parametrize("modules, ends", [
    ({"matplotlib.pyplot": "types.SimpleNamespace(show=print)"}, "ok"),
    ({"matplotlib.pyplot": "None", "matplotlib._pylab_helpers": "None"}, "ok"),
    ({"matplotlib.pyplot": "types.SimpleNamespace()", "matplotlib._pylab_helpers": "types.SimpleNamespace()"}, "error"),
])
def test_stubs_of_modules_end_no_session(session, wait, monkeypatch, modules, ends):
    """As tests of applications make them: what the executor asks of such a module may be missing."""
    for name in modules:
        monkeypatch.setitem(sys.modules, name, None)
        del sys.modules[name]
    changes = "".join(f"sys.modules[{name!r}] = {stub}\n" for name, stub in modules.items())
    result = wait(session.run(f"import sys, types\n{changes}x = 1"))
    assert result.status == ends, result
    assert (result.error.name if ends == "error" else None) in (None, "AttributeError")
    assert wait(session.run("x")).status == ends
    back = "".join(f"del sys.modules[{name!r}]\n" for name in modules)
    assert wait(session.run(f"{back}x")).value == "1"


def test_output_is_bounded(session, wait):
    result = wait(session.run("for n in range(300_000): print('x' * 9, flush=True)\nprint('the end')"))
    assert result.truncated["stdout"] == 300_000 * 10 + 8 - (1 << 20)
    assert "bytes dropped" in result.stdout and result.stdout.endswith("the end\n")


def test_close_during_a_run(open_session, wait, twin):
    session = open_session(InProcessExecutor())
    run = wait(session.start("while True: pass"))
    assert wait(run.status()) in ("queued", "running")
    begin = time.monotonic()
    twin.close(session)
    assert time.monotonic() - begin < 5
    with pytest.raises(cella.SessionClosed):
        wait(session.run("1"))


def test_a_child_made_by_fork_has_no_session():
    with cella.sync.Session(InProcessExecutor()) as session:
        session.run("x = 1")
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                session.run("x")
            except cella.ForkedError:
                with cella.sync.Session(InProcessExecutor()) as own:
                    os.write(writing, own.run("2 + 2").value.encode())
            finally:
                os._exit(0)
        os.close(writing)
        assert os.read(reading, 10) == b"4"
        os.close(reading)
        os.waitpid(child, 0)
        result = session.run("import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nx")
        assert result.value == "1"


def test_value_of_and_wrong_executors(open_session, wait):
    session = open_session(InProcessExecutor(config=InProcessConfig(value_of=lambda value: f"<{value}>")))
    assert wait(session.run("5")).value == "<5>"
    for wrong in (InProcessExecutor, "inprocess", InProcessConfig()):
        with pytest.raises(TypeError, match="executor="):
            cella.Session(wrong)
    config = InProcessConfig(deps=["six"])
    assert (config.default_timeout, config.allow_runtime_deps) == (30.0, True)
    assert InProcessConfig.from_json(config.to_json()) == config


def test_dropped_sessions_and_the_stopper_end():
    before = {thread for thread in threading.enumerate() if thread.name.startswith("cella-")}
    session = cella.sync.Session(InProcessExecutor())
    session.run("1", timeout=3600)
    session.close()
    left = lambda: {t for t in threading.enumerate() if t.name.startswith("cella-")} - before  # noqa: E731
    assert wait_until(lambda: not left() and STOPPER._thread is None, 10), left()


def test_short_runs_share_one_stopper():
    started = []
    begin = STOPPER._begin
    STOPPER._begin = lambda: (started.append(1), begin())
    try:
        with cella.sync.Session(InProcessExecutor()) as session:
            for _ in range(200):
                session.run("x = 1")
    finally:
        del STOPPER._begin
    assert len(started) <= 20  # one for each second without a run


def test_snippets_for_this_executor_run_with_other_imports():
    """As py-code-mode documents them; only the imports are changed. Those with a storage: test_storage_snippets.py."""
    code = """
        from cella import Session
        from cella.execution import InProcessExecutor, InProcessConfig

        config = InProcessConfig(
            default_timeout=30.0,  # Default execution timeout in seconds
            allow_runtime_deps=True  # Allow agents to install packages at runtime
        )

        executor = InProcessExecutor(config=config)

        async def main():
            async with Session(executor=executor) as session:
                return await session.run("6 * 7")
    """
    names = {}
    exec(textwrap.dedent(code), names)
    import asyncio

    assert asyncio.run(names["main"]()).value == "42"


def test_figures_of_the_session_are_shown_and_those_of_the_caller_stay(session, wait):
    pytest.importorskip("matplotlib")
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    mine = plt.figure()
    mine.add_subplot()
    show = plt.show
    code = "import matplotlib.pyplot as plt\nfor n in range(2):\n    print(n); plt.figure(); plt.plot([n])\n"
    code += "    plt.show()\nplt.figure(); plt.plot([3]);"
    result = wait(session.run(code))
    assert result.stderr == "" and str(result).count("[image/png ") == 3, result
    assert [type(item).__name__ for item in result.items] == ["Text", "Output", "Text", "Output", "Output"]
    assert plt.get_fignums() == [mine.number] and plt.show is not show
    plt.close(mine)
