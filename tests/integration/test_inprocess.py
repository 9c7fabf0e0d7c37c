"""--executor inprocess: the chosen Python as a plain process, on the command line and over HTTP."""

import json
import os

import pytest
from pythons import make_venv
from server import serve  # noqa: F401 - a fixture
from support.cella import PYTHON
from support.leftovers import assert_no_process
from support.running import HAS_CGROUPS, wait_until

pytestmark = pytest.mark.as_user

ALLOWED = {"allow": {"executors": ["sandbox", "inprocess"]}}


@pytest.fixture
def temporary(tmp_path):
    """A temporary directory of its own, which must be empty after the test."""
    directory = tmp_path / "t"
    directory.mkdir()
    yield directory
    assert os.listdir(directory) == []


@pytest.fixture
def plain(temporary, open_session):
    def start(*flags, **options):
        options["with_env"] = {"TMPDIR": str(temporary), **options.get("with_env", {})}
        return open_session("--executor", "inprocess", *flags, **options)

    return start


def test_isolation_says_that_the_interpreter_is_a_plain_process(plain):
    result = plain().run("x = 41; print('out'); x + 1")
    assert (result["status"], result["value"], result["stdout"], result["state"]) == ("ok", "42", "out\n", "kept")
    isolation = result["isolation"]
    assert (isolation["executor"], isolation["namespaces"], isolation["seccomp"]) == ("inprocess", [], False)
    assert (isolation["network"], isolation["proc"]) == ("host", "host")
    assert isolation["start"] == "exec: plain process"
    assert (isolation["runs_as"], isolation["python"]) == ("plain process", PYTHON)
    assert isolation["limits"]["memory"]["by"] == ("cgroup" if HAS_CGROUPS else "rlimit+watchdog")
    assert result["checkpoint"] == "off"


def test_code_runs_as_the_caller_with_clean_variables_in_a_private_directory(plain, temporary):
    session = plain(with_env={"SECRET": "x", "PYTHONPATH": "/nowhere"})
    seen = json.loads(session.run("import json, os; print(json.dumps([os.getuid(), os.getcwd(), dict(os.environ)]))")["stdout"])
    uid, directory, variables = seen
    assert uid == os.getuid() and directory.startswith(f"{temporary}/cella-local-")
    assert "SECRET" not in variables and "/nowhere" not in variables["PYTHONPATH"] and variables["TMPDIR"] == str(temporary)
    files = session.run("open('made', 'w').write('x')")["files"]
    assert [(file["path"], file["size"], file["change"]) for file in files] == [("made", 1, "created")]
    session.close()
    assert not os.path.exists(directory)


def test_workdir_is_the_working_directory(plain, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "mine.py").write_text("answer = 42\n")
    assert plain("--workdir", work).value("import mine; mine.answer") == "42"


def test_virtual_environment_is_the_interpreter(plain, tmp_path):
    venv = make_venv(PYTHON, tmp_path / "venv")
    assert plain("--venv", venv, python=None).value("import sys; sys.prefix") == repr(str(venv))


def test_timeout_interrupts_and_keeps_the_variables(plain):
    session = plain()
    session.run("x = 1")
    result = session.run("import time; time.sleep(60)", timeout="200ms")
    assert (result["status"], result["exit_code"], result["state"]) == ("timeout", 124, "kept")
    assert session.value("x") == "1"


def test_code_that_ignores_the_timeout_is_killed_with_its_children_and_a_fresh_interpreter_follows(plain, token):
    session = plain()
    session.run("x = 1")
    code = f"""
import signal, subprocess, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
subprocess.Popen(["sleep", "60.{token}"], start_new_session=True)
print("ready")
while True:
    try: time.sleep(60)
    except BaseException: pass
"""
    result = session.run(code, timeout="500ms")
    assert (result["status"], result["state"], result["stdout"]) == ("timeout", "lost", "ready\n")
    assert_no_process(token, 5)
    assert session.run("x")["error"]["name"] == "NameError"


@pytest.mark.parametrize("ending", ["os._exit(3)", "os.kill(os.getpid(), 11)"])
def test_crash_is_an_answer_and_loses_the_state(plain, ending):
    session = plain()
    session.run("x = 1")
    result = session.run(f"import os; print('before', flush=True); {ending}")
    assert (result["state"], result["stdout"]) == ("lost", "before\n")
    assert session.run("x")["error"]["name"] == "NameError"


def test_interpreter_that_is_killed_between_runs_is_started_anew(plain):
    session = plain()
    pid = int(session.value("import os; os.getpid()"))
    os.kill(pid, 9)
    assert wait_until(lambda: not os.path.exists(f"/proc/{pid}"))
    assert session.value("6 * 7") == "42"


