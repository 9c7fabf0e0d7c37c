"""The Python runner as a fork of its zygote."""

import json

import pytest

from python_runner import INTERPRETERS, Zygote

pytestmark = pytest.mark.parametrize("python", INTERPRETERS)


def test_forks_are_independent_sessions(python):
    with Zygote(python) as zygote:
        assert zygote.greeting == b"ready"
        with zygote.fork() as first, zygote.fork() as second:
            first.configure()
            second.configure()
            assert first.run("x = 1").status == "ok"
            assert first.run("x").value == "1"
            assert second.run("x").error["name"] == "NameError"
            assert first.run("print('out')").stdout == "out\n"


def test_fork_starts_with_configured_state_only(python):
    with Zygote(python) as zygote, zygote.fork() as runner:
        runner.configure(env={"ONLY": "this"}, cwd="/")
        names = "[name for name in list(globals()) if not name.startswith('__')]"
        assert runner.run(names).value == "[]"
        assert runner.run("_").value == "[]"
        assert runner.run("import os; dict(os.environ), os.getcwd()").value == "({'ONLY': 'this'}, '/')"
        assert runner.run("import sys; sys.argv, sys.path[0], __name__").value == "([''], '', '__main__')"
        assert runner.run("import linecache; sorted(linecache.cache)").value.count("cell ") == 5
        assert runner.run("import signal; signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL").value == "True"
        assert runner.run("import sys; sys.modules['__main__'].__dict__ is globals()").value == "True"
        assert runner.run("import threading; threading.current_thread() is threading.main_thread()").value == "True"


def test_last_value_of_the_warm_up_is_removed(python):
    with Zygote(python) as zygote, zygote.fork() as runner:
        runner.configure()
        assert runner.run("_").error["name"] == "NameError"


def modules(runner):
    return set(json.loads(runner.run("import sys, json\nprint(json.dumps(sorted(sys.modules)))").stdout))


FIRST_RUNS = ("x = 1", "print(1)", "[x, 'value']", "object()")
LATER_RUNS = ("1 / 0", "nothing_of_that_name", "def f(:", "await __import__('asyncio').sleep(0)", "!true", "%time 1")


@pytest.mark.parametrize("warm, runs", [(False, FIRST_RUNS), (True, FIRST_RUNS + LATER_RUNS)])
def test_runs_import_nothing_after_the_fork(python, warm, runs):
    with Zygote(python, first=0 if warm else 2) as zygote:
        if warm:
            assert zygote.control.recv(100) == b"warm"
        probe, runner = zygote.first or (zygote.fork(), zygote.fork())
        with probe, runner:
            probe.configure()
            runner.configure()
            for code in runs:
                runner.run(code)
            assert modules(runner) - modules(probe) == set()


def test_a_session_of_a_warm_zygote_reads_its_own_input(python):
    with Zygote(python) as zygote:
        assert zygote.control.recv(100) == b"warm"
        with zygote.fork() as runner:
            runner.configure()
            assert runner.run("input()", stdin="mine\n").value == "'mine'"


def test_session_forked_before_all_imports_is_complete(python):
    with Zygote(python, first=1) as zygote, zygote.first[0] as runner:
        runner.configure()
        assert not {"asyncio", "traceback"} & modules(runner)
        assert "1 / 0" in runner.run("1 / 0").error["traceback"]
        assert runner.run("import asyncio\nawait asyncio.sleep(0, 5)").value == "5"
        assert runner.run("!echo $((6 * 7))").stdout == "42\n"


def test_error_is_reported_when_the_traceback_modules_cannot_be_imported(python):
    with Zygote(python, first=1) as zygote, zygote.first[0] as runner:
        runner.configure()
        error = runner.run("files = []\nwhile True: files.append(open('/dev/null'))").error
        assert error["name"] == "OSError" and "Too many open files" in error["traceback"]
        assert runner.run("files.clear(); 'on'").value == "'on'"


def test_random_numbers_differ_between_sessions(python):
    with Zygote(python, '{"preload": ["random"]}') as zygote:
        drawn = set()
        for _ in range(3):
            with zygote.fork() as runner:
                runner.configure()
                drawn.add(runner.run("import random; random.random()").value)
        assert len(drawn) == 3


def test_missing_preload_is_named_and_ends_the_zygote(python):
    with Zygote(python, '{"preload": ["no_such_module"]}') as zygote:
        assert json.loads(zygote.greeting) == {
            "error": "--preload no_such_module: ModuleNotFoundError: No module named 'no_such_module'"
        }
        assert zygote.process.wait(20) == 1


def test_rejects_preload_that_starts_a_thread(python, tmp_path):
    (tmp_path / "starts_a_thread.py").write_text(
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    options = json.dumps({"preload": ["site", "starts_a_thread"]})
    with Zygote(python, options, cwd=str(tmp_path)) as zygote:
        assert "2 threads" in json.loads(zygote.greeting)["error"]
        assert zygote.process.wait(20) == 1


def test_fork_hooks_of_preloaded_modules_are_called_in_each_session(python, tmp_path):
    (tmp_path / "hooked.py").write_text(
        "import os\ncalls = []\n"
        "os.register_at_fork(before=lambda: calls.append('before'), after_in_child=lambda: calls.append('child'))\n"
    )
    with Zygote(python, json.dumps({"preload": ["hooked"]}), cwd=str(tmp_path)) as zygote:
        for _ in range(2):
            with zygote.fork() as session:
                session.configure()
                assert session.run("import hooked; hooked.calls").value == "['before', 'child']"
                assert session.run("import os; os.register_at_fork.__name__").value == "'register_at_fork'"


def test_fork_by_the_guest_calls_fork_hooks(python):
    code = (
        "import os, threading\n"
        "os.register_at_fork(after_in_child=lambda: os._exit(7))\n"
        "pid = os.fork()\n"
        "os.waitpid(pid, 0)[1] >> 8"
    )
    with Zygote(python) as zygote, zygote.fork() as session:
        session.configure()
        assert session.run(code).value == "7"
        assert session.run("threading.main_thread().native_id == os.getpid()").value == "True"


def test_an_interrupt_reaches_a_fork(python):
    with Zygote(python) as zygote, zygote.fork() as runner:
        runner.configure()
        runner.start("print('on')\nwhile True: pass")
        runner.wait_for_output("on")
        runner.interrupt()
        outcome = runner.finish()
        assert (outcome.status, outcome.done["exit_code"]) == ("interrupted", 130)
        assert runner.run("1").value == "1"


def test_output_of_c_code_is_in_order(python):
    with Zygote(python) as zygote, zygote.fork() as runner:
        runner.configure()
        code = "import ctypes; libc = ctypes.CDLL(None)\nprint('1'); libc.printf(b'2'); print('3'); libc.printf(b'4')"
        assert runner.run(code + ";").stdout == "1\n23\n4"
