"""Clients that overload `cella serve` or disconnect: thousands of connections, endless heads and bodies. The server
refuses or disconnects each, keeps nothing of it, and serves other clients without delay."""

import concurrent.futures
import contextlib
import os
import pathlib
import re
import resource
import socket
import struct
import tarfile
import threading
import time
from dataclasses import dataclass

import pytest
from server import Connection, Server, Session, raw_connection, serve, serving  # noqa: F401 (fixtures)
from support.running import LONG, wait_until

ASK = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
# What a pool makes ahead of demand would come and go among the descriptors that are counted.
NO_POOL = {"sessions": {"pool_shells": 0, "pool_parked": 0}}
MANY = 10_000 if LONG else 3_000
GIGABYTE = 1 << 30
HEAD_TIME = 10.0  # of the server, for a whole head


def resident(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) << 10


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


class Bystander:
    """A client with a session of its own, which counts in it all the while and must never be wrong or kept waiting."""

    def __init__(self, server, bound=8.0):
        self.bound = bound
        self.session = server.client().open()
        self.session.run("x = 0")
        self.slowest = 0.0
        self.count = 0
        self._stop = threading.Event()
        self._pool = concurrent.futures.ThreadPoolExecutor(1)

    def __enter__(self):
        # Connected before the others come, since there may be no place later.
        self._connection = Connection(self.session.client.address)
        self._connection.connect()
        self._working = self._pool.submit(self._work)
        return self

    def _work(self):
        while self.count == 0 or not self._stop.wait(0.005):
            started = time.monotonic()
            answer = self._connection.ask("POST", self.session.path("runs"), '{"code": "x += 1; x"}')
            self.slowest = max(self.slowest, time.monotonic() - started)
            self.count += 1
            assert answer.expect(200)["value"] == str(self.count), answer

    def __exit__(self, *ignored):
        self._stop.set()
        self._pool.shutdown()
        self._connection.close()
        self._working.result()
        assert self.slowest < self.bound, (self.count, self.slowest)
        assert self.session.delete().status == 204


@contextlib.contextmanager
def nothing_stays(server, memory):
    """Descriptors return to what they were, but for a few of the server's own. Memory may stay with the allocator,
    within this bound."""
    warm(server)
    files, before = descriptors(server.pid), resident(server.pid)
    yield
    assert wait_until(lambda: descriptors(server.pid) <= files + 4), (files, descriptors(server.pid))
    assert resident(server.pid) - before < memory, (before, resident(server.pid))
    assert server.client().get("/health").expect(200)["status"] == "ok"


def warm(server):
    """What the first session brings along stays for the next ones."""
    session = server.client().open()
    session.run("1")
    assert session.delete().status == 204


# Thousands of connections