def test_memory_limit_ends_the_run_and_not_the_session(plain):
    session = plain("--memory", "200m")
    result = session.run("x = bytearray(600 << 20)")
    assert result["status"] == "oom" or result["error"]["name"] == "MemoryError", result
    assert session.value("1 + 1") == "2"


def test_interrupt_raises_keyboard_interrupt_and_keeps_the_variables(plain):
    session = plain()
    number = session.send(code="x = 7\nprint('on', flush=True)\nwhile True: pass", events=True)
    while "stdout" != session.answer(number).get("event", {}).get("type"):
        pass
    assert session.ask(op="interrupt")["interrupted"] is True
    while "result" not in (answer := session.answer(number)):
        pass
    assert (answer["result"]["error"]["name"], answer["result"]["state"]) == ("KeyboardInterrupt", "kept")
    assert session.value("x") == "7"


def test_reset_forgets_variables_ends_processes_and_keeps_files(plain, token):
    session = plain()
    session.run(f"x = 1; open('kept', 'w').close(); import subprocess; subprocess.Popen(['sleep', '60.{token}'])")
    assert session.ask(op="reset") == {"id": 2, "ok": True}
    assert_no_process(token, 5)
    assert session.run("x")["error"]["name"] == "NameError"
    assert session.value("import os; os.listdir()") == "['kept']"


@pytest.mark.parametrize("language", ["bash", "javascript", "c"])
def test_other_languages_are_refused_by_name(plain, run, language):
    result = plain().run("1", language=language)
    assert result["status"] == "rejected"
    assert result["error"]["message"] == f"the inprocess executor runs Python, not {language}: use the sandbox executor"
    assert language in run.rejected("-c", "1", "--lang", language, "--executor", "inprocess")


def test_one_shot_run_is_a_program_with_arguments_and_exit_code(run, temporary):
    code = "import sys; print(__name__, sys.argv[1:], input()); sys.exit(7)"
    words = ("-c", code, "--python", PYTHON, "--executor", "inprocess")
    environment = {"TMPDIR": str(temporary)}
    ended = run(*words, "--", "a", "b", with_env=environment, input=b"typed\n")
    assert (ended.exit_code, ended.stdout) == (7, b"__main__ ['a', 'b'] typed\n"), ended.describe()
    isolation = run.json("-c", "1", "--executor", "inprocess", with_env=environment)["isolation"]
    assert (isolation["executor"], isolation["runs_as"]) == ("inprocess", "plain process")


def test_rejects_what_a_plain_process_cannot_have(run):
    for flags in (("--network", "none"), ("--mount", "/etc:/x"), ("--rootfs", "/"), ("--image", "x")):
        assert "inprocess" in run.rejected("-c", "1", "--executor", "inprocess", *flags)


def test_piped_repl_runs_one_cell(cella, environment):
    ended = cella("repl", "--executor", "inprocess", "--python", PYTHON, env=environment, input=b"6 * 7")
    assert (ended.exit_code, ended.stdout) == (0, b"42\n"), ended.describe()


def test_server_answers_403_unless_the_operator_allows_it(serve):  # noqa: F811
    client = serve().client()
    refused = client.post("/v1/sessions", executor="inprocess").error(403)
    assert refused["message"] == "executor: this server does not allow 'inprocess'"
    assert client.post("/v1/run", code="1", policy={"executor": "inprocess"}).status == 403
    allowed = serve(config=ALLOWED).client()
    session = allowed.open(executor="inprocess")
    assert session.description["executor"] == "inprocess"
    assert {"state", "value", "interrupt", "completion", "reset", "files"} <= set(session.description["capabilities"])
    assert {"deps", "process_isolation", "timeout"} <= set(session.description["capabilities"])
    assert not {"jail", "checkpoints", "filesystem_isolation", "deps_install"} & set(session.description["capabilities"])
    assert session.value("6 * 7") == "42"
    assert session.client.post(session.path("checkpoints"), name="a").error(409)["code"] == "unsupported"
    assert session.delete().status == 204


def test_files_of_a_session_over_http_are_those_of_the_code(serve):  # noqa: F811
    session = serve(config=ALLOWED).client().open(executor="inprocess")
    session.client.ask("PUT", session.path("files", "in.txt"), body=b"sent").expect(201)
    assert session.value("open('in.txt').read()") == "'sent'"
    session.run("open('out.txt', 'w').write('made')")
    assert session.client.get(session.path("files", "out.txt")).body == b"made"
    assert session.delete().status == 204
