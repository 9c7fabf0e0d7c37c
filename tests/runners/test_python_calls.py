"""Calls to the host from Python: the runner's client against a server of the test, outside any jail."""

import json
import os
import socket
import struct
import threading

import pytest
from driver import ENVIRONMENT
from python_runner import INTERPRETERS, runner, start, version_of  # noqa: F401


class Host:
    """Answers `echo` with the arguments, `fail` with an error, `leave` with the end of the connection. Ends a connection
    after `last` and after a refusal."""

    def __init__(self, path):
        self.path = path
        self.calls = []
        self.connections = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(16)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, connection.makefile("rb") as stream:
            operation = ""
            while operation not in ("leave", "last", "refuse"):
                prefix = stream.read(8)
                if len(prefix) < 8:
                    return
                header_size, body_size = struct.unpack("<II", prefix)
                header, body = json.loads(stream.read(header_size)), stream.read(body_size)
                self.calls.append((header, json.loads(body)))
                operation = header["operation"]
                if operation != "leave":
                    self._answer(connection, operation, body)

    def _answer(self, connection, operation, body):
        answer, value = {}, body
        if operation == "fail":
            answer, value = {"error": {"type": "NotesError", "message": "no such note"}}, b""
        if operation == "refuse":
            answer, value = {"error": {"type": "CallRefused", "message": "too many"}}, b""
        head = json.dumps(answer).encode()
        connection.sendall(struct.pack("<II", len(head), len(value)) + head + value)

    def close(self):
        self._listener.close()


@pytest.fixture
def host(tmp_path):
    made = Host(str(tmp_path / "calls"))
    yield made
    made.close()


@pytest.fixture(params=INTERPRETERS, ids=lambda python: "%d.%d" % version_of(python))
def calling(request, host):
    with start(request.param) as started:
        env = {**ENVIRONMENT, "CELLA_CALLS": host.path}
        started.send({"type": "configure", "env": env, "cwd": "/tmp", "spaces": ["notes"]})
        yield started


def test_arguments_arrive_in_their_order(calling, host):
    outcome = calling.run("notes.add('rich', 1.5, None, [True], z={'b': 1, 'a': 2}, a='é\\ud800')")
    assert outcome.status == "ok", outcome.error
    header, body = host.calls[0]
    assert header == {"space": "notes", "operation": "add"}
    assert body["args"] == ["rich", 1.5, None, [True]]
    assert [name for name, _ in body["kwargs"]] == ["z", "a"] and list(body["kwargs"][0][1]) == ["b", "a"]


def test_errors_of_the_host_name_the_call(calling):
    outcome = calling.run(
        "try:\n    notes.fail()\nexcept Exception as error:\n"
        "    print(type(error).__name__, error.namespace, error.operation, error.type, error)"
    )
    assert outcome.stdout == "HostCallError notes fail NotesError no such note\n"
    assert calling.run("notes.leave()").error["message"] == "the run ended before the call"


@pytest.mark.parametrize("argument", ["{1, 2}", "object()", "float('nan')", "b'bytes'"])
def test_arguments_that_are_no_json_are_explained(calling, host, argument):
    error = calling.run("notes.add(%s)" % argument).error
    assert error["name"] == "TypeError" and error["message"].startswith("notes.add: ")
    assert not host.calls


def test_large_arguments_are_refused_before_they_are_sent(calling, host):
    error = calling.run("notes.add('x' * (1 << 20))").error
    assert error["name"] == "HostCallError" and "write a file" in error["message"]
    assert not host.calls


def test_host_that_is_not_there_is_an_error(calling, host):
    host.close()
    os.unlink(host.path)
    assert "the host cannot be reached" in calling.run("notes.add(1)").error["message"]


def test_threads_and_processes_call(calling, host):
    outcome = calling.run(
        "import os, threading, multiprocessing, socket\n"
        "socket.setdefaulttimeout(0.000001)\n"
        "threads = [threading.Thread(target=notes.add, args=(n,)) for n in range(5)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "    print(sorted(len(answer['args']) for answer in pool.map(notes.add, range(4))))\n"
    )
    assert (outcome.status, outcome.stdout) == ("ok", "[1, 1, 1, 1]\n"), outcome.error
    assert sorted(body["args"][0] for _, body in host.calls) == [0, 0, 1, 1, 2, 2, 3, 3, 4]


