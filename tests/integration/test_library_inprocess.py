"""The executor `inprocess` of libcella: CPython in the application's own process, loaded on first use."""

import json
import os
import pathlib
import subprocess
import textwrap
import time

import pytest
from support.cella import PYTHON, REPOSITORY, program, run_bounded
from support.libcella import library_path

TESTS = REPOSITORY / "tests"
pytestmark = pytest.mark.skipif(
    not (library_path().exists() and (program().parent / "cella-python.so").exists())
    and "CELLA_TESTS_MUST_RUN" not in os.environ,
    reason="needs libcella.so and cella-python.so: build them first",
)


@pytest.fixture
def script(environment):
    """Runs code that has `library` and `open_` in a Python of its own: a process that has an interpreter."""

    def start(code, *words, python=PYTHON, **options):
        text = "import json, os, signal, sys, threading, time\nfrom support.libcella import Failure, Library\n"
        text += "library = Library()\ndef open_(**policy):\n    return library.open(json.dumps({'executor': 'inprocess', **policy}))\n"
        env = {**environment, "PYTHONPATH": str(TESTS), "CELLA_BIN": str(program())}
        return run_bounded([python, "-B", "-c", text + textwrap.dedent(code), *words], env=env, **options)

    return start


@pytest.fixture(scope="module")
def application(tmp_path_factory):
    """A program in C, which has no interpreter: runs each line of its input in a session with the policy of argv[1]."""
    directory = tmp_path_factory.mktemp("application")
    source = directory / "run.c"
    source.write_text(
        r"""
#include <cella.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <locale.h>
int main(int argc, char** argv) {
  char line[65536];
  struct sigaction before[65], after;
  for (int s = 1; s < 65; ++s) sigaction(s, NULL, &before[s]);
  cella_error* error = NULL;
  cella_session* session = cella_session_open(NULL, argv[1], &error);
  if (session == NULL) { printf("refused: %s\n", cella_error_message(error)); return 1; }
  while (fgets(line, sizeof line, stdin) != NULL) {
    for (char* c = line; *c; ++c) if (*c == '\t') *c = '\n';
    cella_result* result = cella_session_run(session, line, strlen(line), &error);
    if (result == NULL) { printf("failed: %s\n", cella_error_message(error)); return 1; }
    printf("%s", cella_result_output(result, CELLA_STDOUT, NULL));
    if (cella_result_value(result, NULL)) printf("= %s\n", cella_result_value(result, NULL));
    int status = (int)cella_outcome_status(cella_result_outcome(result));
    if (status != 0) printf("(%d)\n", status);
    cella_result_free(result);
  }
  for (int s = 1; s < 65; ++s) {
    if (sigaction(s, NULL, &after) == 0 && after.sa_handler != before[s].sa_handler) printf("changed: signal %d\n", s);
  }
  if (strcmp(setlocale(LC_ALL, NULL), "C") != 0) printf("changed: locale\n");
  cella_session_free(session);
  return argc > 2;
}
"""
    )
    command = ["gcc", "-std=gnu99", str(source), f"-I{REPOSITORY}/include", f"-L{library_path().parent}", "-lcella"]
    subprocess.run([*command, f"-Wl,-rpath,{library_path().parent}", "-o", str(directory / "run")], check=True)
    return directory / "run"


@pytest.fixture
def embed(application, environment):
    def start(*lines, policy=None, document=None, **options):
        text = "".join(line.replace("\n", "\t") + "\n" for line in lines)
        document = document or {"executor": "inprocess", "python": PYTHON, **(policy or {})}
        words = [str(application), json.dumps(document)]
        return run_bounded(words, env=environment, input=text.encode(), **options)

    return start


def shown(finished):
    assert (finished.exit_code, finished.stderr) == (0, b""), finished.describe()
    return finished.text()


# --- A process without an interpreter ---


def test_session_keeps_state_in_the_process_of_the_application(embed):
    code = ["x = 6", "print('hi')", "x * 7", "import os; os.getpid() > 1", "1/0", "x"]
    assert shown(embed(*code)) == "hi\n= 42\n= True\n(1)\n= 6\n"


