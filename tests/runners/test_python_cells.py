"""Cells of the Python runner: values, state, errors, ends, forks."""

import os
import random
import signal
import threading
import time

import pytest

from driver import Runner
from python_runner import INTERPRETERS, command, runner  # noqa: F401


def test_the_last_expression_is_the_value(runner):
    assert runner.run("x = 20\nx + 1").value == "21"
    assert runner.run("'text'").value == "'text'"
    assert runner.run("x").mime == {"text/plain": "20"}


@pytest.mark.parametrize("code", ["None", "x = 1", "1;", "(1);", "f = 3; f ; # said", "", "# only this", "if True: 5"])
def test_cells_without_a_value_report_none(runner, code):
    outcome = runner.run(code)
    assert (outcome.status, outcome.value, outcome.error) == ("ok", None, None)


def test_semicolon_inside_the_last_expression_keeps_the_value(runner):
    assert runner.run("x = 1; x").value == "1"
    assert runner.run("'a;'").value == "'a;'"
    assert runner.run("'é;' # ;").value == "'é;'"


def test_the_last_value_is_underscore(runner):
    runner.run("[1, 2]")
    runner.run("x = 5")
    assert runner.run("_").value == "[1, 2]"
    assert runner.run("_ = 'mine'; _").value == "'mine'"


def test_top_level_await_works_in_all_forms(runner):
    code = """
import asyncio
class Manager:
    async def __aenter__(self): return 1
    async def __aexit__(self, *_): pass
async def numbers():
    for number in range(3):
        yield number
async with Manager() as one:
    found = [number async for number in numbers()]
async for last in numbers():
    await asyncio.sleep(0)
one, found, last, await asyncio.sleep(0, 'awaited')
"""
    assert runner.run(code).value == "(1, [0, 1, 2], 2, 'awaited')"


def test_tasks_continue_in_later_cells(runner):
    runner.run("import asyncio\nasync def work():\n    await asyncio.sleep(0.01)\n    return 'finished'")
    runner.run("task = asyncio.get_running_loop().create_task(work())")
    assert runner.run("await asyncio.sleep(0); task = asyncio.ensure_future(work())").status == "ok"
    assert runner.run("task.done()").value == "False"
    assert runner.run("await task").value == "'finished'"


def test_asyncio_run_works_in_a_plain_cell(runner):
    runner.run("import asyncio\nawait asyncio.sleep(0)")
    assert runner.run("async def f(): return 3\nasyncio.run(f())").value == "3"
    assert runner.run("await f()").value == "3"


def test_an_interrupted_await_runs_its_finally(runner):
    code = "try:\n    print('on')\n    await asyncio.sleep(60)\nfinally:\n    await asyncio.sleep(0)\n    ended = True"
    runner.start("import asyncio\n" + code)
    runner.wait_for_output("on")
    runner.interrupt()
    outcome = runner.finish()
    assert outcome.status == "interrupted" and outcome.error["name"] == "KeyboardInterrupt"
    assert runner.run("ended").value == "True"


def test_an_interrupt_ends_a_busy_coroutine(runner):
    runner.start("import asyncio\nawait asyncio.sleep(0)\nprint('on')\nwhile True: pass")
    runner.wait_for_output("on")
    runner.interrupt()
    assert runner.finish().status == "interrupted"
    assert runner.run("await asyncio.sleep(0, 1)").value == "1"


@pytest.mark.parametrize("code", ["while True: pass", "import time; time.sleep(60)", "input()"])
def test_interrupt_ends_the_run_and_keeps_the_state(runner, code):
    runner.start("kept = 1\nprint('on')\n" + code, input=True)
    runner.wait_for_output("on")
    if code == "input()":
        assert runner.receive()["type"] == "input_request"
    runner.interrupt()
    outcome = runner.finish()
    assert (outcome.status, outcome.done["exit_code"]) == ("interrupted", 130)
    assert '  File "cell 1", line ' in outcome.traceback and "cella_runner" not in outcome.traceback
    assert runner.run("kept").value == "1"


