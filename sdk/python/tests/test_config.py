"""Configurations: they round-trip through JSON, and each of their fields does what it says."""

import dataclasses
import json
import os
import socket
import sys
import venv

import pytest

import cella
from cella import Environment, LocalConfig, LocalExecutor, Mount, SandboxConfig, SandboxExecutor
from support.running import HAS_CGROUPS

FULL = SandboxConfig(
    default_timeout=30,
    python_version="3.12",
    venv_dir="/venv",
    environment=Environment(packages=("six",), python="3.12", preload=("six",)),
    memory_limit="512m",
    cpu_quota=1.5,
    cpu_time_limit="20s",
    pids_limit=64,
    disk_limit=1 << 30,
    output_limit="2m",
    open_files_limit=256, calls_limit=7, calls_at_once_limit=8, call_size_limit="9k",
    network_disabled=False,
    preload=("json", "math"),
    env={"NAME": "wert ü"},
    mounts=(Mount("/data", "/data"), Mount("/out", "/out", read_only=False)),
    work_dir="/work",
    rootfs="/root",
    checkpoint="off",
    idle_timeout="5m",
    max_lifetime=3600,
    best_effort=True,
    deps=("six",),
    deps_file="/requirements.txt",
    allow_runtime_deps=False,
    value_of="last_expr_or_assign",
)


@pytest.mark.parametrize("config", [FULL, SandboxConfig(), LocalConfig(), LocalConfig(env={"A": "b"}, work_dir="/w")])
def test_configuration_round_trips_through_json_with_every_field(config):
    document = json.loads(config.to_json())
    assert set(document) == {field.name for field in dataclasses.fields(config)}
    again = type(config).from_json(config.to_json())
    assert again == config and again.to_json() == config.to_json()


def test_full_configuration_differs_from_the_default_in_every_field():
    """Else the round trip above would prove nothing of it."""
    assert [f.name for f in dataclasses.fields(FULL) if getattr(FULL, f.name) == getattr(SandboxConfig(), f.name)] == []


def test_every_field_becomes_its_policy_key():
    # The client reads the file.
    assert dataclasses.replace(FULL, deps_file=None).policy(local=False) == {
        "executor": "sandbox", "python": "3.12", "venv": "/venv", "network": "host", "preload": ["json", "math"],
        "environment": {"packages": ["six"], "python": "3.12", "preload": ["six"]},
        "env": {"NAME": "wert ü"}, "workdir": "/work", "rootfs": "/root", "checkpoint": "off", "idle_timeout": "5m",
        "max_lifetime": 3600, "best_effort": True, "deps": ["six"], "allow_runtime_deps": False,
        "mounts": [
            {"source": "/data", "target": "/data", "mode": "ro"}, {"source": "/out", "target": "/out", "mode": "rw"},
        ],
        "limits": {"timeout": 30, "memory": "512m", "cpus": 1.5, "cpu_time": "20s", "pids": 64, "disk": 1 << 30,
                   "output": "2m", "open_files": 256, "calls": 7, "calls_at_once": 8, "call_size": "9k"},
        "value_of": "last_expr_or_assign",
    }


def test_configuration_is_frozen_and_rejects_unknown_keys():
    with pytest.raises(dataclasses.FrozenInstanceError):
        FULL.memory_limit = "1g"
    with pytest.raises(ValueError, match=r"no memory_limt; it has .*memory_limit"):
        SandboxConfig.from_dict({"memory_limt": 1})
    with pytest.raises(TypeError, match="preload"):
        SandboxConfig(preload="numpy")


def test_executor_accepts_a_configuration_or_its_fields():
    assert SandboxExecutor(SandboxConfig(pids_limit=9)) == SandboxExecutor(pids_limit=9)
    assert SandboxExecutor() != LocalExecutor()
    with pytest.raises(TypeError):
        SandboxExecutor(LocalConfig())
    with pytest.raises(TypeError):
        SandboxExecutor(SandboxConfig(), pids_limit=9)


def test_limits_are_enforced(open_session, wait):
    session = open_session(SandboxExecutor(memory_limit="64m", default_timeout="500ms", pids_limit=10))
    assert wait(session.run("x = bytearray(200 << 20)", timeout=20)).status in ("oom", "error")
    assert wait(session.run("while True: pass")).status == "timeout"
    limits = wait(session.info())["isolation"]["limits"]
    assert (limits["memory"]["value"], limits["pids"]["value"], limits["timeout"]["value"]) == (64 << 20, 10, 0.5)


def test_cpu_quota_is_enforced_or_refused(open_session, wait):
    session = open_session(SandboxExecutor(cpu_quota=0.5))
    if HAS_CGROUPS:
        assert wait(session.info())["isolation"]["limits"]["cpus"]["value"] == 0.5
        return
    with pytest.raises(cella.CellaError, match="cpus"):
        wait(session.run("1"))
    session = open_session(SandboxExecutor(cpu_quota=0.5, best_effort=True))
    assert wait(session.run("1")).ok