def pythons():
    """With a shared library: the distribution's, and those of a version manager."""
    found = [PYTHON]
    for directory in sorted(pathlib.Path("/root/.pyenv/versions").glob("3.*")) if os.access("/root", os.R_OK) else []:
        if tuple(map(int, directory.name.split(".")[:2])) >= (3, 9) and list(directory.glob("lib/libpython3.*.so.1.0")):
            found.append(str(directory / "bin/python3"))
    return found


@pytest.mark.parametrize("python", pythons())
def test_one_build_runs_every_python(embed, python):
    version = subprocess.run([python, "-c", "import sys; print(sys.version_info[:3])"], capture_output=True, text=True)
    code = ["import sys, json, ssl, ctypes; sys.version_info[:3]", "def f(n): return sum(range(n))", "f(10)"]
    assert shown(embed(*code, policy={"python": python})) == f"= {version.stdout.strip()}\n= 45\n"


def test_virtual_environment_is_used(embed, tmp_path):
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    site = next((tmp_path / "venv/lib").glob("python*/site-packages"))
    (site / "only_here.py").write_text("answer = 42\n")
    document = {"executor": "inprocess", "venv": str(tmp_path / "venv")}
    assert shown(embed("import only_here; only_here.answer", document=document)) == "= 42\n"


def test_nothing_of_the_process_is_changed(embed):
    """The application compares its signal handlers and its locale at the end."""
    code = ["import threading, subprocess; subprocess.run(['true']).returncode", "'ok'"]
    assert shown(embed(*code)) == "= 0\n= 'ok'\n"


def test_python_without_a_shared_library_is_refused_with_the_remedy(embed, tmp_path):
    prefix = tmp_path / "static"
    (prefix / "bin").mkdir(parents=True)
    found = subprocess.run(["ldd", PYTHON], capture_output=True, text=True).stdout
    if "libpython" in found:
        pytest.skip("the distribution's Python needs its shared library")
    from pythons import copy_prefix

    copied = copy_prefix(prefix / "py")
    for library in prefix.rglob("libpython3*.so*"):
        library.unlink()
    ended = embed("1", policy={"python": str(copied or prefix / "py/bin/python3")})
    assert ended.exit_code == 1 and ended.text().startswith("refused: "), ended.describe()
    assert "has no shared library (libpython3" in ended.text() and "--enable-shared" in ended.text()


def test_timeout_ends_code_and_keeps_its_variables(embed):
    policy = {"limits": {"timeout": "300ms"}}
    assert shown(embed("x = 1", "while True: pass", "x", policy=policy)) == "(2)\n= 1\n"


def test_code_that_does_not_notice_its_end_is_left_behind_and_the_session_goes_on(embed):
    policy = {"limits": {"timeout": "200ms"}}
    stuck = "import time\nx = 1\ntime.sleep(8)"
    assert shown(embed(stuck, "'x' in globals()", "6 * 7", policy=policy)) == "(2)\n= False\n= 42\n"


@pytest.mark.parametrize(
    "policy, word",
    [
        ({"limits": {"memory": "1g"}}, "limits.memory"), ({"limits": {"pids": 9}}, "limits.pids"),
        ({"limits": {"cpu_time": "1s"}}, "limits.cpu_time"), ({"limits": {"cpus": 1}}, "limits.cpus"),
        ({"limits": {"disk": "1m"}}, "limits.disk"), ({"limits": {"open_files": 64}}, "limits.open_files"),
        ({"workdir": "/tmp"}, "workdir"), ({"env": {"A": "1"}}, "env"), ({"network": "none"}, "network"),
        ({"mounts": [{"source": "/etc", "target": "/x"}]}, "mounts"), ({"rootfs": "/"}, "rootfs"), ({"preload": ["json"]}, "preload"),
        ({"checkpoint": "always"}, "checkpoint"), ({"kernel": "python3"}, "kernel"), ({"jail": True}, "jail"),
        ({"environment": {"packages": ["x"]}}, "environment"), ({"deps": ["x"]}, "deps"),
    ],
)
def test_what_a_shared_process_cannot_have_is_refused(embed, policy, word):
    ended = embed("1", policy=policy)
    assert ended.exit_code == 1 and ended.text().startswith(f"refused: {word}"), ended.describe()
    # What to do instead.
    assert any(remedy in ended.text() for remedy in ("sandbox", "subprocess", "venv", "server", "best_effort")), ended.describe()