@pytest.fixture
def many_files():
    """As many descriptors as this user may have; the server inherits that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def connections(address, count):
    """Blocking ones, which wait for a place in the backlog of the socket."""
    with contextlib.ExitStack() as stack:
        made = []
        for _ in range(count):
            each = stack.enter_context(socket.socket(socket.AF_UNIX))
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 10, 0))
            each.connect(str(address))
            made.append(each)
        yield made


def test_thousands_of_idle_connections_use_little_memory_and_delay_no_client(many_files, serve):
    count = min(MANY, many_files - 1000)
    server = serve(config={"server": {"max_connections": count + 100}, **NO_POOL})
    with Bystander(server):
        for wave in range(2):
            # What the first one needed is at hand for the second.
            with nothing_stays(server, memory=count * (16 << 10) if wave == 0 else 8 << 20):
                with connections(server.socket, count) as held:
                    for each in held:
                        each.sendall(ASK)
                    assert all(each.recv(1000).startswith(b"HTTP/1.1 200") for each in held)
                    assert server.client().get("/health").expect(200)["status"] == "ok"


def test_connections_beyond_the_limit_are_refused_and_delay_no_client(many_files, serve):
    count = min(MANY, many_files - 1000)
    server = serve(config=NO_POOL)
    with nothing_stays(server, memory=32 << 20), Bystander(server):
        with connections(server.socket, count):
            assert descriptors(server.pid) < 1024 + 300

            told = []

            def refused():
                with contextlib.suppress(ConnectionError):
                    told.append(server.client().get("/health").error(503))
                return told

            assert wait_until(refused)
            assert told[0]["code"] == "too_many_connections"


# Heads and bodies without end


def test_clients_sending_heads_byte_by_byte_are_disconnected(serve):
    server = serve(config=NO_POOL)
    with nothing_stays(server, memory=8 << 20), Bystander(server):
        with connections(server.socket, 200) as slow:
            for each in slow:
                each.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nX-Slow: ")
                each.setblocking(False)
            started = time.monotonic()
            said = {each: b"" for each in slow}
            open_ones = set(slow)

            def drip():
                for each in list(open_ones):
                    try:
                        with contextlib.suppress(BrokenPipeError):
                            each.sendall(b"x")
                        if not (chunk := each.recv(4096)):
                            open_ones.remove(each)
                        said[each] += chunk
                    except BlockingIOError:
                        pass
                    except ConnectionResetError:
                        open_ones.remove(each)
                return not open_ones

            assert wait_until(drip, HEAD_TIME + 5), len(open_ones)
            assert time.monotonic() - started > HEAD_TIME / 2
            assert all(words == b"" or words.startswith(b"HTTP/1.1 408 ") for words in said.values())


def send_without_end(address, head, piece, bound=GIGABYTE):
    """Sends the piece again and again until the server does not take it; returns what it said and how much it took."""
    with contextlib.closing(raw_connection(address)) as connection:
        sent = 0
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(head)
            while sent < bound:
                connection.sendall(piece)
                sent += len(piece)
        said = b""
        with contextlib.suppress(ConnectionResetError):
            while chunk := connection.recv(65536):
                said += chunk
        return said, sent


PUT = b"PUT %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "head, piece, status",
    [
        (b"GET /health HTTP/1.1\r\nHost: x\r\n", b"X-More: and more\r\n" * 4000, 431),
        (b"GET /health HTTP/1.1\r\nHost: x\r\nX-Long: ", b"x" * 65536, 431),
        (b"GET /health?", b"x" * 65536, 431),
        (PUT + b"1;", b"x" * 65536, 400),
        (PUT + b"1\r\nx\r\n0\r\n", b"X-Trailer: and more\r\n" * 4000, 400),
        (PUT + b"0" * 100, b"0" * 65536, 400),
    ],
    ids=["lines", "line", "target", "chunk-extension", "trailers", "chunk-size"],
)
def test_endless_head_is_refused_early(serve, head, piece, status):
    server = serve(config=NO_POOL)
    session = server.client().open()
    with nothing_stays(server, memory=8 << 20), Bystander(server):
        head = head.replace(b"%s", session.path("files/f").encode())
        for _ in range(10):
            said, sent = send_without_end(server.socket, head, piece)
            assert said.startswith(b"HTTP/1.1 %d " % status), said[:200]
            assert sent < 16 << 20


@pytest.mark.parametrize("framing", ["announced", "chunked"])
@pytest.mark.parametrize("path", ["runs", "files/f", "archive", "/v1/sessions", "/v1/run", "/v1/batch"])
def test_body_of_a_gigabyte_is_refused_early(serve, path, framing):
    server = serve(config=NO_POOL)
    session = server.client().open()
    method = "PUT" if path in ("files/f", "archive") else "POST"
    head = f"{method} {path if path.startswith('/') else session.path(path)} HTTP/1.1\r\nHost: x\r\n"
    beginning = b""
    if path == "archive":
        file = tarfile.TarInfo("f")
        file.size = GIGABYTE
        beginning = file.tobuf()
    if framing == "announced":
        head += f"Content-Length: {GIGABYTE}\r\n\r\n"
        piece = bytes(1 << 20)
    else:
        head += "Transfer-Encoding: chunked\r\n\r\n"
        beginning = b"%x\r\n%b\r\n" % (len(beginning), beginning) if beginning else b""
        piece = b"100000\r\n" + bytes(1 << 20) + b"\r\n"
    with nothing_stays(server, memory=80 << 20), Bystander(server):
        said, sent = send_without_end(server.socket, head.encode() + beginning, piece)
        assert said.startswith(b"HTTP/1.1 413 "), said[:200]
        assert sent < 96 << 20
        assert server.client().get(session.path("files")).expect(200)["files"] == []


@pytest.mark.parametrize("path", ["files/f", "archive"])
def test_upload_beyond_the_disk_limit_is_refused_and_affects_no_other_session(serve, path):
    server = serve(config={"server": {"max_body": "2g"}, **NO_POOL})
    session = server.client().open(limits={"disk": "64m", "memory": "256m"})
    assert session.run("open('kept', 'w').write('as it was'); x = 1")["status"] == "ok"
    file = tarfile.TarInfo("f")
    file.size = GIGABYTE
    beginning = file.tobuf() if path == "archive" else b""
    head = f"PUT {session.path(path)} HTTP/1.1\r\nHost: x\r\nContent-Length: {GIGABYTE + 10240}\r\n\r\n"
    with nothing_stays(server, memory=32 << 20), Bystander(server):
        said, _ = send_without_end(server.socket, head.encode() + beginning, bytes(1 << 20))
        assert re.match(rb"HTTP/1\.1 (4|5)\d\d ", said), said[:200]
        assert b'"error":{"code":' in said, said
        assert session.value("x, open('kept').read()") == "(1, 'as it was')"


# Bodies and frames that are slow to read

WIDE = "{" + "".join(f'"k{i}":{i},' for i in range(200_000)) + '"end":0}'
SLOW_BODIES = {
    "many objects": "[" + "{}," * 160_000 + "{}]",
    "deep": "[" * (60 << 20),
    "deep objects": '{"a":' * 4_000_000,
    "many keys": WIDE,
    "many numbers": '{"code":[' + "0," * 3_000_000 + "0]}",
}


@pytest.mark.as_user
@pytest.mark.parametrize("body", SLOW_BODIES.values(), ids=SLOW_BODIES)
def test_body_that_is_slow_to_read_is_refused_and_delays_no_client(serve, body):
    """One of 480 kB kept the server busy for 100 s, another took 2.2 GB. How much of each is read is bounded in
    base/json_test.cc; here the whole way of a request is shown to stay within a bound."""
    server = serve(config=NO_POOL)
    session = server.client().open()
    with nothing_stays(server, memory=160 << 20), Bystander(server):
        for path in (session.path("runs"), "/v1/run", "/v1/batch"):
            said = server.client().ask("POST", path, body).error(400)["message"]
            assert re.search("nested deeper|more than .* keys|not a JSON object|unknown key", said), said


@pytest.mark.as_user
def test_script_of_many_open_blocks_delays_no_client(serve):
    """Each comment of 48 kB took half a second: every line opens a block (PEP 723), and none is closed."""
    server = serve(config={"allow": {"runtime_deps": True}, **NO_POOL})
    script = "# /// script\n# ///\n\n" + ("# /// a\n" * 6000 + "\n") * 80 + "print('ran')"
    with Bystander(server):
        answer = server.client().post("/v1/run", code=script, policy={"allow_runtime_deps": True}).expect(200)
        assert answer["stdout"] == "ran\n", answer


FORGE = """
import json, os, socket, struct
channel = next(n for n in range(1023, 2, -1) if os.path.exists(f"/proc/self/fd/{n}")
               and os.readlink(f"/proc/self/fd/{n}").startswith("socket:"))
