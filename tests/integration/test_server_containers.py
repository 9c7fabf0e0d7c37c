"""Containers over HTTP: what the operator allows, what clients must not reach, and 50 sessions with kills of everything."""

import concurrent.futures
import contextlib
import os
import signal
import subprocess

import pytest
from server import serving
from support.engine import OWNER, Engine
from support.leftovers import CGROUPS, assert_no_process, processes_with
from support.needs import REPOSITORY
from support.repl import Repl
from support.running import LONG, wait_until

pytestmark = pytest.mark.needs("docker")

# What only the operator may set, with a value that the engine would take.
REACHING = {
    "name": "cella-test-stolen", "engine": "unix:///run/docker.sock", "bind_dir": "/etc", "read_only": False,
    "runtime": "runsc", "image": "cella-test/other:1", "pull": "missing", "user": "12345", "cap_add": ["NET_RAW"],
    "extra_hosts": {"a.example": "192.0.2.7"}, "device_requests": [{"Count": -1, "Capabilities": [["gpu"]]}],
    "auto_remove": False, "stop_container": False,
}


@pytest.fixture(scope="module")
def engine():
    return Engine()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """An allowed directory, where guests may have put links."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def server(cella, environment, engine, shared):
    config = {
        "allow": {"executors": ["sandbox", "container"], "mounts": [str(shared)]},
        "container": {"engine": engine.host, "image": engine.image},
    }
    with serving(cella, environment) as start:
        yield start("--no-auth", config=config)


@pytest.fixture
def client(server):
    return server.client()


def test_session_has_the_image_and_the_isolation_of_the_operator(client, engine):
    session = client.open(executor="container", limits={"memory": "96m"})
    try:
        session.run("x = 6")
        assert session.value("x * 7") == "42"
        isolation = session.show()["isolation"]
        assert isolation["executor"] == "container" and isolation["network"] == "none"
        assert isolation["image"] == engine.image and isolation["root"] == "read-only"
        assert isolation["limits"]["memory"]["value"] == 96 << 20
    finally:
        session.delete()


@pytest.mark.parametrize("key", REACHING)
def test_keys_that_reach_beyond_the_container_are_refused(client, engine, key):
    before = len(engine.containers())
    error = client.post("/v1/sessions", executor="container", container={key: REACHING[key]}).error(403)
    assert f"container.{key}" in error["message"], error
    assert len(engine.containers()) == before


def test_host_paths_are_refused_also_below_allowed_directories(client, shared):
    """The engine would follow a link that a guest put there."""
    error = client.post("/v1/sessions", executor="container", workdir=str(shared)).error(403)
    assert "workdir" in error["message"], error
    mounts = [{"source": str(shared), "target": "/data"}]
    error = client.post("/v1/sessions", executor="container", mounts=mounts).error(403)
    assert "mounts" in error["message"], error


def test_network_bridge_is_refused_unless_allowed(client):
    error = client.post("/v1/sessions", executor="container", network="bridge").error(403)
    assert "bridge" in error["message"], error


@pytest.fixture(scope="module")
def generous(cella, environment, engine):
    """A client of a server whose operator allows a second image, the network of the engine, and a runtime."""
    engine.tag("cella-test/other:1")
    config = {
        "allow": {"executors": ["container"]}, "policy": {"executor": "container"},
        "container": {
            "engine": engine.host, "image": engine.image, "images": ["cella-test/other:1", "cella-test/missing:1"],
            "bridge": True, "runtimes": ["runc"],
        },
    }
    with serving(cella, environment) as start:
        yield start("--no-auth", config=config).client()


def test_what_the_operator_lists_is_allowed(generous, engine):
    document = {"network": "bridge", "container": {"image": "cella-test/other:1", "runtime": "runc", "init_command": "echo x > f"}}
    session = generous.open(**document)
    try:
        assert session.value("open('f').read()") == "'x\\n'"
        isolation = session.show()["isolation"]
        assert (isolation["image"], isolation["runtime"], isolation["network"]) == ("cella-test/other:1", "runc", "bridge")
        host = engine.inspect(isolation["container"])["HostConfig"]
        assert (host["NetworkMode"], host["Runtime"]) == ("bridge", "runc")
    finally:
        session.delete()


@pytest.mark.parametrize(
    "container", [{"image": "cella-test/third:1"}, {"runtime": "runsc"}, {"pull": "missing"}, {"user": "1"}], ids=str
)
def test_what_the_operator_does_not_list_is_refused(generous, container):
    error = generous.post("/v1/sessions", container=container).error(403)
    assert f"container.{next(iter(container))}" in error["message"], error


def test_missing_image_is_not_fetched_unless_the_operator_allows_it(generous):
    answer = generous.post("/v1/sessions", container={"image": "cella-test/missing:1"})
    assert answer.status == 404 and "cella-test/missing:1" in answer.json()["error"]["message"], answer


def test_failing_init_command_is_the_clients_error(generous, engine):
    error = generous.post("/v1/sessions", container={"init_command": "echo reason; false"}).error(400)
    assert "init_command failed" in error["message"] and "reason" in error["message"], error
    assert wait_until(lambda: not engine.containers())


def test_keys_without_meaning_are_refused(client):
    for document in (
        {"executor": "container", "network": "host"}, {"executor": "sandbox", "container": {"image": "x"}},
        {"executor": "container", "container": {"img": "x"}}, {"executor": "container", "container": {"mode": "x"}},
        {"executor": "container", "preload": ["json"]}, {"executor": "container", "deps": ["six"]},
    ):
        answer = client.post("/v1/sessions", **document)
        assert answer.status == 400 or (answer.status == 403 and "deps" in document), (document, answer)


def test_client_may_ask_for_a_container_for_each_run(client):
    session = client.open(executor="container", container={"fresh": "run"})
    try:
        assert session.run("x = 1")["state"] == "none"
        assert session.run("x")["error"]["name"] == "NameError"
    finally:
        session.delete()


def test_command_mode_is_allowed(client):
    session = client.open(executor="container", container={"mode": "command"})
    try:
        result = session.run("x = 1")
        assert result["state"] == "none", result
        assert session.run("print('x' in dir())")["stdout"] == "False\n"
    finally:
        session.delete()


def test_first_sessions_of_a_server_may_come_at_the_same_time(cella, environment, engine):
    config = {
        "allow": {"executors": ["container"]}, "policy": {"executor": "container"},
        "container": {"engine": engine.host, "image": engine.image},
    }
    with serving(cella, environment) as start:
        server = start("--no-auth", config=config)

        def use(number):
            session = server.client().open()
            value = session.value(f"{number} * 7")
            return value, session.delete().status

        with concurrent.futures.ThreadPoolExecutor(6) as clients:
            assert list(clients.map(use, range(6))) == [(str(number * 7), 204) for number in range(6)]


def groups_of(containers):
    """The cgroups that an engine made for these containers."""
    return [os.path.join(at, each) for at, each, _ in os.walk(CGROUPS) if any(one in at for one in containers)]


def test_sessions_with_kills_leave_nothing_and_foreign_containers_live(cella, environment, engine, tmp_path, token):
    """20 sessions, in the long form 50. Of every ten, one each is closed, and closed while code runs. Of one the guest
    kills itself, of one a run that ignores signals is cancelled, of one a client is killed that reads a stream; two lose
    their container. The server of these seven is killed. Two more belong to clients with an engine of their own
    (`cella repl`), which are killed, and one to a client that ends."""
    before, volumes = {one["Id"] for one in engine.containers()}, engine.call("GET", "/volumes")[1]["Volumes"]
    foreign = engine.make(["/bin/sleep", "600"], {"someone": "else"})
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    surroundings = {**environment, "TMPDIR": str(temporary)}
    config = {
        "allow": {"executors": ["container"]}, "policy": {"executor": "container"},
        "container": {"engine": engine.host, "image": engine.image},
    }
    # Processes with a mark, in a group of their own.
    mark = f"import subprocess; p = subprocess.Popen(['sleep', '600.{token}'], start_new_session=True)"
    stubborn = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('on', flush=True)\ntime.sleep(600)"
    words = ["--executor", "container", "--image", engine.image, "--engine", engine.host]
    made = set()

    def ours():
        return {one["Id"] for one in engine.containers(OWNER)} - before

    def lose_everything(start):
        server = start("--no-auth", config=config)
        client = server.client()
        sessions = [client.open() for _ in range(7)]
        clients = [Repl(cella.binary, *words, env=surroundings, python=None) for _ in range(3)]
        try:
            for session in sessions:
                assert session.run(mark)["status"] == "ok"
            for each in clients:
                assert each.run(mark)["status"] == "ok"
            made.update(ours())
            assert len(ours()) == 10 and len(processes_with(f"600.{token}")) == 10
            assert sessions[0].delete().status == 204
            busy = sessions[1].start(stubborn)
            sessions[1].wait_running(busy)
            assert sessions[1].delete().status == 204
            result = sessions[2].run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
            assert result["status"] == "crashed" and result["state"] == "rolled_back", result
            assert sessions[2].value("1") == "1"
            busy = sessions[3].start(stubborn)
            sessions[3].wait_running(busy)
            assert sessions[3].cancel(busy).status < 300
            assert sessions[3].ended(busy)["status"] == "cancelled"
            reader = [cella.binary, "session", "run", sessions[4].id, "-c", stubborn, "--url", f"unix:{server.socket}"]
            with subprocess.Popen(reader, env=surroundings, stdout=subprocess.PIPE) as started:
                assert started.stdout.readline() == b"on\n"
                started.kill()
            for session in sessions[5:]:
                engine.remove(session.show()["isolation"]["container"])
            gone = sessions[5].run("1")
            assert gone["status"] == "rejected" and "container has ended" in gone["error"]["message"], gone
            families = [server.kill(), *(each.family() for each in clients[:2])]
            for each in clients[:2]:
                each.process.kill()
            clients[2].close()
        finally:
            for each in clients:
                each.release()
        for family in families:
            family.assert_gone()

    try:
        for _ in range(5 if LONG else 2):
            with serving(cella, surroundings) as start:
                lose_everything(start)
            assert wait_until(lambda: not ours(), 40), ours()
            assert_no_process(f"600.{token}", 20)
        assert engine.inspect(foreign)["State"]["Running"]
        assert wait_until(lambda: not groups_of(made)), groups_of(made)
        assert engine.call("GET", "/volumes")[1]["Volumes"] == volumes
        assert os.listdir(temporary) == []
    finally:
        engine.remove(foreign)


@pytest.mark.skipif(not LONG, reason="waits until the agent has heard nothing for 30 seconds: make test-long")
def test_killed_engine_leaves_no_guest_and_its_sessions_say_so(cella, environment, tmp_path):
    """With a daemon of the test's own."""
    with own_daemon(tmp_path) as (engine, daemon):
        config = {
            "allow": {"executors": ["container"]}, "policy": {"executor": "container"},
            "container": {"engine": engine.host, "image": engine.image},
        }
        with serving(cella, environment) as start:
            client = start("--no-auth", config=config).client()
            session = client.open()
            assert session.value("1") == "1"
            (container,) = engine.containers()
            agent = engine.inspect(container["Id"])["State"]["Pid"]
            with open(f"/proc/{daemon}/cmdline", encoding="utf-8") as file:
                command = file.read().rstrip("\0").split("\0")
            os.kill(daemon, signal.SIGKILL)
            # The first run may begin before the end of the stream is seen.
            session.run("2")
            result = session.run("2")
            assert result["status"] == "rejected" and "open a new session" in result["error"]["message"], result
            error = client.post("/v1/sessions").expect(503)["error"]
            assert "start Docker or Podman" in error["message"], error
            session.delete()
            # Its standard input is still open; the agent ends because it hears nothing.
            assert wait_until(lambda: not os.path.exists(f"/proc/{agent}"), 45)
            with again(command, engine):
                session = client.open()
                assert session.value("6 * 7") == "42"
                session.delete()
                assert wait_until(lambda: not engine.containers(), 30), engine.containers()


