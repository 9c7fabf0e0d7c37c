"""The executor `inprocess` of libcella: CPython in the application's own process, loaded on first use."""

import json
import os
import pathlib
import subprocess
import textwrap

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
        ({"workdir": "/tmp"}, "workdir"), ({"env": {"A": "1"}}, "env"), ({"network": "none"}, "network"),
    ],
)
def test_what_a_shared_process_cannot_have_is_refused(embed, policy, word):
    ended = embed("1", policy=policy)
    assert ended.exit_code == 1 and ended.text().startswith("refused: ") and word in ended.text(), ended.describe()


def test_limits_with_best_effort_are_reported(embed):
    assert shown(embed("6 * 7", policy={"limits": {"memory": "1g"}, "best_effort": True})) == "= 42\n"


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


def test_sessions_in_threads_mix_neither_names_nor_output(script):
    code = """
    def work(n, wrong):
        session = open_()
        for i in range(10):
            session.run(f"x = {n}; y = {i}")
            result = session.run("print(x, y); x + y")
            if (result.stdout, result.value) != (f"{n} {i}\\n".encode(), str(n + i).encode()): wrong.append((n, i))
        session.free()
    wrong = []
    threads = [threading.Thread(target=work, args=(n, wrong)) for n in range(8)]
    for each in threads: each.start()
    for each in threads: each.join()
    print(wrong, type(sys.stdout).__name__, threading.Thread.start.__module__)
    """
    assert shown(script(code)) == "[] TextIOWrapper threading\n"


def test_sandbox_and_inprocess_live_in_one_process(script):
    code = """
    plain, jailed = open_(), library.open(json.dumps({"python": sys.executable}))
    for session in (plain, jailed):
        session.run("x = 6")
        print(session.run("x * 7").value.decode(), session.supports("state"), session.supports("checkpoints"))
    plain.free(), jailed.free()
    """
    assert shown(script(code)) == "42 True False\n42 True True\n"


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
    """
    assert shown(script(code)) == "None\nTrue\n"


def test_process_exits_while_code_runs(script):
    code = """
    session = open_()
    run = session.start("while True: pass")
    run.next()
    print("leaving", flush=True)
    """
    assert shown(script(code, timeout=20)) == "leaving\n"


def test_embedded_process_exits_while_code_runs(embed):
    policy = {"limits": {"timeout": "200ms"}}
    assert shown(embed("import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()", policy=policy)) == ""