def test_an_interrupt_between_runs_is_ignored(runner):
    runner.run("import signal; signal.signal(signal.SIGINT, lambda *_: print('mine'))")
    runner.run("1")
    for _ in range(3):
        runner.interrupt()
        assert runner.run("2").value == "2"
    assert runner.run("3").value == "3"


def test_late_signal_of_an_earlier_run_does_not_end_the_next(runner):
    for wait in (0.0, 0.002, 0.05, 0.2):
        runner.run("import time")
        runner.send({"type": "interrupt", "run": "run_%d" % runner._number})
        runner.start("print('on', flush=True)\ntime.sleep(0.5)\n2")
        runner.wait_for_output("on")
        time.sleep(wait)
        os.kill(runner.pid, signal.SIGINT)
        assert runner.finish().value == "2"


def test_run_after_an_interrupted_one_can_be_interrupted_too(runner):
    for _ in range(3):
        runner.start("import time\nprint('on', flush=True)\ntime.sleep(60)")
        runner.wait_for_output("on")
        runner.interrupt()
        assert runner.finish().status == "interrupted"


def test_frame_that_comes_after_its_signal_interrupts(runner):
    runner.start("import time\nprint('on', flush=True)\ntime.sleep(60)")
    runner.wait_for_output("on")
    runner.interrupt()
    assert runner.finish().status == "interrupted"
    runner.start("print('on', flush=True)\ntime.sleep(60)")
    runner.wait_for_output("on")
    os.kill(runner.pid, signal.SIGINT)  # as if it were late
    time.sleep(0.05)
    runner.send({"type": "interrupt", "run": "run_%d" % runner._number})
    os.kill(runner.pid, signal.SIGURG)
    assert runner.finish().status == "interrupted"


FORKED = """import os, signal, subprocess, types
if hasattr(subprocess, "_fork_exec"):
    begin = subprocess._fork_exec
else:
    begin = subprocess._posixsubprocess.fork_exec
def fork_and_signal(*arguments):
    pid = begin(*arguments)
    os.kill(os.getpid(), signal.SIGINT)
    return pid
if hasattr(subprocess, "_fork_exec"):
    subprocess._fork_exec = fork_and_signal
else:
    subprocess._posixsubprocess = types.SimpleNamespace(fork_exec=fork_and_signal)
subprocess._USE_POSIX_SPAWN = False
"""


LIVING_CHILD = """import time
def lives():
    try:
        return os.waitpid(-1, os.WNOHANG) == (0, 0)
    except ChildProcessError:
        return False
end = time.monotonic() + 5
while lives() and time.monotonic() < end: time.sleep(0.01)
lives()"""


def test_interrupt_while_a_program_is_started_forgets_no_child(runner):
    runner.run(FORKED)
    runner.start("subprocess.run(['sleep', '60'])")
    runner.nudge()
    assert runner.finish().status == "interrupted"
    assert runner.run(LIVING_CHILD).value == "False"


def test_code_that_sends_itself_the_signal_is_interrupted(runner):
    assert runner.run("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n'on'").status == "interrupted"


def test_blocked_signal_does_not_end_the_next_run(runner):
    blocked = "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})\nprint('on', flush=True)"
    runner.start(blocked + "\ntime.sleep(0.3)\n'deaf'")
    runner.wait_for_output("on")
    runner.interrupt()
    assert runner.finish().value == "'deaf'"
    assert runner.run("'next'").value == "'next'"
    runner.start("print('on', flush=True)\ntime.sleep(60)")
    runner.wait_for_output("on")
    runner.interrupt()
    assert runner.finish().status == "interrupted"


@pytest.mark.parametrize("meant", [True, False])
def test_early_input_is_kept_when_a_run_looks_for_its_interrupt(runner, meant):
    runner.run("1")
    os.kill(runner.pid, signal.SIGSTOP)
    if not meant:
        runner.interrupt()
    runner.start("input()", input=True)
    runner.send({"type": "input_reply", "text": "ahead"})
    if meant:
        runner.interrupt()
    os.kill(runner.pid, signal.SIGCONT)
    outcome = runner.finish(["too late"])
    assert (outcome.status, outcome.value) == (("interrupted", None) if meant else ("ok", "'ahead'"))


