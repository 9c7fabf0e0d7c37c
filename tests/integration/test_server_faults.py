"""`cella serve` with malformed input, clients that stall or disconnect, signals, kill -9, and a bad disk."""

import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import signal
import socket
import threading
import time

import pytest
from server import (  # noqa: F401 (fixtures)
    client, raw_connection, read_answer, serve, server, session, short_directory,
)
from support.leftovers import assert_no_process, cgroups_of, mounts, scratch_of
from support.running import IS_ROOT, wait_until

ENDED = {"ok", "error", "timeout", "cancelled", "oom", "crashed", "limit", "rejected", "lost"}


@pytest.fixture(scope="module", autouse=True)
def stalled(server):
    """A client that sent half of a head before all other tests, and never sends the rest."""
    with contextlib.closing(raw_connection(server.socket)) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        yield connection


def talk(address, data):
    """All that the server says to these bytes until it closes the connection."""
    with contextlib.closing(raw_connection(address)) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        said = b""
        with contextlib.suppress(ConnectionResetError):
            while chunk := connection.recv(65536):
                said += chunk
        return said


def resident(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) << 10


# Malformed input


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"nonsense", b"[]", b"null", b"5", b'"text"', b'{"code": "\xff"}', b"[" * 100_000, b'{"a":' * 100_000,
        b'{"code": "1"} trailing', b'{"code": "\\ud800"}', b'{"code": 1e999}', b"\0", b"{'code': '1'}",
        b'{"code": "1",}',
    ],
    ids=lambda body: repr(body[:14]),
)
def test_rejects_body_that_is_not_a_json_object(client, session, body):
    for path in ("/v1/sessions", session.path("runs"), "/v1/run", "/v1/batch", session.path("checkpoints")):
        client.ask("POST", path, body=body).error(400)


HOST = b"Host: x\r\n"


