"""Options of containers: user, names of machines, devices, capabilities, a command before any code, containers that stay."""

import json
import os
import signal
import time

import pytest
from support.engine import Engine
from support.running import wait_until

pytestmark = [pytest.mark.needs("docker"), pytest.mark.as_user]

CAPABILITIES = """
status = dict(line.split(':\\t') for line in open('/proc/self/status').read().splitlines() if ':\\t' in line)
print(status['CapEff'], status['CapBnd'], status['NoNewPrivs'])
"""
NET_RAW = f"{1 << 13:016x}"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="the caller's own directory is root's only for root")


@pytest.fixture(scope="module")
def engine():
    return Engine()


@pytest.fixture
def words(engine):
    return ["--executor", "container", "--image", engine.image, "--engine", engine.host]


@pytest.fixture
def contain(run, engine, words):
    """Runs code in a container; none of ours may stay."""
    before = {one["Id"] for one in engine.containers()}
    yield lambda code, *flags, **options: run.json("-c", code, *words, *flags, **options)
    left = lambda: {one["Id"] for one in engine.containers()} - before
    assert wait_until(lambda: not left()), left()


@pytest.fixture
def refused(run, engine, words):
    before = len(engine.containers())

    def start(*flags, code=126):
        return run.rejected("-c", "print('never')", *words, *flags, code=code)

    yield start
    assert wait_until(lambda: len(engine.containers()) == before)


@pytest.fixture
def malformed(run, words):
    """Runs nothing, since the command line is wrong. Returns the message."""

    def start(*flags):
        ended = run("-c", "print('never')", *words, *flags)
        assert (ended.exit_code, ended.stdout) == (2, b""), ended.describe()
        return ended.stderr.decode()

    return start


@pytest.fixture
def name(engine):
    made = f"cella-test-options-{os.getpid()}"
    yield made
    engine.remove(made)


def test_user_of_the_policy_runs_the_code_and_owns_its_workspace(contain):
    code = "import os; print(os.getuid(), os.getgid()); open('f', 'w').close(); print(os.stat('f').st_uid)"
    result = contain(code, "--user", "12345:12346")
    assert result["stdout"] == "12345 12346\n12345\n", result
    assert result["isolation"]["user"] == "12345:12346"
    assert contain(code, "--user", "4242")["stdout"] == "4242 4242\n4242\n"


@pytest.mark.parametrize("user", ["0", "0:0", "1000:0", "root", "-1", "1:2:3", "4294967295", "1000:"])
def test_root_of_the_machine_and_names_are_refused_as_users(refused, user):
    assert "user" in refused("--user", user)


def test_names_of_machines_are_in_the_hosts_file(contain):
    code = "print([line.split() for line in open('/etc/hosts') if 'example' in line])"
    result = contain(code, "--add-host", "a.example:192.0.2.7", "--add-host", "b.example:2001:db8::7")
    assert result["stdout"] == "[['192.0.2.7', 'a.example'], ['2001:db8::7', 'b.example']]\n", result
    assert "a.example:192.0.2.7" in result["isolation"]["extra_hosts"]


@pytest.mark.parametrize("host", ["a", "a:b", "a b:192.0.2.7", ":192.0.2.7", "a:192.0.2.7\n192.0.2.8", "-a:192.0.2.7"])
def test_other_lines_of_the_hosts_file_are_refused(malformed, host):
    assert "--add-host" in malformed("--add-host", host)


@pytest.mark.parametrize("gpus", ["all", "2", "device=0,1", '[{"Count": -1, "Capabilities": [["gpu"]]}]'])
def test_devices_are_asked_of_the_engine(refused, gpus):
    """This engine has no driver for them, which it says."""
    assert "device driver" in refused("--gpus", gpus, code=126)


@pytest.mark.parametrize("gpus", ["none", "0", "-1", "device=", "{}", "[]", '[{"Privileged": true}]', '[{"Count": "x"}]'])
def test_what_is_no_request_for_devices_is_refused(malformed, gpus):
    assert "--gpus" in malformed("--gpus", gpus)


@as_root
def test_added_capability_is_the_only_one(contain, tmp_path):
    plain = contain(CAPABILITIES, "--workdir", tmp_path)["stdout"].split()
    assert plain == ["0" * 16, "0" * 16, "1"]
    result = contain(CAPABILITIES, "--workdir", tmp_path, "--cap-add", "CAP_NET_RAW")
    assert result["stdout"].split() == [NET_RAW, NET_RAW, "1"], result
    assert result["isolation"]["cap_add"] == "NET_RAW"


def test_capability_that_the_kernel_would_ignore_is_refused(refused, malformed):
    assert "cap_add" in refused("--cap-add", "NET_RAW")
    for name in ("ALL", "net_raw", "", "NET RAW"):
        assert "--cap-add" in malformed("--cap-add", name)


