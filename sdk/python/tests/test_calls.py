"""Calls from code to the host: what is recorded of them, their limits, cella-call, and guests that do their worst."""

import contextlib
import hashlib
import json
import pathlib
import sqlite3
import time

import pytest

import cella
from cella import _private_server
from support.needs import require
from support.running import wait_until

PYTHON = "/usr/bin/python3"
# Speaks to the call socket without the runner's client.
RAW = """
import os, socket, struct, json
def connect():
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(20)
    connection.connect(os.environ["CELLA_CALLS"])
    return connection
def frame(header, body=b"{}"):
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<II", len(header), len(body)) + header + body
def answer(connection):
    try:
        sizes = connection.recv(8, socket.MSG_WAITALL)
    except OSError:
        return None
    if len(sizes) < 8:
        return None
    head, body = struct.unpack("<II", sizes)
    return json.loads(connection.recv(head, socket.MSG_WAITALL)), connection.recv(body, socket.MSG_WAITALL)
"""


def add(a: int, b: int = 2) -> int:
    """Adds two numbers."""
    return a + b


def echo(value):
    return value


@pytest.fixture
def session(open_session):
    made = open_session(cella.SandboxExecutor(python_version=PYTHON))
    made.tool(add)
    made.tool(echo)
    return made


PLACES = [
    "sandbox", pytest.param("subprocess", marks=pytest.mark.needs("jupyter")),
    pytest.param("container", marks=pytest.mark.needs("docker")),
]


@pytest.fixture
def placed(open_session):
    """A session with the tools, in an executor whose processes call through a socket."""

    def make(place, **fields):
        if place == "container":
            engine = require("docker")
            fields = {"engine": engine["DOCKER_HOST"], "image": engine["CELLA_TEST_IMAGE"], **fields}
            executor = cella.ContainerExecutor(auth_disabled=True, **fields)
        elif place == "subprocess":
            executor = cella.SubprocessExecutor(python_version=require("jupyter")["JUPYTER_PYTHON"], **fields)
        else:
            executor = cella.SandboxExecutor(python_version=PYTHON, **fields)
        made = open_session(executor)
        made.tool(add)
        made.tool(echo)
        return made

    return make


def registry_rows(run):
    state = pathlib.Path(_private_server.private_server()._state.path, "state")
    for path in state.rglob("*"):
        with contextlib.suppress(OSError, sqlite3.Error):
            if path.name.endswith(".db"):
                with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
                    query = "SELECT name, outcome, wall_ms FROM calls WHERE run = ? ORDER BY seq"
                    return database.execute(query, [run]).fetchall()
    return []


# What is recorded


def test_each_call_is_an_event_and_a_row_of_the_audit(session, wait):
    events = []
    code = "tools.add(1)\ntry:\n    tools.add('secret-in')\nexcept ToolError:\n    pass\ntools.echo('secret-out')"
    result = wait(session.run(code, on_event=events.append))
    assert result.value == "'secret-out'", result
    shown = [event.document for event in events if event.type == "tool"]
    assert [(each["namespace"], each["name"], each["status"]) for each in shown] == [
        ("tools", "add", "ok"), ("tools", "add", "error"), ("tools", "echo", "ok")
    ]
    keys = {"n", "type", "namespace", "name", "status", "wall_ms"}
    assert all(each["wall_ms"] > 0 and set(each) == keys for each in shown)
    assert not any("secret" in str(each) for each in shown)
    wait_until(lambda: len(registry_rows(result.id)) == 3)
    rows = registry_rows(result.id)
    assert [row[:2] for row in rows] == [("tools.add", "ok"), ("tools.add", "error"), ("tools.echo", "ok")]
    assert "secret" not in str(rows)


def test_call_that_ends_with_its_run_is_recorded_as_cancelled(session, wait):
    import threading

    end = threading.Event()
    session.tool(name="hang", timeout=2)(lambda: end.wait(20))
    events = []
    result = wait(session.run("tools.hang()", timeout=0.3, on_event=events.append))
    assert result.status == "timeout"
    assert [event.document["status"] for event in events if event.type == "tool"] == ["cancelled"]
    end.set()


def test_capability_calls_is_listed(session, open_session, wait):
    assert session.supports("calls")
    wait(session.open())
    assert session.supports("calls")
    local = open_session(cella.LocalExecutor(python_version=PYTHON))
    wait(local.open())
    assert local.supports("calls")


# Limits


