"""`cella serve` under test: a server in a short private directory, and clients that speak to it over its sockets."""

import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from dataclasses import dataclass

import pytest
from support.cella import PYTHON
from support.descendants import Family
from support.leftovers import cgroups_of, mounts, scratch_of
from support.running import wait_until

START_BOUND = 20.0
ANSWER_BOUND = 90.0  # environments are made meanwhile, from the index
NDJSON = {"Accept": "application/x-ndjson"}
SSE = {"Accept": "text/event-stream"}


def to_toml(config):
    """Tables of plain values: their JSON is TOML. None: the key is not there."""
    lines = []
    for table, values in config.items():
        lines += [f"[{table}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items() if value is not None), ""]
    return "\n".join(lines)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict  # names in lower case
    body: bytes

    def json(self):
        try:
            return json.loads(self.body)
        except ValueError:
            raise AssertionError(f"no JSON: {self}") from None

    def expect(self, status):
        """The document of an answer that must have this status; the bytes where it is none."""
        assert self.status == status, self
        return self.json() if self.headers.get("content-type") == "application/json" else self.body

    def error(self, status):
        """The words of a refusal, which is told in the one form that all of them have."""
        words = self.expect(status)["error"]
        assert set(words) <= {"code", "message", "hint"} and words["code"] and words["message"], self
        return words


class Connection(http.client.HTTPConnection):
    """To a Unix socket (a path) or to TCP (host and port)."""

    def __init__(self, address):
        super().__init__("localhost", timeout=ANSWER_BOUND)
        self.address = address

    def connect(self):
        self.sock = raw_connection(self.address)

    def ask(self, method, path, body=None, headers=None):
        # A refusal may come before all of a body was taken.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.request(method, path, body, headers or {})
        return read_answer(self.getresponse())


def raw_connection(address):
    if isinstance(address, tuple):
        return socket.create_connection(address, timeout=ANSWER_BOUND)
    connected = socket.socket(socket.AF_UNIX)
    connected.settimeout(ANSWER_BOUND)
    try:
        connected.connect(str(address))
    except OSError:
        connected.close()
        raise
    return connected


def read_answer(response):
    body = response.read()
    return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, body)


class Stream:
    """The events of a run as they come. Leaving the block drops the connection."""

    def __init__(self, connection, response):
        self.connection, self.response = connection, response

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.response.close()
        self.connection.close()

    def __iter__(self):
        """NDJSON: one event a line. Empty lines keep a silent connection alive."""
        for line in self.response:
            if line.strip():
                yield json.loads(line)

    def until(self, kind):
        """The events up to the first of this type."""
        seen = []
        for event in self:
            seen.append(event)
            if event["type"] == kind:
                return seen
        raise AssertionError(f"the stream ended without {kind!r}: {seen}")


class Client:
    def __init__(self, address, token=None):
        self.address = address
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def connect(self):
        return contextlib.closing(Connection(self.address))

    def ask(self, method, path, body=None, headers=None, **document):
        """One request on a connection of its own. Keywords are the JSON document to send."""
        if document:
            body = json.dumps(document)
        with self.connect() as connection:
            return connection.ask(method, path, body, {**self.headers, **(headers or {})})

    def get(self, path, **options):
        return self.ask("GET", path, **options)

    def post(self, path, **document):
        return self.ask("POST", path, **document)

    def stream(self, method, path, headers=NDJSON, **document):
        connection = Connection(self.address)
        try:
            body = json.dumps(document) if document else None
            connection.request(method, path, body, {**self.headers, **headers})
            response = connection.getresponse()
            assert response.status == 200, (response.status, response.read())
        except BaseException:
            connection.close()
            raise
        return Stream(connection, response)

    def open(self, **policy):
        return Session(self, self.post("/v1/sessions", **policy).expect(201))


class Session:
    def __init__(self, client, description):
        self.client, self.description = client, description
        self.id = description["id"]

    def path(self, *parts):
        return "/".join(["/v1/sessions", self.id, *parts])

    def show(self):
        return self.client.get(self.path()).expect(200)

    def run(self, code, **more):
        """The Result."""
        return self.client.post(self.path("runs"), code=code, **more).expect(200)

    def run_and_keep(self, code):
        """The id of a run that went well and is in the registry, which is told a moment after the client."""
        run = self.run(code)["id"]

        def kept():
            return any(each["id"] == run and each["status"] == "ok" for each in self.runs())

        assert wait_until(kept), self.runs()
        return run

    def runs(self):
        """As the registry has them."""
        return self.client.get(self.path("runs")).expect(200)["runs"]

    def value(self, code, **more):
        result = self.run(code, **more)
        assert result["status"] == "ok", result
        return result["value"]

    def start(self, code, **more):
        """The id of a run that no request waits for."""
        return self.client.post(self.path("runs"), code=code, wait=False, **more).expect(202)["id"]

    def look(self, run):
        return self.client.get(self.path("runs", run)).expect(200)

    def ended(self, run, seconds=20.0):
        """What is known of a run once it has ended."""
        assert wait_until(lambda: self.look(run)["status"] not in ("queued", "running"), seconds), self.look(run)
        return self.look(run)

    def wait_running(self, run):
        assert wait_until(lambda: self.look(run)["status"] != "queued"), self.look(run)
        assert self.look(run)["status"] == "running", self.look(run)

    def stream(self, code, headers=NDJSON, **more):
        return self.client.stream("POST", self.path("runs"), headers, code=code, **more)

    def events(self, run, after=None, headers=NDJSON):
        query = "" if after is None else f"?after={after}"
        return self.client.stream("GET", self.path("runs", run, "events") + query, headers)

    def cancel(self, run):
        return self.client.post(self.path("runs", run, "cancel"))

    def delete(self):
        return self.client.ask("DELETE", self.path())