@pytest.mark.parametrize(
    "data, status",
    [
        (b"nonsense\r\n\r\n", 400), (b"GET /health HTTP/9.9\r\n" + HOST + b"\r\n", 400), (b"\x16\x03\x01\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\n\r\n", 400), (b"GET /health HTTP/1.1\r\n" + HOST * 2 + b"\r\n", 400),
        (b"GET health HTTP/1.1\r\n" + HOST + b"\r\n", 400), (b"GET /health HTTP/1.1\n" + HOST + b"\n", 400),
        (b"GET /health HTTP/1.1\r\n" + HOST + b"A : b\r\n\r\n", 400),
        (b"POST /v1/run HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n", 400),
        (b"POST /v1/run HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", 400),
        (b"POST /v1/run HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        (b"GET /health HTTP/1.1\r\n" + HOST + b"X: " + b"a" * (1 << 20) + b"\r\n\r\n", 431),
        (b"GET /health HTTP/1.1\r\n" + HOST + b"X: a\r\n" * 150_000 + b"\r\n", 431),
        (b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\n" + HOST + b"\r\n", 431),
    ],
    ids=lambda value: repr(value[:16]) + str(len(value)) if isinstance(value, bytes) else None,
)
def test_malformed_http_is_refused_and_the_rest_is_not_read(server, client, data, status):
    said = talk(server.socket, data + b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 %d " % status), said[:200]
    assert len(re.findall(rb"HTTP/1\.1 \d{3} ", said)) == 1
    assert client.get("/health").expect(200)["status"] == "ok"


def test_pipelined_requests_are_answered(server):
    ask = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    said = talk(server.socket, ask * 3 + ask.replace(b"x\r\n", b"x\r\nConnection: close\r\n"))
    assert said.count(b"HTTP/1.1 200") == 4


def test_random_bytes_close_only_their_connection(server, client):
    noise = random.Random(7)
    for _ in range(30):
        talk(server.socket, noise.randbytes(noise.randrange(1, 3000)) + b"\r\n\r\n")
    for _ in range(100):
        raw_connection(server.socket).close()
    assert client.get("/health").expect(200)["status"] == "ok"


@pytest.mark.parametrize("path", ["runs", "files/f", "archive"])
def test_body_beyond_the_limit_is_413(serve, path):
    session = serve(config={"server": {"max_body": "1m"}}).client().open()
    method = "POST" if path == "runs" else "PUT"
    announced = f"{method} {session.path(path)} HTTP/1.1\r\nHost: x\r\nContent-Length: {2 << 20}\r\n\r\n"
    for data in (announced.encode(), announced.encode() + bytes(2 << 20)):
        assert talk(session.client.address, data).startswith(b"HTTP/1.1 413 "), path
    chunk = b"%x\r\n" % (2 << 20) + bytes(2 << 20) + b"\r\n0\r\n\r\n"
    chunked = f"{method} {session.path(path)} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    assert talk(session.client.address, chunked + chunk).startswith(b"HTTP/1.1 413 "), path
    assert session.client.get(session.path("files")).expect(200)["files"] == []


def test_connections_beyond_the_limit_are_503(serve):
    server = serve(config={"server": {"max_connections": 4}})
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(contextlib.closing(raw_connection(server.socket))) for _ in range(4)]
        for connection in held:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
        assert talk(server.socket, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")[:13] in (b"HTTP/1.1 503 ", b"")
    assert wait_until(lambda: talk(server.socket, b"GET /health HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200"))


# Clients that stall or vanish


LOUD = "for n in range(220): print('x' * 79999)"


def test_non_reading_clients_use_no_memory_and_delay_no_run(serve):
    server = serve()
    session = server.client().open(limits={"output": "16m"})
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(session.stream(LOUD))
        run = next(iter(first))["run"]
        assert session.ended(run)["status"] == "ok"
        before = resident(server.pid)
        for _ in range(20):
            next(iter(stack.enter_context(session.events(run))))
        assert resident(server.pid) - before < 64 << 20
        assert session.value("'still here'") == "'still here'"
        assert list(first)[-1]["type"] == "finished"


def test_ended_runs_use_little_memory(serve):
    server = serve()
    session = server.client().open(limits={"output": "16m"})
    before = 0  # the most of a few: the allocator gives memory back when it likes
    for _ in range(4):
        session.run(LOUD)
        before = max(before, resident(server.pid))
    for _ in range(6):
        assert session.run(LOUD)["status"] == "ok"
    # Six outputs of 17 MB that stayed would be more. What is in flight differs by some 40 MB on a busy machine.
    assert wait_until(lambda: resident(server.pid) - before < 64 << 20), (before, resident(server.pid))


def test_disconnected_followers_leave_no_descriptors(serve):
    server = serve(config={"sessions": {"pool_shells": 0, "pool_parked": 0}})
    session = server.client().open()
    run = session.start("import time\nwhile True: print(1, flush=True); time.sleep(0.002)")
    session.wait_running(run)
    before = len(os.listdir(f"/proc/{server.pid}/fd"))
    for _ in range(30):
        with session.events(run) as events:
            events.until("stdout")
    assert wait_until(lambda: len(os.listdir(f"/proc/{server.pid}/fd")) <= before)
    session.cancel(run).expect(202)
    assert session.ended(run)["status"] == "cancelled"


def test_client_disconnecting_before_its_answer_is_harmless(client, session):
    for _ in range(10):
        with client.connect() as connection:
            connection.request("POST", session.path("runs"), json.dumps({"code": "1"}))
    with client.connect() as connection:
        connection.request("POST", "/v1/sessions", "{}")
    assert session.value("2") == "2"


# The end


def test_draining_server_lets_the_run_end(serve):
    server = serve(config={"server": {"drain_grace": "15s"}})
    session = server.client().open()
    wait = "import os, time\nprint('on', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)\n'whole'"
    with contextlib.closing(http.client.HTTPConnection("x")) as idle, session.stream(wait) as events:
        idle.sock = raw_connection(server.socket)
        idle.request("PUT", session.path("files/x"), b"")
        assert idle.getresponse().read() is not None
        events.until("stdout")
        server.process.send_signal(signal.SIGTERM)
        assert wait_until(lambda: b"draining" in server.stderr)

        def refuses():
            try:
                raw_connection(server.socket).close()
            except OSError:
                return True

        assert wait_until(refuses)
        # A connection from before may still help the run that is on.
        idle.request("PUT", session.path("files/go"), b"")
        assert idle.getresponse().status == 201
        kinds = {event["type"]: event for event in events}
    assert kinds["value"]["text"] == "'whole'" and kinds["finished"]["status"] == "ok"
    assert server.finish() == 0, server.describe()


def test_draining_server_refuses_new_runs(serve):
    server = serve(config={"server": {"drain_grace": "15s"}})
    session = server.client().open()
    wait = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)"
    run = session.start(wait)
    session.wait_running(run)
    with contextlib.closing(http.client.HTTPConnection("x")) as old:
        old.sock = raw_connection(server.socket)
        old.request("GET", session.path())
        old.getresponse().read()
        server.process.send_signal(signal.SIGTERM)
        assert wait_until(lambda: b"draining" in server.stderr)
        old.request("POST", session.path("runs"), json.dumps({"code": "1", "wait": False}))
        assert read_answer(old.getresponse()).error(503)["code"] == "draining"
        old.request("PUT", session.path("files/go"), b"")
        assert read_answer(old.getresponse()).status == 201
    assert server.finish() == 0, server.describe()


def test_run_that_outlasts_the_drain_grace_is_cancelled(serve, token):
    server = serve()
    session = server.client().open()
    code = f"import subprocess; p = subprocess.Popen(['sleep', '60.{token}']); print('on', flush=True); p.wait()"
    queued = session.start("0")
    with session.stream(code) as events, concurrent.futures.ThreadPoolExecutor(1) as pool:
        events.until("stdout")
        waiting = pool.submit(session.run, "'never'")
        assert wait_until(lambda: len(session.client.get(session.path("runs")).json()["runs"]) == 3)
        started = time.monotonic()
        server.stop()
        assert time.monotonic() - started < 8
        assert list(events)[-1]["status"] == "cancelled"
        assert waiting.result(timeout=5)["status"] == "cancelled"
    assert_no_process(token)
    after = serve(directory=server.directory)
    told = {run["id"]: run["status"] for run in after.client().get(session.path("runs")).expect(200)["runs"]}
    assert told.pop(queued) == "ok" and set(told.values()) == {"cancelled"} and len(told) == 2


# kill -9


class Load:
    """Clients that open sessions and start runs until the server is gone, and remember what it acknowledged."""

    def __init__(self, client, token):
        self.client, self.token = client, token
        self.sessions, self.runs = set(), []
        self._threads = [threading.Thread(target=self._work, args=(n,), daemon=True) for n in range(3)]
        for thread in self._threads:
            thread.start()

    def _work(self, number):
        codes = [
            "1", "print('x' * 100_000)", f"import subprocess; subprocess.Popen(['sleep', '60.{self.token}']); None",
            "import os; os._exit(3)", "import time; time.sleep(0.05)", "while True: pass",
        ]
        choose = random.Random(number)
        with contextlib.suppress(OSError, http.client.HTTPException):
            while True:
                session = self.client.open()
                self.sessions.add(session.id)
                for _ in range(4):
                    self.runs.append((session.id, session.start(choose.choice(codes), timeout=5)))
                if choose.random() < 0.3:
                    session.delete()

    def join(self):
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive(), "a client hangs on a dead server"


def test_killed_server_leaves_nothing(serve, token, short_directory):
    before = mounts()
    delays = random.Random()
    server = serve(directory=short_directory)
    pids, acknowledged = [], []
    for _ in range(6):
        load = Load(server.client(), token)
        assert wait_until(lambda load=load: load.runs)
        delay = delays.uniform(0, 0.4)
        time.sleep(delay)
        family = server.kill()
        load.join()
        family.assert_gone()
        assert_no_process(token)
        pids.append(server.pid)
        acknowledged += load.runs
        server = serve(directory=short_directory)
        # It works as if nothing had been, and has swept what the dead one could not.
        fresh = server.client().open()
        assert fresh.value("1 + 1") == "2", delay
        assert fresh.delete().status == 204
        assert cgroups_of(pids) == [] and scratch_of(pids) == [] and mounts() == before
        for session in load.sessions:
            told = server.client().get(f"/v1/sessions/{session}")
            assert told.status == 404 or told.expect(200)["status"] in ("lost", "closed"), told
    client = server.client()
    for session, run in acknowledged:
        # Those of deleted sessions may be gone with them.
        answer = client.get(f"/v1/sessions/{session}/runs/{run}")
        if answer.status == 404:
            assert client.get(f"/v1/sessions/{session}").status == 404, (session, run)
            continue
        assert answer.expect(200)["status"] in ENDED, answer
    assert len(acknowledged) > 6


# State


@pytest.mark.parametrize("place", ["/proc/cella/state", "/dev/null", "/dev/null/state"])
def test_unwritable_state_directory_is_named(serve, place):
    server = serve(ready=False, state=place)
    assert server.finish() not in (0, 134, 139), server.describe()
    assert re.match(r"cella: .*(/proc/cella|/dev/null)", server.words()), server.words()


def test_read_only_state_directory_is_named(serve, short_directory):
    serve(directory=short_directory).stop()
    state = short_directory / "state"
    # Nothing is read-only to root; a directory in the place of the file stops it as well.
    if IS_ROOT:
        for path in state.glob("registry.db*"):
            path.unlink()
        (state / "registry.db").mkdir()
    else:
        for path in (state, *state.rglob("*")):
            path.chmod(0o500 if path.is_dir() else 0o400)
    server = serve(directory=short_directory, ready=False)
    assert server.finish() not in (0, 134, 139), server.describe()
    assert str(state) in server.words(), server.words()
    for path in (state, *state.rglob("*")):
        path.chmod(0o700)


def test_rejects_state_directory_writable_by_others(serve, short_directory):
    state = short_directory / "state"
    state.mkdir()
    state.chmod(0o777)
    server = serve(directory=short_directory, ready=False)
    assert server.finish() not in (0, 134, 139) and "others can write" in server.words(), server.words()


def test_rejects_second_server_on_the_same_state_directory(serve):
    first = serve()
    session = first.client().open()
    run = session.run("print('x' * 3_000_000)")["id"]
    second = serve(state=first.state, ready=False)
    assert second.finish() not in (0, 134, 139), second.describe()
    assert str(first.state) in second.words() and "listening on" not in second.words(), second.words()
    assert session.value("1 + 1") == "2"
    page = session.client.get(session.path("runs", run, "output") + "?offset=2999000&limit=100")
    assert page.expect(200) == b"x" * 100


def test_rejects_second_server_on_the_same_socket(serve, short_directory):
    first = serve()
    second = serve("--listen", f"unix:{first.socket}", ready=False)
    assert second.finish() not in (0, 134, 139) and str(first.socket) in second.words(), second.describe()
    assert first.client().get("/health").expect(200)["status"] == "ok"


# At the end of the file, when the time for it has nearly passed.


def test_client_with_an_incomplete_head_is_disconnected(stalled):
    said = b""
    while chunk := stalled.recv(4096):
        said += chunk
    assert said == b"" or said.startswith(b"HTTP/1.1 408 "), said