def test_hosts_network_is_reachable_only_if_asked_for(open_session, wait):
    """A port of the host: reached where the host's network is asked for, and not by default."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5).close()"
        assert wait(open_session(SandboxExecutor(network_disabled=False)).run(code)).ok
        assert wait(open_session().run(code)).error.name == "ConnectionRefusedError"


def test_env_and_preload_are_applied(open_session, wait):
    session = open_session(SandboxExecutor(env={"NAME": "wert ü"}, preload=["colorsys"]))
    code = "import os, sys; (os.environ['NAME'], 'colorsys' in sys.modules)"
    assert wait(session.run(code)).value == "('wert ü', True)"


@pytest.mark.parametrize("executor", [SandboxExecutor, LocalExecutor])
def test_work_dir_is_a_directory_of_the_caller(open_session, wait, tmp_path, executor):
    (tmp_path / "in").write_text("from outside")
    real = tmp_path / "real"
    real.mkdir()
    (real / "in").write_text("from outside")
    link = tmp_path / "link"
    link.symlink_to(real)
    session = open_session(executor(work_dir=link))
    result = wait(session.run("open('out', 'w').write(open('in').read() + ', and back')"))
    assert result.ok, result
    assert (real / "out").read_text() == "from outside, and back"
    assert (real / "out").stat().st_uid == os.geteuid()


def test_mounts_are_visible(open_session, wait, tmp_path):
    for name in ("ro", "rw"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    mounts = [Mount(str(tmp_path / "ro"), "/mnt/ro"), Mount(str(tmp_path / "rw"), "/mnt/rw", read_only=False)]
    session = open_session(SandboxExecutor(mounts=mounts))
    assert wait(session.run("open('/mnt/ro/file').read() + open('/mnt/rw/file').read()")).value == "'rorw'"
    assert wait(session.run("open('/mnt/ro/new', 'w')")).error.name in ("OSError", "PermissionError")
    assert wait(session.run("open('/mnt/rw/new', 'w').write('x')")).ok
    assert (tmp_path / "rw" / "new").read_text() == "x"


def test_virtual_environment_is_used(open_session, wait, tmp_path):
    where = tmp_path / "venv"
    venv.create(where, symlinks=True)
    packages = next((where / "lib").glob("python3*")) / "site-packages"
    (packages / "only_here.py").write_text("answer = 42")
    for executor in (SandboxExecutor, LocalExecutor):
        session = open_session(executor(venv_dir=where))
        assert wait(session.run("import only_here; print(only_here.answer)")).stdout == "42\n"


def test_python_version_accepts_a_path(open_session, wait):
    base = os.path.realpath(sys.executable)
    for executor in (SandboxExecutor, LocalExecutor):
        session = open_session(executor(python_version=base))
        assert wait(session.run("import sys; print(sys.version_info[:3])")).stdout == f"{sys.version_info[:3]}\n"


def test_path_of_an_environments_python_selects_the_environment(open_session, wait, tmp_path):
    venv.create(tmp_path / "venv", symlinks=True)
    session = open_session(SandboxExecutor(python_version=tmp_path / "venv" / "bin" / "python"))
    assert wait(session.run("import sys; sys.prefix")).value == repr(str(tmp_path / "venv"))


def test_python_version_accepts_a_version(open_session, wait):
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    session = open_session(SandboxExecutor(python_version=version))
    assert wait(session.run("import sys; sys.version_info[:2]")).value == str(sys.version_info[:2])
    with pytest.raises(cella.CellaError, match=r"3\.77"):
        wait(open_session(SandboxExecutor(python_version="3.77")).run("1"))


def test_invalid_field_error_names_the_key(open_session, wait, tmp_path):
    for fields, word in (
        ({"memory_limit": "lots"}, "memory"),
        ({"pids_limit": 0}, "pids"),
        ({"checkpoint": "sometimes"}, "checkpoint"),
        ({"work_dir": str(tmp_path / "missing")}, "workdir"),
    ):
        with pytest.raises(cella.ApiError, match=word):
            wait(open_session(SandboxExecutor(**fields)).run("1"))


def test_checkpoint_off_loses_the_state(open_session, wait):
    session = open_session(SandboxExecutor(checkpoint="off"))
    wait(session.run("x = 1"))
    assert wait(session.run("import os; os._exit(1)")).state == "lost"
    assert wait(session.run("'again'")).value == "'again'"


def test_name_and_labels_are_reported(open_session, wait):
    session = open_session(name="mine", labels={"team": "a"})
    info = wait(session.info())
    assert (info["name"], info["labels"]) == ("mine", {"team": "a"})
    listed = wait(session.client.list_sessions())["sessions"]
    assert session.id in [each["id"] for each in listed]


def test_local_executor_sees_the_callers_files(open_session, wait, tmp_path):
    (tmp_path / "file").write_text("host")
    session = open_session(LocalExecutor())
    code = f"print(open({str(tmp_path / 'file')!r}).read())"
    assert wait(session.run(code)).stdout == "host\n"
    assert wait(open_session().run(code)).error.name == "FileNotFoundError"