def test_value_of_assignments_and_larger_output_limit_hold(script):
    code = """
    session = open_(value_of="last_expr_or_assign", limits={"output": "4m"})
    print(session.run("x = 6 * 7").value.decode())
    print(len(session.run("print('y' * (3 << 20))").stdout))
    small = open_(limits={"output": "64k"})
    result = small.run("print('y' * (1 << 20))")
    print(len(result.stdout) <= (64 << 10) + 100, json.loads(result.json)["truncated"]["stdout"] >= (1 << 20) - (64 << 10))
    session.free(), small.free()
    """
    assert shown(script(code)) == f"42\n{(3 << 20) + 1}\nTrue True\n"


def test_limits_with_best_effort_are_reported(embed):
    assert shown(embed("6 * 7", policy={"limits": {"memory": "1g"}, "best_effort": True})) == "= 42\n"


def test_recursion_and_replaced_streams_end_with_their_run(embed):
    deep = "def f(): return f()\nf()"
    stolen = "import io, sys\nsys.stdout = sys.stderr = io.StringIO()\nprint('gone')"
    assert shown(embed(deep, "6 * 7", stolen, "print('back')")) == "(1)\n= 42\nback\n"


def test_child_that_code_forks_ends_with_its_cell(embed):
    code = "import os\npid = os.fork()\nx = 'parent' if pid else 'child'\nx"
    assert shown(embed(code, "os.waitpid(pid, 0)[1]", "x")) == "= 'parent'\n= 0\n= 'parent'\n"


@pytest.mark.parametrize("code, ending", [("import os; os._exit(3)", 3), ("import ctypes; ctypes.string_at(0)", -11)])
def test_what_ends_the_interpreter_ends_the_process(embed, code, ending):
    """A documented limit: nothing hangs, and nothing is left behind but the private directory."""
    ended = embed("1", code, "2")
    assert ended.exit_code in (ending, 128 - ending) and ended.text() in ("", "= 1\n"), ended.describe()


# --- A process that has an interpreter ---


def test_interpreter_of_the_process_is_used(script):
    code = """
    session = open_()
    print(session.run("import os, sys; os.getpid()").value.decode() == str(os.getpid()))
    session.run("import builtins; builtins.seen_by_all = 42")
    print(seen_by_all)
    session.run("print('not on the process\\'s stdout')")
    print(json.loads(session.run("1").json)["isolation"]["runs_as"])
    session.free()
    print(type(sys.stdout).__name__)
    """
    assert shown(script(code)) == "True\n42\nthis process\nTextIOWrapper\n"


def test_second_version_is_refused_with_the_remedy(script):
    others = [each for each in pythons() if each != PYTHON]
    if not others:
        pytest.skip("needs a second Python with a shared library")
    code = """
    try: open_(python=sys.argv[1])
    except Failure as failure: print(failure.code, failure)
    session = open_(python=sys.executable)
    print(session.run("6 * 7").value.decode())
    """
    answer = shown(script(code, others[0]))
    assert answer.startswith("unsupported this process runs Python ") and answer.endswith("\n42\n"), answer
    assert "a process has one interpreter" in answer


def test_sessions_in_threads_that_start_threads_mix_neither_names_nor_output(script):
    code = """
    import textwrap
    CODE = textwrap.dedent('''
        import sys, threading
        def speak(index):
            for turn in range(20):
                print(name, index, turn)
                print(name, index, turn, file=sys.stderr)
        threads = [threading.Thread(target=speak, args=(index,)) for index in range(3)]
        for each in threads: each.start()
        for each in threads: each.join()
        name
    ''')
    def work(n, wrong):
        session = open_()
        name = f"session-{n}"
        for _ in range(5):
            session.run(f"name = {name!r}")
            result = json.loads(session.run(CODE).json)
            lines = sorted(f"{name} {index} {turn}" for index in range(3) for turn in range(20))
            for seen in (result["stdout"], result["stderr"]):
                if sorted(seen.splitlines()) != lines: wrong.append((n, seen))
            if result["value"] != repr(name): wrong.append((n, result["value"]))
        session.free()
    def hooks(): return type(sys), threading.Thread.start, sys.stdin, sys.stdout, sys.stderr
    before, wrong = hooks(), []
    threads = [threading.Thread(target=work, args=(n, wrong)) for n in range(16)]
    for each in threads: each.start()
    for each in threads: each.join()
    end = time.monotonic() + 10
    while hooks() != before and time.monotonic() < end: time.sleep(0.01)
    print(wrong, hooks() == before)
    """
    assert shown(script(code)) == "[] True\n"


