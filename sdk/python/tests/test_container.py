"""Containers from Python: ContainerExecutor, its rule about tokens, and what the engine was truly asked for."""

import asyncio
import json
import os
import secrets

import pytest

import cella
import cella.sync
from cella import ContainerConfig, ContainerExecutor
from conftest import REPOSITORY
from support.engine import Engine
from support.needs import require
from support.running import wait_until

docker = pytest.mark.needs("docker")


@pytest.fixture(scope="module")
def engine():
    return Engine(require("docker"))


@pytest.fixture
def contained(open_session, engine):
    """Opens sessions in containers of the test image; their containers end with the test."""

    def make(**fields):
        if "auth_token" not in fields:
            fields.setdefault("auth_disabled", True)
        return open_session(executor=ContainerExecutor(engine=engine.host, image=engine.image, **fields))

    return make


def a_name():
    return f"cella-test-{secrets.token_hex(6)}"


# The table of tokens


@pytest.mark.parametrize("given", [{}, {"auth_token": None}, {"auth_token": ""}])
def test_configuration_without_token_is_refused_and_names_both_fields(given):
    with pytest.raises(ValueError, match=r"auth_token.*auth_disabled=True"):
        ContainerConfig(**given)


def test_token_and_no_token_contradict_each_other():
    with pytest.raises(ValueError, match="contradict"):
        ContainerConfig(auth_token="secret", auth_disabled=True)


def test_token_is_not_shown():
    assert "secret" not in repr(ContainerConfig(auth_token="secret"))


def test_cpu_quota_in_microseconds_is_refused_with_the_share():
    with pytest.raises(ValueError, match=r"cores.*0\.5"):
        ContainerConfig(auth_disabled=True, cpu_quota=50000)


@pytest.mark.parametrize("given", [{"deps": ["six"]}, {"deps_file": "r.txt"}, {"allow_runtime_deps": True}])
def test_packages_are_refused_where_no_state_is_kept(given):
    with pytest.raises(ValueError, match="deps"):
        ContainerConfig(auth_disabled=True, mode="command", **given)


def test_configuration_survives_json():
    config = ContainerConfig(auth_token="secret", image="an/image:1", pids_limit=9)
    assert ContainerConfig.from_json(config.to_json()) == config


def test_configuration_becomes_a_policy_with_the_defaults_of_the_table():
    assert ContainerConfig(auth_token="secret", work_dir="/w", bind_dir="/b").policy(local=False) == {
        "executor": "container", "network": "none", "workdir": "/w", "limits": {"timeout": 60.0, "memory": "512m"},
        "container": {"auth_token": "secret", "auth_disabled": False, "bind_dir": "/b"},
        "best_effort": False, "allow_runtime_deps": False,
    }


# With an engine


@docker
def test_session_keeps_state_and_says_how_it_is_confined(contained, wait, engine):
    name = a_name()
    session = contained(auth_token="a secret", container_name=name, cpu_quota=0.5)
    assert wait(session.run("x = 6; print('out')")).stdout == "out\n"
    assert wait(session.run("x * 7")).value == "42"
    assert wait(session.run("1 / 0")).error.name == "ZeroDivisionError"
    isolation = wait(session.info())["isolation"]
    assert isolation["network"] == "none" and isolation["limits"]["memory"]["value"] == 512 << 20
    for word in ("state", "value", "interrupt", "network_isolation", "memory_limit", "filesystem_isolation", "timeout"):
        assert session.supports(word), word
    found = engine.inspect(name)
    assert "a secret" not in json.dumps(found)
    host = found["HostConfig"]
    assert host["Memory"] == host["MemorySwap"] == 512 << 20 and host["NanoCpus"] == 500_000_000
    assert host["ReadonlyRootfs"] and host["NetworkMode"] == "none" and host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"] and not host["ExtraHosts"] and not host["DeviceRequests"] and not host["Privileged"]
    assert host["AutoRemove"] and host["PidsLimit"] <= 128 + 10


LOOK_FOR_A_TOKEN = """
import os
def texts():
    yield repr(dict(os.environ))
    for pid in filter(str.isdigit, os.listdir('/proc')):
        for name in ('environ', 'cmdline', 'comm'):
            yield f'/proc/{pid}/{name}'
    for place in ('/run', '/workspace', '/tmp', '/etc', '/dev/shm'):
        for folder, _, files in os.walk(place):
            yield from (os.path.join(folder, file) for file in files)
def read(path):
    try:
        with open(path, errors='replace') as file:
            return file.read(1 << 20)
    except OSError:
        return ''
[path for path in texts() if backwards[::-1] in path or backwards[::-1] in read(path)]
"""