def test_limits_of_calls_are_keys_of_the_policy(open_session, wait):
    small = open_session(
        cella.SandboxExecutor(python_version=PYTHON, calls_limit=3, calls_at_once_limit=1, call_size_limit="2k")
    )
    small.tool(add)
    small.tool(echo)
    code = """
found = []
for words in ([1], [2], [3], [4]):
    try:
        found.append(tools.add(*words))
    except HostCallError as error:
        found.append(str(error))
found
"""
    assert wait(small.run(code)).value == "[3, 4, 5, 'more than 3 calls in one run']"
    assert "limited to 2048 bytes" in wait(small.run("tools.echo('x' * 3000)")).error.message
    assert wait(small.run("len(tools.echo('x' * 1000))")).value == "1000"


def test_limits_of_calls_have_bounds(open_session, wait):
    with pytest.raises(cella.CellaError, match="call_size"):
        wait(open_session(cella.SandboxExecutor(call_size_limit="2m")).open())


# cella-call


def words_of(result):
    assert result.status == "ok", result
    return result.stdout.splitlines()


def test_bash_calls_tools_by_their_names(session, wait):
    code = "cella-call add a=1\ncella-call add a=1 b=5\ncella-call echo value=text"
    result = wait(session.run(code, language="bash"))
    assert words_of(result) == ["3", "6", "text"], result


def test_words_become_what_the_schema_names(session, wait):
    @session.tool
    def kinds(i: int, f: float, b: bool, s: str, rows: list[int], d: dict) -> list:
        return [i, f, b, s, rows, d]

    result = wait(session.run("cella-call kinds i=7 f=2 b=yes s=7 rows='[1,2]' d='{\"a\":1}'", language="bash"))
    assert json.loads(result.stdout) == [7, 2.0, True, "7", [1, 2], {"a": 1}], result
    wrong = wait(session.run("cella-call kinds i=x f=2 b=yes s=7 rows='[]' d='{}'", language="bash"))
    assert (wrong.status, wrong.exit_code) == ("error", 1) and "i=x" in wrong.stderr
    assert words_of(wait(session.run("cella-call echo value:='{\"a\": [null]}'", language="bash"))) == ['{"a": [null]}']
    piped = wait(session.run("echo '{\"a\": 2, \"b\": 3}' | cella-call add -", language="bash"))
    assert words_of(piped) == ["5"]


def test_errors_of_a_call_are_on_stderr_with_an_exit_code(session, wait):
    for words, code, text in (
        ("absent", 1, "ToolNotFoundError: there is no tool 'absent': there are add, echo"),
        ("absent a=1", 1, "ToolNotFoundError"), ("add a=1 c=2", 1, "unexpected keyword argument 'c'"), ("", 2, "usage"),
        ("add a", 2, "must be key=value"), ("--wrong", 2, "usage"), ("add a:=[", 2, "no JSON"),
        ("unknown.operation", 3, "namespace"),
    ):
        result = wait(session.run(f"cella-call {words}", language="bash"))
        assert (result.exit_code, result.stdout) == (code, "") and text in result.stderr, (words, result)


def test_list_and_describe_show_what_there_is(session, wait):
    result = wait(session.run("cella-call --list\ncella-call --describe add", language="bash"))
    lines = words_of(result)
    assert lines[:2] == ["add\tAdds two numbers.", "echo\t"] and json.loads(lines[2])["schema"]["required"] == ["a"]


def test_javascript_and_programs_call_tools(session, wait):
    code = "require('child_process').execFileSync('cella-call', ['add', 'a=1'], {encoding: 'utf8'}).trim()"
    assert wait(session.run(code, language="javascript")).value == "'3'"
    code = "import subprocess\nsubprocess.check_output(['cella-call', 'add', 'a=4'], text=True)"
    assert wait(session.run(code)).value == "'6\\n'"
    assert words_of(wait(session.run("cella-call add a=5", language="sh"))) == ["7"]


def test_local_executor_calls_tools_through_the_command(open_session, wait):
    local = open_session(cella.LocalExecutor(python_version=PYTHON))
    local.tool(add)
    result = wait(local.run("cella-call add a=1", language="bash"))
    assert words_of(result) == ["3"], result
    code = "import subprocess; print(subprocess.check_output(['cella-call', 'add', 'a=4'], text=True), end='')"
    assert words_of(wait(local.run(code))) == ["6"]


