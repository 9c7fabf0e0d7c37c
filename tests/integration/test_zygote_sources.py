"""Where a zygote may load code from. What a guest or another user could have written runs only inside the jail of the
session that names it, never in a zygote, of which every session of the environment is a copy."""

import os
import pathlib
import subprocess

import pytest
from pythons import make_venv
from server import serve, short_directory  # noqa: F401 (fixtures)
from support.cella import PYTHON

pytestmark = pytest.mark.as_user

IS_ROOT = os.geteuid() == 0
NO_POOL = {"sessions": {"pool_shells": 0, "pool_parked": 0}}

# In the zygote, a user is root of the maker's namespace; a guest has the number 1000.
WITNESS = "import os, sys; sys.witness = os.getuid()\n"
ZYGOTE, GUEST = "0", "1000"
ASK = "import sys; getattr(sys, 'witness', 'nothing ran')"


@pytest.fixture
def venv(tmp_path):
    """In a directory that only its owner may write to. Its .pth file notes who runs it."""
    tmp_path.chmod(0o755)
    (tmp_path / "project").mkdir(mode=0o755)
    directory = make_venv(PYTHON, tmp_path / "project" / "venv")
    packages(directory).joinpath("witness.pth").write_text(WITNESS)
    return directory


def packages(venv):
    return next(venv.glob("lib/python3*/site-packages"))


@pytest.fixture
def private(serve):  # noqa: F811 (fixture)
    """A server whose clients are all the server's own user, as the Python package starts one."""
    return serve(config={"allow": {"whole_machine": True}, **NO_POOL}).client()


def ran_in(client, **policy):
    """Who ran the .pth file of a new session, and how that was started."""
    session = client.open(**policy)
    try:
        started = session.run("1")["isolation"]["start"]
        return session.value(ASK), started
    finally:
        session.delete()


def test_environment_of_the_owner_alone_is_loaded_by_a_zygote(private, venv):
    """The control of all others here: the .pth file does run, and in the zygote."""
    assert ran_in(private, venv=str(venv)) == (ZYGOTE, "fork")


def test_environment_written_by_a_session_is_not_loaded_by_a_zygote(serve, tmp_path):  # noqa: F811
    """The attack: one client's guest writes an environment with a .pth file, another client names it."""
    tmp_path.chmod(0o755)
    project = tmp_path / "project"
    project.mkdir(mode=0o755)
    server = serve(config={"allow": {"mounts": [str(tmp_path)]}, **NO_POOL}, tokens={"a": "a" * 20, "b": "b" * 20},
                   tcp=True)
    writer = server.tcp_client("a" * 20).open(workdir=str(project))
    made = writer.run("import subprocess, sys\n"
                      "subprocess.run([sys.executable, '-m', 'venv', '--without-pip', 'venv'], check=True)\n"
                      "import glob\n"
                      f"open(glob.glob('venv/lib/python3*/site-packages')[0] + '/w.pth', 'w').write({WITNESS!r})")
    assert made["status"] == "ok", made
    who, started = ran_in(server.tcp_client("b" * 20), venv=str(project / "venv"))
    assert (who, started) == (GUEST, "exec: guests may write to its environment")


def test_environment_below_a_link_to_an_allowed_directory_is_not_loaded(serve, venv, tmp_path):  # noqa: F811
    (tmp_path / "link").symlink_to(venv.parent)
    client = serve(config={"allow": {"mounts": [str(tmp_path / "link")]}, **NO_POOL}).client()
    who, started = ran_in(client, venv=str(venv))
    assert (who, started) == (GUEST, "exec: guests may write to its environment")


@pytest.mark.parametrize("way", ["workdir", "mount", "inside", "program"])
def test_environment_that_an_earlier_session_could_write_to_is_not_loaded(private, venv, way):
    """Also where the zygote of this environment is warm: a stale one would load the files anew."""
    assert ran_in(private, venv=str(venv)) == (ZYGOTE, "fork")
    given = {
        "workdir": {"workdir": str(venv.parent)},
        "mount": {"mounts": [{"source": str(venv), "target": "/data", "mode": "rw"}]},
        "inside": {"workdir": str(packages(venv))},
        "program": {"workdir": str(venv)},
    }[way]
    if way == "program":
        assert private.post("/v1/run", code="1", policy=given).expect(200)["status"] == "ok"
    else:
        private.open(**given).delete().expect(204)
    packages(venv).joinpath("new.pth").write_text("import sys\n")
    assert ran_in(private, venv=str(venv)) == (GUEST, "exec: guests may write to its environment")