def test_sandbox_and_inprocess_live_in_one_process(script):
    code = """
    plain, jailed = open_(), library.open(json.dumps({"python": sys.executable}))
    for session in (plain, jailed):
        session.run("x = 6")
        print(session.run("x * 7").value.decode(), session.supports("state"), session.supports("checkpoints"))
    plain.free(), jailed.free()
    """
    assert shown(script(code)) == "42 True False\n42 True True\n"


def test_pip_line_is_refused_with_the_remedy(script):
    """The caller's environment is not the session's."""
    code = """
    session = open_()
    result = json.loads(session.run("%pip install six").json)
    print(result["error"]["name"], "environment" in result["stderr"])
    words = ("timeout", "reset", "process_isolation", "memory_limit", "deps")
    print([session.supports(word) for word in words])
    """
    assert shown(script(code)) == "UsageError True\n[True, True, False, False, False]\n"


def test_code_calls_functions_of_the_application(script):
    """Also from threads and coroutines; a function runs in the thread of the application that runs the code."""
    code = """
    session, threads = open_(), []
    def add(text):
        threads.append(threading.get_ident())
        arguments = json.loads(text)
        return json.dumps(sum(arguments["args"]) + sum(value for _, value in arguments["kwargs"]))
    def fail(text): raise KeyError("no such key")
    session.tool("add", add, "Adds numbers.")
    session.tool("fail", fail)
    print(session.supports("calls"))
    def show(code):
        result = json.loads(session.run(code).json)
        print(result["value"], result["stdout"].strip(), (result["error"] or {}).get("name"))
    show("tools.add(1, 2), tools.add(1, b=5), [each.name for each in tools.list()]")
    show("tools.fail()")
    show("try: tools.absent()\\nexcept ToolNotFoundError as error: print(error)")
    show("import asyncio\\nawait asyncio.gather(*(tools.add(n, 1) for n in range(3)))")
    show("import threading\\nfound = []\\nthreads = [threading.Thread(target=lambda: found.append(tools.add(4, 4))) for _ in range(3)]\\n"
         "for each in threads: each.start()\\nfor each in threads: each.join()\\nfound")
    show("tools.add('x' * (2 << 20))")
    session.do("reset")
    show("tools.add(2, 2)")
    print(set(threads) == {threading.get_ident()})
    session.free()
    """
    assert shown(script(code)).splitlines() == [
        "True", "(3, 6, ['add', 'fail'])  None", "None  ToolError",
        "None there is no tool 'absent': there are add, fail None", "[1, 2, 3]  None", "[8, 8, 8]  None",
        "None  HostCallError", "4  None", "True",
    ]


def test_code_that_waits_for_a_function_notices_the_timeout_and_keeps_its_variables(script):
    code = """
    session = open_(limits={"timeout": "300ms"})
    release = threading.Event()
    def wait(text):
        release.wait(20)
        return "1"
    session.tool("wait", wait)
    session.run("x = 7")
    run = session.start("tools.wait()")
    threading.Thread(target=lambda: (time.sleep(1.5), release.set())).start()
    result = run.wait()
    print(result.status, json.loads(result.json)["state"], session.run("x").value.decode())
    session.free()
    """
    assert shown(script(code)) == "timeout kept 7\n"