def send(**frame):
    body = json.dumps({"type": "display", **frame}).encode()
    socket.socket(fileno=os.dup(channel)).sendall(struct.pack("<I", len(body)) + body)
"""
SLOW_DISPLAYS = {
    "types": "display({f'a/{i}': '' for i in range(50_000)}, raw=True)",
    "metadata": "display('x', metadata={f'k{i}': i for i in range(50_000)})",
    "forged types": FORGE + "send(mime={f'a/{i}': '' for i in range(200_000)})",
    "forged metadata": FORGE + "send(mime={}, metadata={f'k{i}': i for i in range(200_000)})",
    "forged types within the bound": FORGE + "for _ in range(3000): send(mime={f'a/{i}': 'x' for i in range(64)})",
    "large": FORGE + "for _ in range(4): send(mime={'text/plain': '\u00e9\\n' * 2_000_000})",
}


@pytest.mark.as_user
@pytest.mark.parametrize("code", SLOW_DISPLAYS.values(), ids=SLOW_DISPLAYS)
def test_display_that_is_slow_to_read_delays_no_client(serve, code):
    """50,000 types kept the loop for 5 s, 200,000 for 88 s."""
    server = serve(config=NO_POOL)
    session = server.client().open()
    with Bystander(server):
        answer = session.run(code)
        # A forger loses its own interpreter, and nothing else.
        assert answer["status"] in ("ok", "crashed"), answer
        assert all(len(output["mime"]) <= 64 for output in answer["outputs"])
        assert session.run("6 * 7")["value"] == "42"


def test_display_of_too_many_types_says_what_is_missing(serve):
    session = serve(config=NO_POOL).client().open()
    shown = session.run("display({f'a/{i}': '' for i in range(100)} | {'text/plain': 'text'}, raw=True)")["outputs"]
    assert shown[0]["mime"] == {"text/plain": "text\n[100 representations were left out: at most 64 are sent]"}
    answer = session.run("display('x', metadata={f'k{i}': i for i in range(2000)})")
    assert answer["outputs"][0]["metadata"] == {} and "metadata of more than 1000 values" in answer["stderr"]


def test_metrics_report_the_lag_of_the_loop(serve):
    server = serve(config=NO_POOL)

    def measured():
        text = server.client().get("/metrics").expect(200).decode()
        count = int(re.search(r"^cella_loop_lag_seconds_count (\d+)$", text, re.M)[1])
        assert re.search(r"^cella_loop_lag_seconds_max [\d.e-]+$", text, re.M)
        return count >= 2

    assert wait_until(measured)


# Clients that vanish


LOUD = "import time\nwhile True: print('x' * 5000, flush=True); time.sleep(0.002)"
UPGRADE = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {}\r\n"

# A request, what else its head says, what is sent of its body, and the code that is waited for, if any.
BEGINNINGS = {
    "a stream": ("GET {runs}/{loud}/events", "", b"", 200),
    "a download": ("GET {session}/files/large", "", b"", 200),
    "an archive": ("GET {session}/archive", "", b"", 200),
    "a channel": ("GET {session}/channel", UPGRADE.format("dGhlIHNhbXBsZSBub25jZQ=="), b"", 101),
    "an upload": ("PUT {session}/files/half", "Content-Length: 9000000\r\n", bytes(1_000_000), None),
    "a half document": ("POST /v1/sessions", "Content-Length: 100\r\n", b'{"name":', None),
    "a run of its own": (
        "POST {other}/runs", "Content-Length: 60\r\n",
        b'{"code": "while True: pass", "cancel_on_disconnect":  true }', None,
    ),
}


def close(connection):
    pass


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def stop_reading(connection):
    connection.shutdown(socket.SHUT_RD)


def stop_writing(connection):
    """Then reads a little, and is gone."""
    connection.shutdown(socket.SHUT_WR)
    connection.settimeout(0.01)
    with contextlib.suppress(TimeoutError, ConnectionResetError):
        connection.recv(1000)


@pytest.fixture(scope="module")
def loud(cella, environment):
    """A session in which a run goes on writing."""
    with serving(cella, environment) as start:
        # Over TCP, where a connection can be reset.
        server = start("--no-auth", tcp=True, config=NO_POOL)
        session = server.tcp_client().open(limits={"timeout": "10m", "cpu_time": "10m"})
        assert session.client.ask("PUT", session.path("files/large"), body=bytes(20 << 20)).status == 201
        run = session.start(LOUD)
        session.wait_running(run)
        other = session.client.open()
        other.run("'its interpreter has begun'")
        yield Loud(server, session, run, other)
        assert session.look(run)["status"] == "running"
        session.cancel(run).expect(202)
        assert session.ended(run)["status"] == "cancelled"


@dataclass
class Loud:
    server: Server
    session: Session
    run: str
    other: Session

    def begin(self, connection, request, more, body, status):
        places = {"session": self.session.path(), "runs": self.session.path("runs"), "loud": self.run}
        request = request.format(other=self.other.path(), **places)
        connection.sendall(f"{request} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n".encode() + body)
        if status is not None:
            assert connection.recv(100).startswith(b"HTTP/1.1 %d" % status)


# One who only stops writing may still read, and is waited for: a run of its own goes on until there is something to say.
PATIENT = ("a run of its own", stop_writing)
WAYS = [(beginning, vanish) for beginning in BEGINNINGS for vanish in (close, reset, stop_reading, stop_writing)]


@pytest.mark.parametrize("beginning, vanish", [way for way in WAYS if way != PATIENT])
def test_disconnected_clients_leave_nothing(loud, beginning, vanish):
    with nothing_stays(loud.server, memory=24 << 20), Bystander(loud.server):
        for _ in range(15):
            with contextlib.closing(raw_connection(("127.0.0.1", loud.server.port()))) as connection:
                loud.begin(connection, *BEGINNINGS[beginning])
                vanish(connection)
        assert wait_until(lambda: loud.other.show()["status"] == "idle")
    assert loud.other.value("'still here'") == "'still here'"
    names = {each["name"] for each in loud.session.client.get(loud.session.path("files")).expect(200)["files"]}
    assert names == {"large"}, "half a file was kept"