def test_interrupts_at_random_moments_do_not_end_the_session(runner):
    codes = ["x = 1", "print('a' * 100)", "[1]", "display('z' * 100000)", "1/0", "await asyncio.sleep(0)"]
    over = threading.Event()

    def shower():
        while not over.wait(random.random() * 0.002):
            runner.interrupt()

    runner.run("import asyncio; await asyncio.sleep(0)")
    thread = threading.Thread(target=shower)
    thread.start()
    try:
        statuses = {runner.run(codes[number % len(codes)]).status for number in range(200)}
    finally:
        over.set()
        thread.join()
    assert "interrupted" in statuses
    runner.run("0")  # the last signal may have come for this one
    assert runner.run("'alive'").value == "'alive'"
    assert runner.run("await asyncio.sleep(0, 'alive')").value == "'alive'"


def test_sigurg_delivers_a_pending_interrupt_and_has_no_other_effect(runner):
    nudge = "import os, signal\nos.kill(os.getpid(), signal.SIGURG)\n'went on'"
    assert runner.run(nudge).value == "'went on'"
    answer = runner.run("signal.getsignal(signal.SIGINT).__self__.pending = True\n" + nudge)
    assert (answer.status, answer.error["name"]) == ("interrupted", "KeyboardInterrupt")
    assert runner.run(nudge).value == "'went on'"


def test_traceback_has_frames_of_the_cell_but_none_of_the_runner(runner):
    outcome = runner.run("def f():\n    return 1 / 0\n")
    outcome = runner.run("f()")
    assert outcome.status == "error" and outcome.done["exit_code"] == 1
    assert outcome.error["name"] == "ZeroDivisionError" and outcome.error["message"] == "division by zero"
    lines = [line for line in outcome.traceback.splitlines() if "^" not in line]
    assert lines == [
        "Traceback (most recent call last):",
        '  File "cell 2", line 1, in <module>',
        "    f()",
        '  File "cell 1", line 2, in f',
        "    return 1 / 0",
        "ZeroDivisionError: division by zero",
    ]
    assert outcome.stderr == ""


def test_traceback_uses_the_given_file_name(runner):
    assert 'File "analysis.py", line 2' in runner.run("\n1/0", file="analysis.py").traceback


def test_traceback_shows_chained_errors(runner):
    text = runner.run("try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('b') from e").traceback
    assert "KeyError: 'a'" in text and "direct cause" in text and text.rstrip().endswith("ValueError: b")


def test_syntax_error_marks_the_position(runner):
    outcome = runner.run("x = 1\ny = = 2")
    assert outcome.error["name"] == "SyntaxError"
    assert outcome.traceback.startswith('  File "cell 1", line 2\n')
    assert "y = = 2" in outcome.traceback and "^" in outcome.traceback
    assert "Traceback" not in outcome.traceback
    assert runner.run("eval('1 +')").traceback.startswith("Traceback")


def test_traceback_shows_exception_groups(runner):
    if runner.version < (3, 11):
        assert runner.run("ExceptionGroup").error["name"] == "NameError"
        return
    text = runner.run("raise ExceptionGroup('many', [ValueError(1), TypeError(2)])").traceback
    assert "ExceptionGroup: many (2 sub-exceptions)" in text and "ValueError: 1" in text and "TypeError: 2" in text
    assert "cella_runner" not in text


@pytest.mark.parametrize(
    "code",
    [
        "def f(): f()\nf()",
        "def f(): g()\ndef g(): h()\ndef h(): f()\nf()",
        "import sys; sys.setrecursionlimit(6000)\n"
        "def f(n): return n and g(n - 1)\ndef g(n): return f(n) if n else 1/0\nf(2000)",
    ],
)
def test_deep_recursion_is_folded(runner, code):
    outcome = runner.run(code)
    assert outcome.error["name"] in ("RecursionError", "ZeroDivisionError")
    assert 200 < len(outcome.traceback) < 20_000
    assert runner.run("1").value == "1"