class Server:
    """Lives in `directory`, where also its state is, so that a second one can follow there. `through` is a command that
    becomes its arguments, to change what the server is born with."""

    def __init__(
        self, cella, environment, directory, *flags, config=None, tokens=None, tcp=False, state=None, through=(),
        with_env=None,
    ):
        self.directory = pathlib.Path(directory)
        self.socket = self.directory / "s"
        self.state = pathlib.Path(state or self.directory / "state")
        merged = {"server": {"drain_grace": "200ms"}, "policy": {"python": PYTHON}}
        for table, values in (config or {}).items():
            merged[table] = {**merged.get(table, {}), **values}
        written = self.directory / "cella.toml"
        written.write_text(to_toml(merged))
        words = ["--config", written, "--state-dir", self.state, "--listen", f"unix:{self.socket}"]
        if tcp:
            words += ["--listen", "127.0.0.1:0"]
        if tokens is not None:
            path = self.directory / "tokens"
            path.touch(mode=0o600)
            path.write_text("".join(f"{name}:{token}\n" for name, token in tokens.items()))
            words += ["--token-file", path]
        environment = {**environment, **(with_env or {})}
        self.before = mounts()
        self.process = subprocess.Popen(
            [*map(str, through), str(cella.binary), "serve", *map(str, words), *map(str, flags)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment, cwd="/",
            start_new_session=True,
        )
        self.pid = self.process.pid
        self.temporary = environment.get("TMPDIR", "/tmp")
        self.stderr = bytearray()
        self._reader = threading.Thread(target=self._read_stderr, daemon=True)
        self._reader.start()
        self._listeners = words.count("--listen") + list(flags).count("--listen")

    def _read_stderr(self):
        while chunk := os.read(self.process.stderr.fileno(), 65536):
            self.stderr += chunk

    def words(self):
        return self.stderr.decode(errors="replace")

    def wait_ready(self):
        def ready():
            return self.stderr.count(b"listening on ") == self._listeners or self.process.poll() is not None

        assert wait_until(ready, START_BOUND) and self.process.poll() is None, self.describe()
        return self

    def port(self):
        for line in self.words().splitlines():
            if "listening on 127.0.0.1:" in line:
                return int(line.rpartition(":")[2])
        raise AssertionError(self.describe())

    def client(self, token=None):
        return Client(self.socket, token)

    def tcp_client(self, token=None):
        return Client(("127.0.0.1", self.port()), token)

    def describe(self):
        return f"cella serve: {self.process.poll()}, stderr: {self.words()}"

    def finish(self, timeout=20.0):
        """Waits for the end that the test brought about. The exit code is as a shell would show it."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still alive after {timeout} s; {self.describe()}") from None
        self._reader.join(timeout)
        assert not self._reader.is_alive(), "another process still holds its standard error"
        return code if code >= 0 else 128 - code

    def stop(self):
        """As a service manager does. It must end well, and nothing of it may stay."""
        family = Family(self.pid)
        self.process.send_signal(signal.SIGTERM)
        assert self.finish() == 0, self.describe()
        family.assert_gone()
        self.assert_nothing_stays()
        assert not self.socket.exists()

    def assert_nothing_stays(self):
        assert cgroups_of([self.pid]) == []
        assert scratch_of([self.pid], self.temporary) == []
        assert mounts() == self.before

    def kill(self):
        """SIGKILL. Returns the processes that were alive below it."""
        family = Family(self.pid)
        self.process.kill()
        assert self.finish() == 137
        return family

    def release(self):
        """Whatever happened: no process and no descriptor stays."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._reader.join(5)
        self.process.stderr.close()


@pytest.fixture
def short_directory():
    """A private directory whose name is short enough for a socket in it."""
    directory = tempfile.mkdtemp(prefix="cs-", dir="/tmp")
    yield pathlib.Path(directory)
    shutil.rmtree(directory)


@contextlib.contextmanager
def serving(cella, environment):
    """A function that starts servers. Those that are still on at the end must stop as they should."""
    with contextlib.ExitStack() as stack:
        started = []

        def start(*flags, directory=None, ready=True, **options):
            if directory is None:
                directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="cs-", dir="/tmp"))
            server = Server(cella, environment, directory, *flags, **options)
            stack.callback(server.release)
            started.append(server)
            return server.wait_ready() if ready else server

        yield start
        for server in started:
            if server.process.poll() is None:
                server.stop()


@pytest.fixture
def serve(cella, environment):
    with serving(cella, environment) as start:
        yield start


@pytest.fixture(scope="module")
def server(cella, environment):
    """One for all tests of a file, for those that leave it as it was."""
    with serving(cella, environment) as start:
        yield start()


@pytest.fixture(scope="module")
def client(server):
    return server.client()


@pytest.fixture
def session(client):
    """With the server's defaults."""
    opened = client.open()
    yield opened
    assert opened.delete().status in (204, 404)
