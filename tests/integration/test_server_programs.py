"""Python programs of a server start from the warm interpreter, and print and return what `python3 program.py` does."""

import json
import subprocess

import pytest
from server import client, server  # noqa: F401
from support.cella import PYTHON
from support.python_programs import PROGRAMS as EVERY
from support.python_programs import without_addresses

ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", "TMPDIR": "/tmp",
    # As every guest has them: what was printed before a kill is not lost.
    "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1",
}  # fmt: skip
# JSON carries text alone.
PROGRAMS = {name: program for name, program in EVERY.items() if not any("\udc80" <= c <= "\udcff" for c in program.source)}
ALONE = [name for name, program in PROGRAMS.items() if not program.files]
# A stop of the whole jail keeps no more of a killed program than of any other.
EXIT_OF_SIGNAL = 128


def run_bare(program, directory):
    directory.mkdir()
    (directory / "program.py").write_bytes(program.source.encode("utf-8", "surrogateescape"))
    for name, text in program.files.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(text)
    text = {"stdin": subprocess.DEVNULL} if program.stdin is None else {"input": program.stdin.encode()}
    command = [PYTHON, "program.py", *program.args]
    done = subprocess.run(command, cwd=directory, env=ENVIRONMENT, capture_output=True, timeout=60, **text)
    code = done.returncode if done.returncode >= 0 else EXIT_OF_SIGNAL - done.returncode
    output = [stream.decode("utf-8", "replace").replace(str(directory), "/workspace") for stream in (done.stdout, done.stderr)]
    return [code, *map(without_addresses, output)]


def observed(result):
    assert result["status"] in ("ok", "error", "crashed"), result
    assert (result["value"], result["state"]) == (None, "none"), result
    return [result["exit_code"], *map(without_addresses, (result["stdout"], result["stderr"]))]


def body(program):
    document = {"language": "python", "code": program.source, "file": "program.py", "args": list(program.args)}
    return document if program.stdin is None else {**document, "stdin": program.stdin}


@pytest.mark.as_user
@pytest.mark.parametrize("name", ALONE)
def test_one_shot_program_is_that_of_the_bare_interpreter(client, tmp_path, name):
    program = PROGRAMS[name]
    result = client.post("/v1/run", **body(program)).expect(200)
    assert result["isolation"]["start"] == "fork"
    assert observed(result) == run_bare(program, tmp_path / "bare")


def test_batch_of_programs_is_that_of_the_bare_interpreter(client, tmp_path):
    snippets = [{**body(PROGRAMS[name]), "as": "program"} for name in ALONE]
    lines = client.post("/v1/batch", snippets=snippets, concurrency=4).expect(200).splitlines()
    results = {line["index"]: line["result"] for line in map(json.loads, lines)}
    for number, name in enumerate(ALONE):
        assert observed(results[number]) == run_bare(PROGRAMS[name], tmp_path / str(number)), name
        assert results[number]["isolation"]["start"] == "fork"


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_in_a_session_is_that_of_the_bare_interpreter(client, tmp_path, name):
    program = PROGRAMS[name]
    session = client.open()
    session.run("kept = 41")
    for path, text in program.files.items():
        client.ask("PUT", session.path("files/" + path), body=text).expect(201)
    run = client.post(session.path("runs"), **{"as": "program"}, **body(program)).expect(200)
    assert observed(run) == run_bare(program, tmp_path / "bare")
    assert session.run("kept + 1")["value"] == "42"
    assert session.delete().status == 204


def test_file_of_the_workspace_runs_in_another_directory(client):
    session = client.open()
    source = "import os, sys\nprint(os.getcwd(), sys.argv, sys.path[0], __file__)"
    client.ask("PUT", session.path("files/tools/show.py"), body=source).expect(201)
    client.ask("PUT", session.path("files/data/input"), body="").expect(201)
    asked = {"as": "program", "file": "tools/show.py", "cwd": "data", "args": ["x"]}
    shown = "/workspace/data ['/workspace/tools/show.py', 'x'] /workspace/tools /workspace/tools/show.py\n"
    for more in ({}, {"cwd": "/workspace/data"}):
        assert client.post(session.path("runs"), **{**asked, **more}).expect(200)["stdout"] == shown
    result = client.post(session.path("runs"), **{**asked, "cwd": "nowhere"}).expect(200)
    assert result["status"] == "rejected" and "/workspace/nowhere" in result["error"]["message"]
    result = client.post(session.path("runs"), **{**asked, "file": "none.py"}).expect(200)
    assert result["status"] == "rejected" and "none.py" in result["error"]["message"]
    # Other languages have the same words.
    client.ask("PUT", session.path("files/tools/show.sh"), body='echo "$PWD $0 $*"').expect(201)
    result = client.post(session.path("runs"), **{**asked, "file": "tools/show.sh", "language": "sh"}).expect(200)
    assert result["stdout"] == "/workspace/data /workspace/tools/show.sh x\n"
    session.delete()