@docker
def test_token_is_in_no_variable_argument_label_or_file(contained, wait, engine):
    token, name = secrets.token_hex(24), a_name()
    session = contained(auth_token=token, container_name=name)
    # The search finds what is there.
    planted = f"open('planted', 'w').write({token!r}); backwards = {token[::-1]!r}\n" + LOOK_FOR_A_TOKEN
    assert wait(session.run(planted)).value == "['/workspace/planted']"
    assert wait(session.run("os.unlink('planted')\n" + LOOK_FOR_A_TOKEN)).value == "[]"
    assert token not in json.dumps(engine.inspect(name)) + engine.logs(name) + json.dumps(wait(session.info()))


@docker
def test_timeout_and_cancel_end_the_code(contained, wait):
    session = contained(timeout="1s")
    result = wait(session.run("print('before', flush=True)\nwhile True: pass"))
    assert (result.status, result.stdout) == ("timeout", "before\n")
    assert wait(session.run("1")).value == "1"


@docker
def test_events_come_as_they_happen(engine):
    async def events():
        executor = ContainerExecutor(auth_disabled=True, engine=engine.host, image=engine.image)
        async with cella.Session(executor) as session:
            stream = session.stream("print('a'); 2")
            return [event.type async for event in stream], stream.result.value

    kinds, value = asyncio.run(events())
    assert kinds[0] == "started" and "stdout" in kinds and kinds[-1] == "finished" and value == "2"


@docker
def test_closed_session_leaves_no_container(contained, wait, engine):
    name = a_name()
    session = contained(container_name=name)
    wait(session.run("1"))
    assert engine.exists(name)
    wait(session.close() if hasattr(session, "close") else session.aclose())
    assert wait_until(lambda: not engine.exists(name))


@docker
def test_options_reach_the_container(contained, wait, engine, tmp_path):
    name = a_name()
    work = tmp_path / "work"
    work.mkdir()
    session = contained(
        container_name=name, work_dir=work, read_only=False, env={"NAME": "wert"}, network_disabled=False,
        pids_limit=33,
    )
    code = "import os; open('made', 'w').close(); open('/made', 'w').close(); (os.getuid(), os.environ['NAME'])"
    assert wait(session.run(code)).value == str((os.getuid(), "wert"))
    host = engine.inspect(name)["HostConfig"]
    assert host["NetworkMode"] == "bridge" and host["ReadonlyRootfs"] is False and 33 <= host["PidsLimit"] <= 43
    assert (work / "made").stat().st_uid == os.getuid()


@docker
def test_further_options_reach_the_container(contained, wait, engine):
    session = contained(
        user=12345, extra_hosts={"a.example": "192.0.2.7"}, init_command="echo once >> f", env={"NAME": "secret"}
    )
    code = "import os; (os.getuid(), open('f').read(), 'a.example' in open('/etc/hosts').read())"
    assert wait(session.run(code)).value == "(12345, 'once\\n', True)"
    isolation = wait(session.info())["isolation"]
    assert isolation["user"] == "12345:12345" and isolation["env"] == "NAME" and "secret" not in str(isolation)


@docker
@pytest.mark.parametrize("mode", ["session", "command"])
def test_files_of_a_working_directory_are_reached_from_outside(contained, wait, tmp_path, mode):
    session, without = contained(work_dir=tmp_path, mode=mode), contained(mode=mode)
    for each in (session, without):
        wait(each.run("pass"))
    assert session.supports("files") and not without.supports("files")
    wait(session.upload("in.txt", "given"))
    wait(session.run("open('out.txt', 'w').write(open('in.txt').read().upper())"))
    assert wait(session.download("out.txt")) == b"GIVEN"
    assert {entry.name for entry in wait(session.files.list())} == {"in.txt", "out.txt"}
    assert {each.stat().st_uid for each in tmp_path.iterdir()} == {os.getuid()}
    # A link of the guest's leads nowhere else.
    wait(session.run("import os; os.symlink('/etc/passwd', 'link')"))
    with pytest.raises(cella.CellaError):
        wait(session.download("link"))