def test_directory_of_a_read_only_mount_is_no_danger(private, venv):
    session = private.open(mounts=[{"source": str(venv), "target": "/data"}])
    session.delete().expect(204)
    assert ran_in(private, venv=str(venv)) == (ZYGOTE, "fork")


def test_zygote_that_died_does_not_load_what_guests_were_given_since(private, venv):
    session = private.open(venv=str(venv))
    assert session.value(ASK) == ZYGOTE
    private.open(workdir=str(packages(venv))).delete().expect(204)
    for process in zygotes_with(venv):
        os.kill(process, 9)
    reset = private.post(f"/v1/sessions/{session.id}/reset")
    answer = session.run(ASK) if reset.status < 300 else {"value": None}
    assert answer.get("value") != ZYGOTE, answer


def zygotes_with(venv):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = entry.joinpath("cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if words[:1] == [str(venv / "bin/python").encode()] and b"--zygote" in words:
            found.append(int(entry.name))
    assert found, "no zygote of this environment"
    return found


MODES = {
    "prefix": lambda venv: venv,
    "packages": packages,
    "file": lambda venv: packages(venv) / "witness.pth",
    "parent": lambda venv: venv.parent,
    "configuration": lambda venv: venv / "pyvenv.cfg",
}


@pytest.mark.parametrize("name", MODES)
def test_environment_that_any_user_may_write_to_is_not_loaded(private, venv, name):
    place = MODES[name](venv)
    place.chmod(place.stat().st_mode | 0o002)
    assert ran_in(private, venv=str(venv)) == (GUEST, "exec: other users may write to its environment")


@pytest.mark.skipif(not IS_ROOT, reason="only root can give files to another user")
@pytest.mark.parametrize("name", MODES)
def test_environment_of_another_user_is_not_loaded(private, venv, name):
    os.chown(MODES[name](venv), 12345, 12345)
    assert ran_in(private, venv=str(venv)) == (GUEST, "exec: other users may write to its environment")


def test_directory_of_a_pth_file_that_others_may_write_to_is_not_loaded(private, venv):
    beside = venv / "beside"
    beside.mkdir()
    packages(venv).joinpath("beside.pth").write_text(f"{beside}\n")
    assert ran_in(private, venv=str(venv)) == (ZYGOTE, "fork")
    beside.chmod(0o777)
    packages(venv).joinpath("later.pth").write_text("import sys\n")
    assert ran_in(private, venv=str(venv)) == (GUEST, "exec: other users may write to its environment")


def test_module_that_others_may_write_to_is_not_loaded(private, venv):
    packages(venv).joinpath("witness.pth").write_text("import planted\n")
    planted = packages(venv) / "planted.py"
    planted.write_text(WITNESS)
    assert ran_in(private, venv=str(venv)) == (ZYGOTE, "fork")
    planted.chmod(0o666)
    packages(venv).joinpath("new.pth").write_text("import sys\n")
    assert ran_in(private, venv=str(venv)) == (GUEST, "exec: other users may write to its environment")


@pytest.mark.parametrize("place", ["package/__init__.py", "package/below/module.py", "package/below"])
def test_part_of_a_package_that_others_may_write_to_is_not_loaded(private, venv, place):
    packages(venv).joinpath("witness.pth").write_text("import package.below.module\n")
    below = packages(venv) / "package" / "below"
    below.mkdir(parents=True)
    (below.parent / "__init__.py").touch()
    (below / "module.py").write_text(WITNESS)
    assert ran_in(private, venv=str(venv)) == (ZYGOTE, "fork")
    path = packages(venv) / place
    path.chmod(path.stat().st_mode | 0o002)
    packages(venv).joinpath("new.pth").write_text("import sys\n")
    assert ran_in(private, venv=str(venv)) == (GUEST, "exec: other users may write to its environment")


def test_preloaded_mount_that_others_may_write_to_is_not_loaded(private, venv, tmp_path):
    modules = tmp_path / "modules"
    modules.mkdir(mode=0o755)
    packages(venv).joinpath("modules.pth").write_text("/modules\n")
    (modules / "planted.py").write_text("import os\nwho = os.getuid()\n")

    def who(session):
        return session.value("import planted; planted.who")

    policy = {"venv": str(venv), "mounts": [{"source": str(modules), "target": "/modules"}]}
    session = private.open(preload=["planted"], **policy)
    assert who(session) == ZYGOTE, "the control: the zygote imports what only the owner could write"
    session.delete().expect(204)
    modules.chmod(0o777)
    assert who(private.open(preload=["planted"], **policy)) == GUEST