def test_no_connection_and_no_thread_stays(calling):
    calling.run("import os; before = sorted(os.listdir('/proc/self/fd')), len(os.listdir('/proc/self/task'))")
    calling.run("notes.add(1); notes.add(2)")
    assert calling.run("(sorted(os.listdir('/proc/self/fd')), len(os.listdir('/proc/self/task'))) == before").value == "True"


def test_calls_of_one_run_share_a_connection(calling, host):
    for count in (1, 2):
        assert calling.run("for n in range(20): notes.add(n)").status == "ok"
        assert host.connections == count
    code = "import os\nnotes.add(1)\nif os.fork() == 0:\n    notes.add(2)\n    os._exit(0)\nos.wait()\nnotes.add(3)"
    assert calling.run(code).status == "ok"
    assert host.connections == 4 and [body["args"] for _, body in host.calls[-3:]] == [[1], [2], [3]]


def test_connection_of_a_thread_ends_with_the_run(calling):
    calling.run("import os, threading; before = sorted(os.listdir('/proc/self/fd'))")
    code = "thread = threading.Thread(target=notes.add, args=(2,))\nthread.start(); notes.add(1); thread.join()"
    assert calling.run(code).status == "ok"
    assert calling.run("sorted(os.listdir('/proc/self/fd')) == before").value == "True"


def test_file_that_took_the_number_of_a_closed_connection_stays_open(calling, host):
    code = (
        "import os\nnotes.add(1)\nos.closerange(3, 256)\nfiles = [os.open('/dev/null', 0) for _ in range(4)]\nnotes.add(2)\n"
        "os.closerange(max(files) + 1, 256)"
    )
    for count in (2, 4):
        assert calling.run(code).status == "ok"
        assert calling.run("[os.read(each, 1) for each in files]").value == "[b'', b'', b'', b'']"
        assert host.connections == count


def test_connection_that_the_host_ended_is_not_used_again(calling, host):
    code = (
        "import time\nnotes.last(1)\ntime.sleep(0.1)\n"
        "for call in (notes.refuse, notes.leave):\n"
        "    try:\n        call()\n    except Exception as error:\n        print(error.type)\n"
        "notes.add(2)"
    )
    assert calling.run(code).stdout == "CallRefused\nCallCancelled\n"
    assert host.connections == 4 and host.calls[-1][1]["args"] == [2] and len(host.calls) == 4


def test_session_without_namespaces_has_no_such_name(runner):
    assert runner.run("notes").error["name"] == "NameError"


class TestTools:
    @pytest.fixture(params=INTERPRETERS, ids=lambda python: "%d.%d" % version_of(python))
    def guest(self, request, host):
        with start(request.param) as started:
            env = {**ENVIRONMENT, "CELLA_CALLS": host.path}
            started.send({"type": "configure", "env": env, "cwd": "/tmp", "spaces": ["tools"]})
            yield started

    def test_call_blocks_in_plain_code_and_is_awaited_in_coroutines(self, guest):
        assert guest.run("tools.echo(1)['args']").value == "[1]"
        assert guest.run("(await tools.echo(2))['args']").value == "[2]"
        code = (
            "import asyncio\n"
            "async def many():\n"
            "    return [each['args'][0] for each in await asyncio.gather(*[tools.echo(n) for n in range(5)])]\n"
            "def plain():\n    return tools.echo(7)['args']\n"
            "async def mixed():\n    return plain(), tools.echo.call_sync(8)['args']\n"
            "asyncio.run(many()), asyncio.run(mixed())"
        )
        assert guest.run(code).value == "([0, 1, 2, 3, 4], ([7], [8]))"
        assert guest.run("await many(), (await tools.echo.call_async(9))['args']").value == "([0, 1, 2, 3, 4], [9])"

    def test_errors_have_their_kinds(self, guest):
        code = "async def f(): await tools.leave()\ntry:\n    await f()\nexcept HostCallError as e:\n    print(e)"
        outcome = guest.run(code)
        assert outcome.stdout == "the run ended before the call\n"
        assert guest.run("issubclass(ToolNotFoundError, HostCallError), hasattr(tools, '__wrapped__')").value == "(True, False)"
        assert guest.run("tools.fail()").error["name"] == "HostCallError"

    def test_no_connection_and_no_thread_stays(self, guest):
        guest.run("await tools.echo(1)\nimport os; before = len(os.listdir('/proc/self/fd'))")
        guest.run("tools.echo(1); await tools.echo(2)")
        code = "len(os.listdir('/proc/self/fd')) == before, len(os.listdir('/proc/self/task'))"
        assert guest.run(code).value == "(True, 1)"