@pytest.mark.parametrize(
    "body",
    [
        "def __str__(self): raise ValueError('no')",
        "def __str__(self): return 5",
        "def __str__(self): return str(self)",
        "def __repr__(self): 1/0",
        "__module__ = 5",
        "__qualname__ = 'other'",
    ],
)
def test_exceptions_with_failing_methods_are_reported(runner, body):
    outcome = runner.run("class Odd(Exception):\n    %s\nraise Odd" % body)
    assert outcome.status == "error" and outcome.error["name"] == "Odd"
    assert runner.run("1").value == "1"


def test_deep_exception_chain_is_reported(runner):
    code = "error = None\nfor n in range(5000):\n    new = ValueError(n); new.__context__ = error; error = new\n"
    outcome = runner.run(code + "raise error")
    assert outcome.error["message"] == "4999" and "ValueError: 4999" in outcome.traceback


@pytest.mark.parametrize(
    "code, exit_code, stderr",
    [
        ("sys.exit()", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit(256 + 7)", 7, ""),
        ("sys.exit('a reason')", 1, "a reason\n"),
        ("exit(4)", 4, ""),
        ("raise SystemExit(True)", 1, ""),
    ],
)
def test_exit_keeps_the_state(runner, code, exit_code, stderr):
    outcome = runner.run("import sys; kept = 1\n" + code)
    assert (outcome.status, outcome.done["exit_code"], outcome.stderr) == ("exit", exit_code, stderr)
    assert outcome.error is None
    assert runner.run("kept").value == "1"
    assert runner.run("input()", stdin="still").value == "'still'"


def test_exit_works_in_a_thread_and_in_a_coroutine(runner):
    code = "import threading, sys\nt = threading.Thread(target=sys.exit); t.start(); t.join(); 1"
    assert runner.run(code).value == "1"
    assert runner.run("import asyncio\nawait asyncio.sleep(0)\nsys.exit(2)").done["exit_code"] == 2
    assert runner.run("await asyncio.sleep(0, 1)").value == "1"


def test_forked_process_ends_with_its_cell(runner):
    code = "import os\npid = os.fork()\nif not pid: print('child', flush=True)\nelse: os.waitpid(pid, 0)\npid"
    outcome = runner.run(code)
    assert len(outcome.of("done")) == 1 and outcome.stdout == "child\n" and int(outcome.value) > 0
    outcome = runner.run("pid = os.fork()\nif not pid: display(1); 1/0\nos.WEXITSTATUS(os.waitpid(pid, 0)[1])")
    assert outcome.value == "1" and "ZeroDivisionError" in outcome.stderr and outcome.displays == []
    outcome = runner.run("pid = os.fork()\nif not pid: raise SystemExit(7)\nos.WEXITSTATUS(os.waitpid(pid, 0)[1])")
    assert outcome.value == "7" and runner.run("1").value == "1"


def test_main_is_a_real_module(runner):
    runner.run("import pickle, dataclasses, sys\n@dataclasses.dataclass\nclass Point:\n    x: int = 1")
    assert runner.run("pickle.loads(pickle.dumps(Point(3)))").value == "Point(x=3)"
    assert runner.run("sys.modules['__main__'].Point is Point, __name__, __builtins__.__name__").value == (
        "(True, '__main__', 'builtins')"
    )


def test_multiprocessing_fork_works(runner):
    code = """
import multiprocessing, os
def square(x):
    return x * x
with multiprocessing.get_context("fork").Pool(2) as pool:
    result = pool.map(square, range(4))
result
"""
    assert runner.run(code).value == "[0, 1, 4, 9]"


def test_argv_path_and_main_match_an_interactive_interpreter(runner, tmp_path):
    (tmp_path / "local_module.py").write_text("answer = 42")
    runner.configure(cwd=tmp_path, env={"A": "b"})
    assert runner.run("import sys, os; sys.argv, sys.path[0], os.getcwd(), dict(os.environ)").value == (
        "([''], '', %r, {'A': 'b'})" % str(tmp_path)
    )
    assert runner.run("[p for p in sys.path if 'cella' in p or 'runners' in p]").value == "[]"
    assert runner.run("import local_module; local_module.answer").value == "42"
    assert runner.run("[n for n in globals() if not n.startswith('__')]").value == "['sys', 'os', 'local_module']"


def test_sources_are_found_and_bounded(runner):
    runner.run("def f():\n    return 5")
    assert runner.run("import inspect; inspect.getsource(f)").value == repr("def f():\n    return 5\n")
    for _ in range(120):
        runner.run("pass")
    assert runner.run("import linecache; len([n for n in linecache.cache if n.startswith('cell ')])").value == "101"
    assert runner.run("inspect.getsource(f)").value == repr("def f():\n    return 5\n")


@pytest.mark.parametrize("end", ["", "\n"])
def test_carets_point_at_the_expression(runner, end):
    lines = runner.run("x = 0\n1 / x" + end).traceback.splitlines()
    if len(lines) > 4:  # newer Pythons mark the expression
        assert lines[2:4] == ["    1 / x", "    ~~^~~"]


def test_stack_and_warnings_show_no_frames_of_the_runner(runner):
    outcome = runner.run("import traceback\ndef f(): traceback.print_stack()\nf()")
    assert [line.strip().partition(",")[0] for line in outcome.stderr.splitlines() if "File" in line] == [
        'File "cell 1"', 'File "cell 1"'
    ]
    outcome = runner.run("import warnings\ndef g(): warnings.warn('careful', stacklevel=2)\ng()")
    assert outcome.stderr.startswith("cell 2:3: UserWarning: careful")
    outcome = runner.run("warnings.warn('too far', stacklevel=5)")
    assert outcome.stderr.startswith("cell 3:1: UserWarning: too far")


def test_future_imports_hold_for_later_cells(runner):
    runner.run("from __future__ import annotations")
    assert runner.run("def f(x: undefined): pass\nf.__annotations__").value == "{'x': 'undefined'}"


def test_memory_error_is_an_error(runner):
    assert runner.run("raise MemoryError").error["name"] == "MemoryError"
    assert runner.run("b'x' * (1 << 62)").error["name"] == "MemoryError"


@pytest.mark.parametrize("code", ["x = '\0'", "(" * 3000, "\ufeff1", "x = 1\r\nx\r\n", "\t1", "1 if"])
def test_unusual_source_text_runs(runner, code):
    assert runner.run(code).status in ("ok", "error")
    assert runner.run("1").value == "1"


def test_a_tiny_recursion_limit_does_not_end_the_session(runner):
    runner.run("import sys; sys.setrecursionlimit(60)")
    runner.run("def f(): f()\nf()")
    assert runner.run("sys.setrecursionlimit(1000)").status == "ok"
    assert runner.run("1").value == "1"


def test_large_request_runs(runner):
    outcome = runner.run("x = '''%s'''\nlen(x)" % ("a" * (5 << 20)))
    assert outcome.value == str(5 << 20)


def test_runner_ends_when_its_socket_closes(runner):
    runner.run("import threading; threading.Thread(target=threading.Event().wait).start()")
    runner.socket.close()
    assert runner.process.wait(10) == 0


def test_closing_all_descriptors_ends_the_runner_without_output(runner):
    runner.start("import os; os.closerange(3, 1024)")
    assert runner.process.wait(10) == 0


def test_runner_works_with_few_descriptors():
    python = INTERPRETERS[0]
    with Runner(["/usr/bin/prlimit", "--nofile=32", *command(python)], checkpoints=True) as small:
        small.configure()
        assert small.run("import os; os.closerange(0, 20)").status == "ok"
        assert small.run("print('here'); open('/dev/null').close()").stdout == "here\n"