def test_private_directory_of_a_session_ends_with_it(script, tmp_path):
    (tmp_path / "t").mkdir()
    code = """
    os.environ["TMPDIR"] = sys.argv[1]
    session = open_()
    session.run("1")
    print(len(os.listdir(sys.argv[1])), oct(os.stat(os.path.join(sys.argv[1], os.listdir(sys.argv[1])[0])).st_mode & 0o777))
    session.free()
    print(os.listdir(sys.argv[1]))
    """
    assert shown(script(code, str(tmp_path / "t"))) == "1 0o700\n[]\n"


def test_input_events_and_interrupt(script):
    code = """
    session = open_()
    run = session.start("print('before')\\nname = input('who? ')\\nprint('hi', name)\\nlen(name)", answers_input=True)
    for kind, text in run.events():
        if kind == "input_request": run.reply("you")
        print(kind, (text or b"").decode().strip())
    run.free()
    run = session.start("print('on')\\nwhile True: pass")
    while run.next()[1] != "output": pass
    run.interrupt()
    print(json.loads(run.wait().json)["error"]["name"])
    print(session.run("name").value.decode())
    session.free()
    """
    answer = shown(script(code)).splitlines()
    assert answer[-2:] == ["KeyboardInterrupt", "'you'"], answer
    assert any(line.startswith("input") for line in answer), answer


def test_child_of_fork_is_refused_and_the_parent_goes_on(script):
    code = """
    session = open_()
    pid = os.fork()
    if pid == 0:
        for attempt in (lambda: session.run("1"), open_):
            try: attempt()
            except Failure as failure: print(failure.code, flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
    print(session.run("6 * 7").value.decode())
    session.free()
    """
    assert shown(script(code)) == "closed\nunsupported\n42\n"


def test_thread_with_the_lock_of_the_interpreter_is_refused(script):
    """ctypes.PyDLL keeps the lock."""
    code = """
    import ctypes
    from support.libcella import library_path
    c = ctypes.PyDLL(str(library_path()))
    c.cella_session_open.restype = ctypes.c_void_p
    c.cella_error_message.restype = ctypes.c_char_p
    error = ctypes.c_void_p()
    print(c.cella_session_open(None, b'{"executor": "inprocess"}', ctypes.byref(error)))
    print(b"Py_BEGIN_ALLOW_THREADS" in c.cella_error_message(error))
    session = open_()
    session.run("x = 1")
    c.cella_session_run.restype = ctypes.c_void_p
    print(c.cella_session_run(ctypes.c_void_p(session.handle), b"x", ctypes.c_size_t(1), ctypes.byref(error)))
    run = session.start("x + 1")
    c.cella_run_wait.restype = ctypes.c_void_p
    print(c.cella_run_wait(ctypes.c_void_p(run.handle), ctypes.byref(error)))
    print(b"Py_BEGIN_ALLOW_THREADS" in c.cella_error_message(error), run.wait().value)
    session.free()
    """
    assert shown(script(code)) == "None\nTrue\nNone\nNone\nTrue b'2'\n"


def test_process_exits_while_a_session_is_still_being_opened(script):
    """Python ends the thread that opens sessions then; that must not end the process."""
    code = """
    start = threading.Thread.start
    def slow(self):
        start(self)
        while self.name == "cella-door" and self._target.__name__ == "write":
            time.sleep(0.001)
    threading.Thread.start = slow
    session = open_()
    print(session.run("6 * 7").value.decode())
    """
    for _ in range(3):
        assert shown(script(code)) == "42\n"


def test_process_exits_while_code_runs(script):
    code = """
    session = open_()
    run = session.start("while True: pass")
    run.next()
    print(time.monotonic(), flush=True)
    """
    assert time.monotonic() - float(shown(script(code, timeout=20))) < 4.5  # not given up after five seconds


def test_process_exits_while_sessions_are_opened(script):
    """Its interpreter ends the library's thread wherever that wants the interpreter's lock."""
    code = """
    def open_many():
        while True: open_()
    open_()
    for _ in range(2): threading.Thread(target=open_many, daemon=True).start()
    time.sleep(0.05)
    """
    assert [shown(script(code)) for _ in range(20)] == [""] * 20


def test_embedded_process_exits_while_code_runs(embed):
    policy = {"limits": {"timeout": "200ms"}}
    assert shown(embed("import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()", policy=policy)) == ""