@pytest.mark.parametrize(
    "variable", ["PYTHONPATH", "PYTHONWARNINGS", "LD_PRELOAD", "LC_ALL", "LANG", "MALLOC_ARENA_MAX"]
)
def test_variables_that_act_at_the_start_take_the_exec_path(client, variable):
    policy = {"env": {variable: "C"}}
    result = client.post("/v1/run", code="import os; print(os.environ['%s'])" % variable, policy=policy).expect(200)
    assert result["stdout"] == "C\n"
    assert result["isolation"]["start"] == "exec: %s acts at the start of an interpreter" % variable


def test_other_variables_are_the_programs(client):
    policy = {"env": {"MINE": "é", "TZ": "Asia/Tokyo", "HOME": "/tmp/home"}}
    code = "import os, time; print(os.environ['MINE'], time.tzname[0], os.path.expanduser('~'), len(os.environ))"
    result = client.post("/v1/run", code=code, policy=policy).expect(200)
    assert result["isolation"]["start"] == "fork"
    assert result["stdout"].startswith("é JST /tmp/home ")


def test_other_languages_say_so(client):
    result = client.post("/v1/run", language="bash", code="echo $0 $#", args=["a", "b c"]).expect(200)
    assert result["isolation"]["start"] == "exec: not Python"
    assert result["stdout"].endswith(" 2\n")


@pytest.mark.parametrize(
    "document",
    [
        {"code": "1", "as": "cell"},
        {"code": "1", "as": "thing"},
        {"code": "1", "args": "a"},
        {"code": "1", "args": [1]},
        {"code": "1", "args": ["x"] * 1001},
        {"code": "1", "args": ["x" * 200_000]},
        {"code": "1", "file": 5},
        {"code": "1", "cwd": "a\0b"},
        {"cwd": "/tmp"},
    ],
    ids=str,
)
def test_wrong_programs_are_refused(client, document):
    client.post("/v1/run", **document).error(400)


@pytest.mark.parametrize(
    "key, value",
    [("wait", False), ("wait", True), ("input", True), ("idempotency_key", "k"), ("id", "run_" + "a" * 20), ("variables", {"a": 1})],
)
def test_keys_of_session_runs_are_refused_without_a_session(client, key, value):
    message = f"{key}: only a run of a session has it"
    assert client.post("/v1/run", code="1", **{key: value}).error(400)["message"] == message
    batch = client.post("/v1/batch", snippets=[{"code": "1"}, {"code": "1", key: value}]).error(400)
    assert batch["message"] == message


@pytest.mark.parametrize("key", ["file", "args", "cwd"])
def test_cells_have_nothing_of_programs(client, key):
    value = ["x"] if key == "args" else "x"
    session = client.open()
    assert "program" in client.post(session.path("runs"), code="1", **{key: value}).error(400)["message"]
    client.post("/v1/batch", snippets=[{"code": "1", key: value}]).error(400)
    session.delete()


@pytest.mark.as_user
@pytest.mark.parametrize(
    "code, status, exit_code",
    [
        ("while True: pass", "timeout", 124),
        ("import time\nwhile True:\n    try: time.sleep(9)\n    except KeyboardInterrupt: pass", "timeout", 124),
        ("import os\nif os.fork() == 0:\n    while True: pass\nos.wait()", "timeout", 124),
    ],
)
def test_program_that_does_not_end_is_stopped(client, code, status, exit_code):
    result = client.post("/v1/run", code="print('begun', flush=True)\n" + code, timeout="500ms").expect(200)
    assert (result["status"], result["exit_code"], result["stdout"]) == (status, exit_code, "begun\n")


def test_program_ends_with_what_it_started(client):
    code = "import subprocess; subprocess.Popen(['sleep', '600']); print('main ends')"
    result = client.post("/v1/run", code=code).expect(200)
    assert (result["status"], result["stdout"]) == ("ok", "main ends\n")
    assert result["usage"]["cpu_ms"] > 0 and result["usage"]["wall_ms"] < 60_000


def test_files_of_a_program_are_reported_without_its_code(client):
    result = client.post("/v1/run", code="open('made.txt', 'w').write('x')", file="program.py").expect(200)
    assert [(file["path"], file["change"]) for file in result["files"]] == [("made.txt", "created")]