@pytest.mark.parametrize("place", PLACES[1:])
def test_command_is_on_the_path_in_every_executor(placed, wait, place):
    session = placed(place)
    code = "import subprocess\nsubprocess.check_output(['cella-call', 'add', 'a=4'], text=True)"
    assert wait(session.run(code)).value == "'6\\n'"


def test_one_shot_program_of_a_session_has_tools(session, wait):
    """A fork of the warm interpreter that runs a program."""
    import asyncio

    client = session.client
    wait(session.open())
    request = {"code": "print(tools.add(1))\nimport sys\nprint(len(sys.argv))", "as": "program"}

    async def run():
        return await client.run(session.id, request)

    result = wait(run()) if asyncio.iscoroutinefunction(client.run) else client.run(session.id, request)
    # No channel serves the call: the program finds the names, and the error of the host.
    assert "ToolNotFoundError" in result.stderr, result


# Values


def test_values_become_variables_without_source_text(session, wait):
    given = {"text": "é'\"\\\n\0", "data": bytes(range(256)), "rows": [{"z": 1, "a": None}], "deep": [[[[[[1]]]]]]}
    result = wait(session.run("text, data, rows, deep", variables=given))
    assert eval(result.value) == tuple(given.values()), result
    wait(session.put("text", "new"))
    assert wait(session.run("text, len(data)")).value == "('new', 256)"


@pytest.mark.parametrize("place", PLACES)
def test_large_values_of_each_kind_arrive_whole(placed, wait, place):
    session = placed(place)
    data = bytes(range(256)) * (1 << 14)
    rows = [{"n": n, "text": "é" * 20} for n in range(20_000)]
    wait(session.put("data", data))
    wait(session.put("text", "é" * (1 << 20)))
    wait(session.put("rows", rows))
    check = (
        "import hashlib, json, os\nhashlib.sha256(data).hexdigest(), len(text), set(text), "
        "hashlib.sha256(json.dumps(rows).encode()).hexdigest(), [n for n in os.listdir() if n.startswith('.cella')]"
    )
    result = wait(session.run(check))
    digests = [hashlib.sha256(each).hexdigest() for each in (data, json.dumps(rows).encode())]
    assert eval(result.value) == (digests[0], 1 << 20, {"é"}, digests[1], []), result
    whole = wait(session.run("len(data), len(rows)", variables={"data": data[: 1 << 20], "rows": rows[:5]}))
    assert whole.value == f"({1 << 20}, 5)" and whole.document["files"] == []


def test_value_survives_a_crash_of_the_next_run(session, wait):
    wait(session.put("kept", [1, 2]))
    crashed = wait(session.run("import os; os.kill(os.getpid(), 9)"))
    assert (crashed.status, crashed.state) == ("crashed", "rolled_back")
    assert wait(session.run("kept")).value == "[1, 2]"


def test_javascript_gets_values(session, wait):
    given = {"text": "é", "data": b"\x00\xff", "rows": [{"a": 1}], "long": "x" * 100_000}
    code = "JSON.stringify([text, [...data], rows, long.length])"
    result = wait(session.run(code, language="javascript", variables=given))
    assert json.loads(result.value.strip("'")) == ["é", [0, 255], [{"a": 1}], 100_000], result


@pytest.mark.parametrize("place", ["sandbox", pytest.param("container", marks=pytest.mark.needs("docker"))])
def test_bash_gets_values_as_texts(placed, wait, place):
    given = {"text": "é", "rows": [{"a": 1}], "long": "é" * 100_000, "raw": b"\xff" * 70_000, "nothing": None}
    code = "echo \"$text $rows ${nothing-unset}.\"; LC_ALL=C; echo ${#long} ${#raw}; ls -A | grep -c cella-value; true"
    session = placed(place)
    result = wait(session.run(code, language="bash", variables=given))
    assert result.stdout == 'é [{"a":1}] .\n200000 70000\n0\n', result
    assert wait(session.run("echo ${text}", language="bash")).stdout == "é\n"
    refused = wait(session.run("echo ran", language="bash", variables={"raw": b"a\0b"}))
    assert "NUL" in refused.error.message and refused.stdout == "", refused
    assert wait(session.run("text", variables={"text": "of Python"})).value == "'of Python'"


@pytest.mark.parametrize("value", [object(), {1, 2}, float("nan"), {"a": b"x"}, print])
def test_what_is_no_value_is_refused_with_a_remedy(session, wait, value):
    with pytest.raises(TypeError, match="convert the value"):
        wait(session.put("x", value))
    with pytest.raises(TypeError, match="text, bytes and JSON values"):
        wait(session.run("1", variables={"x": value}))