def test_init_command_runs_once_before_the_code_as_its_user(contain):
    command = "id -u >> f; echo more >> f; pwd"
    result = contain("import os; print(open('f').read().split() == [str(os.getuid()), 'more'])", "--init-command", command)
    assert (result["status"], result["stdout"]) == ("ok", "True\n"), result
    assert result["isolation"]["init_command"] == command


def test_init_command_runs_once_for_a_session(open_session, words):
    session = open_session(*words, "--init-command", "echo line >> f", python=None)
    for _ in range(2):
        assert session.value("open('f').read()") == "'line\\n'"


def test_failing_init_command_fails_the_start_with_its_output(refused):
    message = refused("--init-command", "echo first; echo the reason >&2; exit 3")
    assert "init_command failed" in message and "exit code 3" in message and "the reason" in message


def test_init_command_ends_at_the_time_limit(refused):
    assert "did not end within 1s" in refused("--init-command", "trap '' TERM INT; sleep 600", "--timeout", "1s")


def test_init_command_is_limited_like_the_code(refused):
    assert "init_command failed" in refused("--init-command", "python3 -c 'bytearray(10**9)'", "--memory", "64m")


def test_variables_are_listed_by_name(contain):
    result = contain("import os; print(os.environ['SECRET_NAME'])", "--env", "SECRET_NAME=secret value")
    assert result["stdout"] == "secret value\n"
    told = json.dumps(result["isolation"])
    assert "SECRET_NAME" in told and "secret value" not in told


def doctor(cella, environment, engine):
    done = cella("doctor", "--json", env={**environment, "DOCKER_HOST": engine.host})
    return json.loads(done.stdout)


def test_container_stays_stopped_and_can_be_entered_and_replaced(cella, environment, run, engine, words, name):
    flags = [*words, "--container-name", name, "--no-auto-remove"]
    done = run("-c", "open('/workspace/f', 'w').close(); print('on')", *flags)
    assert done.stdout == b"on\n" and f"docker rm -f {name}" in done.stderr.decode(), done.describe()
    found = engine.inspect(name)
    assert found["State"]["Status"] == "exited" and found["HostConfig"]["AutoRemove"] is False
    first = found["Id"]
    report = doctor(cella, environment, engine)
    assert any(name in check["name"] and "exited" in check["detail"] and f"docker rm -f {name}" in check["fix"]
               for check in report["checks"]), report
    # Another start removes orphans, and not this one.
    assert run("-c", "print(1)", *words).stdout == b"1\n"
    assert engine.inspect(name)["Id"] == first
    assert engine.call("POST", f"/containers/{name}/start")[0] == 204
    assert engine.execute(name, ["sh", "-c", "echo entered; ls -d /workspace"]) == "entered\n/workspace\n"
    # Its name is free for the next one.
    assert run("-c", "print(2)", *flags).stdout == b"2\n"
    assert engine.inspect(name)["Id"] != first


def test_container_stays_idle_and_no_process_of_its_session_lives(run, engine, words, name):
    code = "import os, time\nif os.fork() == 0:\n    os.setsid(); time.sleep(600)\nprint('on')"
    began = time.monotonic()
    done = run("-c", code, *words, "--container-name", name, "--no-stop-container")
    assert time.monotonic() - began < 7
    assert done.stdout == b"on\n" and f"docker exec -it {name} sh" in done.stderr.decode(), done.describe()
    found = engine.inspect(name)
    assert found["State"]["Running"] and "--auth=" in found["Args"][-1]
    alive = engine.execute(name, ["sh", "-c", "cat /proc/[0-9]*/comm"]).split()
    assert sorted(alive) == ["cella-agent", "sh"], alive
    # It heeds the engine.
    assert engine.call("POST", f"/containers/{name}/stop?t=30")[0] == 204
    assert wait_until(lambda: not engine.exists(name), 5)


def test_session_that_stays_ends_with_its_killed_supervisor(run, engine, words, name):
    flags = [*words, "--container-name", name, "--no-stop-container"]
    with run.started("-c", "import time; print('on', flush=True); time.sleep(600)", *flags) as process:
        process.wait_for(b"on")
        process.send(signal.SIGKILL)
        process.finish()
    names = lambda: engine.execute(name, ["sh", "-c", "cat /proc/[0-9]*/comm"])
    assert wait_until(lambda: "python3" not in names(), 60), names()
    assert engine.inspect(name)["State"]["Running"]


def test_living_container_of_that_name_is_not_replaced(run, engine, words, name):
    flags = [*words, "--container-name", name, "--no-auto-remove"]
    with run.started("-c", "import time; print('on', flush=True); time.sleep(600)", *flags) as process:
        process.wait_for(b"on")
        first = engine.inspect(name)["Id"]
        assert name in run.rejected("-c", "print(1)", *flags)
        assert engine.inspect(name)["State"]["Running"] and engine.inspect(name)["Id"] == first
        process.send(signal.SIGTERM)
        process.finish()
    assert engine.inspect(name)["State"]["Status"] == "exited"