@contextlib.contextmanager
def again(command, engine):
    """The daemon once more, on the same data."""
    with subprocess.Popen(["unshare", "--mount", "--propagation", "slave", *command], stderr=subprocess.DEVNULL) as daemon:
        try:

            def answers():
                with contextlib.suppress(OSError):
                    return engine.call("GET", "/containers/json")[0] == 200
                return False

            assert wait_until(answers, 30)
            yield
        finally:
            daemon.terminate()


@contextlib.contextmanager
def own_daemon(folder):
    """(engine, pid of its dockerd)"""
    if os.geteuid() != 0 or os.path.exists("/var/run/docker.sock"):
        pytest.skip("starts a daemon of its own as root, where there is none")
    script = str(REPOSITORY / "tests/needs/docker.sh")
    environment = {name: value for name, value in os.environ.items() if name != "DOCKER_HOST"}
    subprocess.run([script, "start", str(folder)], check=True, timeout=120, env=environment, stdout=subprocess.DEVNULL)
    pid, place = (folder / "docker.pid").read_text().split()
    settings = dict(line.split("=", 1) for line in (folder / "docker.env").read_text().splitlines())
    try:
        yield Engine(settings), int(pid)
    finally:
        # What keeps a container's descriptors when its daemon is gone.
        for shim in processes_with(place):
            with contextlib.suppress(ProcessLookupError):
                os.kill(shim, signal.SIGKILL)
        subprocess.run([script, "stop", str(folder)], check=True, timeout=60, env=environment)