@pytest.mark.parametrize("name", ["", "1x", "a-b", "__builtins__", "x" * 129, "é"])
def test_names_that_code_cannot_have_are_refused(session, wait, name):
    with pytest.raises(cella.CellaError):
        wait(session.put(name, 1))
    with pytest.raises(cella.CellaError, match="no name"):
        wait(session.run("1", variables={name: 1}))


def test_executor_without_state_takes_no_values(open_session, wait):
    local = open_session(cella.LocalExecutor(python_version=PYTHON))
    with pytest.raises(cella.CellaError, match="write a file"):
        wait(local.put("x", 1))
    assert "write a file" in str(wait(local.run("print(1)", variables={"x": 1})).error)


# Faults


@pytest.mark.parametrize("place", PLACES)
def test_forged_frames_harm_only_their_own_connection(placed, wait, place):
    session = placed(place)
    code = RAW + """
forged = [
    b"", b"\\0" * 7, b"\\xff" * 8, struct.pack("<II", 10, 5) + b"short", frame(b"[]"), frame(b"{"),
    frame({"space": "tools"}),
    frame({"space": "tools", "operation": "../add"}), frame({"space": "input", "operation": "read"}),
    frame({"space": "tools", "operation": "add"}, b"["), frame({"space": "tools", "operation": "add"}, b'{"args": 1}'),
    frame({"space": "tools", "operation": "add"}, b'{"args": [' + b"[" * 5000), os.urandom(4096),
    frame({"space": "nothing", "operation": "x"}), frame(b"x" * 4097),
]
said = []
for each in forged:
    with connect() as connection:
        connection.sendall(each)
        connection.shutdown(socket.SHUT_WR)
        said.append(answer(connection))
assert all(each is None or "error" in each[0] for each in said), said
tools.add(1)
"""
    result = wait(session.run(code))
    assert result.value == "3", result
    assert wait(session.run("tools.add(2)")).value == "4"


@pytest.mark.parametrize("place", PLACES)
def test_ten_thousand_connections_do_no_harm(placed, wait, place):
    session = placed(place, default_timeout=100) if place != "container" else placed(place, timeout=100)
    other = placed("sandbox")
    wait(other.open())
    rounds = 10_000 if place == "sandbox" else 1_000
    code = RAW + f"""
kept, refused = [], 0
for n in range({rounds}):
    try:
        connection = connect()
    except OSError:
        refused += 1
        continue
    if len(kept) < 200:
        kept.append(connection)
    else:
        connection.close()
for connection in kept:
    connection.close()
len(kept) > 0
"""
    result = wait(session.run(code))
    assert result.value == "True", result
    assert wait(other.run("tools.add(1)")).value == "3"
    assert wait(session.run("tools.add(1)")).value == "3"


@pytest.mark.parametrize("place", PLACES)
def test_calls_without_end_end_with_the_run(placed, wait, twin, place):
    session = placed(place)
    code = """
import threading
def call():
    while True:
        try:
            tools.add(1)
        except HostCallError:
            pass
for _ in range(4):
    threading.Thread(target=call, daemon=True).start()
call()
"""
    result = wait(session.run(code, timeout=1.5))
    assert result.status == "timeout", result
    wait(session.reset())
    assert wait(session.run("tools.add(1)")).value == "3"
    began = time.monotonic()
    twin.close(session)
    assert time.monotonic() - began < 10


def test_records_of_refused_calls_are_bounded(open_session, wait):
    session = open_session(cella.SandboxExecutor(python_version=PYTHON, calls_limit=1))
    session.tool(add)
    events = []
    code = "for n in range(400):\n    try:\n        tools.add(n)\n    except HostCallError:\n        pass"
    result = wait(session.run(code, on_event=events.append))
    assert result.status == "ok", result
    assert sum(event.type == "tool" for event in events) == 101


def test_local_programs_have_the_variables_of_calls_only_if_there_is_something_to_call(open_session, wait):
    show = "import os, shutil; print('CELLA_CALLS' in os.environ, shutil.which('cella-call') is not None)"
    session = open_session(cella.LocalExecutor(python_version=PYTHON, allow_runtime_deps=False))
    assert wait(session.run(show)).stdout == "False False\n"
    session.tool(add)
    assert wait(session.run(show)).stdout == "True True\n"