@docker
def test_crash_goes_back_to_the_checkpoint(contained, wait):
    session = contained()
    wait(session.run("x = 1"))
    assert session.supports("checkpoints")
    wait(session.checkpoint("one"))
    wait(session.run("x = 2"))
    assert wait(session.run("import os; os.abort()")).state == "rolled_back"
    assert wait(session.run("x")).value == "2"
    wait(session.rollback("one"))
    assert wait(session.run("x")).value == "1"


@docker
def test_fresh_runs_call_the_same_tools_and_artifacts(open_session, wait, engine, tmp_path):
    """Each run has a container of its own, whose calls reach the same session."""
    executor = ContainerExecutor(auth_disabled=True, engine=engine.host, image=engine.image, fresh="run")
    session = open_session(executor=executor, storage=cella.FileStorage(tmp_path))
    session.tool(lambda number: 2 * number, name="double")
    code = """
before = artifacts.load('n') if artifacts.exists('n') else 0
artifacts.save('n', before + tools.double(3))
"""
    for total in (6, 12, 18):
        result = wait(session.run(code))
        assert (result.status, result.state) == ("ok", "none"), result
        assert wait(session.artifacts.load("n")) == total
        assert wait(session.run("before")).error.name == "NameError"
    assert session.supports("value") and session.supports("calls") and not session.supports("state")


@docker
@pytest.mark.parametrize("field, status", [("auto_remove", "exited"), ("stop_container", "running")])
def test_container_stays_where_it_was_asked_to(contained, wait, engine, field, status):
    name = a_name()
    session = contained(container_name=name, **{field: False})
    try:
        assert wait(session.run("1")).value == "1"
        assert f"docker rm -f {name}" in wait(session.info())["isolation"]["kept"]
        wait(session.close() if hasattr(session, "close") else session.aclose())
        assert engine.inspect(name)["State"]["Status"] == status
    finally:
        engine.remove(name)


@docker
@pytest.mark.parametrize(
    "fields, words",
    [
        ({"bind_dir": "/b"}, "bind_dir"),
        ({"image": "cella-test/none:9", "pull": "never"}, "cella-test/none:9"),
        ({"engine": "unix:///nonexistent.sock"}, "start Docker or Podman"),
        ({"read_only": False, "disk_limit": "1m"}, "disk"),
        ({"user": "0"}, "user"),
        ({"cap_add": ["NET_RAW"]}, "cap_add"),
        ({"device_requests": [{"Count": -1, "Capabilities": [["gpu"]]}]}, "device driver"),
        ({"init_command": "echo reason; false"}, "init_command failed.*reason"),
    ],
)
def test_what_cannot_be_is_refused_by_name(open_session, wait, engine, fields, words):
    before = len(engine.containers())
    given = {"auth_disabled": True, "engine": engine.host, "image": engine.image, **fields}
    session = open_session(executor=ContainerExecutor(**given))
    with pytest.raises(cella.CellaError, match=f"(?s){words}"):
        wait(session.run("1"))
    assert wait_until(lambda: len(engine.containers()) == before)


@docker
def test_taken_name_is_refused_and_the_other_container_lives(contained, wait, engine):
    name = a_name()
    wait(contained(container_name=name).run("1"))
    with pytest.raises(cella.CellaError, match=name):
        wait(contained(container_name=name).run("1"))
    assert engine.inspect(name)["State"]["Running"]


@docker
@pytest.mark.needs("network-index")
def test_snippets_of_the_guide_print_what_they_say(engine, capsys, monkeypatch, tmp_path):
    from test_docs import PROMISE, SNIPPET, run

    monkeypatch.setenv("DOCKER_HOST", engine.host)
    monkeypatch.setenv("CELLA_STATE_DIR", str(tmp_path))
    snippets = SNIPPET.findall((REPOSITORY / "docs" / "container.md").read_text())
    assert len(snippets) == 2
    names = {}
    for snippet in snippets:
        code = snippet.replace('"python:3-slim"', f'"{engine.image}", engine="{engine.host}"')
        asyncio.run(run(code, names))
        assert capsys.readouterr().out.splitlines() == PROMISE.findall(snippet)


@docker
def test_text_and_displays_of_a_container_are_in_the_order_of_the_code(contained, wait):
    session = contained()
    code = "for n in range(3):\n    print('text', n)\n    display(n)\nprint('end')\n'value'"
    for _ in range(20):
        done = wait(session.run(code))
        assert str(done) == "text 0\n0\ntext 1\n1\ntext 2\n2\nend\n'value'"
