"""Sessions of a server that have directories of the host for themselves: a workdir, mounts."""

import os
import shutil
import subprocess
import threading
import time

import pytest
from pythons import make_venv
from server import Server, serve, short_directory  # noqa: F401 (fixtures)
from support.cella import PYTHON
from support.descendants import Family

pytestmark = pytest.mark.as_user

NO_POOL = {"sessions": {"pool_shells": 0, "pool_parked": 0}}


@pytest.fixture
def hosts(tmp_path):
    """Makes a directory of the host that holds one file with its own name."""

    def make(name):
        directory = tmp_path / name
        directory.mkdir()
        (directory / "name").write_text(name)
        return directory

    return make


@pytest.fixture
def server(serve, tmp_path):  # noqa: F811 (fixture)
    return serve(config={"allow": {"mounts": [str(tmp_path)]}, **NO_POOL})


def zygotes(server):
    """How many there are. Their forks have their words, and are their children."""
    family = Family(server.pid)
    marked = {pid for pid, words in family.words.items() if b"--zygote" in words}
    return len(marked - {child for pid in marked for child in family.children(pid)})


def options_of(session):
    """Of the mounts that are neither the tree's nor the scratch file system's."""
    listed = eval(session.value("open('/proc/self/mountinfo').read()"))
    of = {line.split()[4]: set(line.split()[5].split(",")) for line in listed.splitlines()}
    ours = ("/data", "/again", "/etc-file", "/tmp/")
    return {at: of[at] & {"ro", "rw", "nosuid", "nodev", "noexec"} for at in of if at.startswith(ours)}


def started(session):
    return session.run("1")["isolation"]["start"]


def test_sessions_with_different_workdirs_share_a_zygote(server, hosts):
    client = server.client()
    plain = client.open()
    assert plain.value("1") == "1"
    sessions = {name: client.open(workdir=str(hosts(name))) for name in ("a", "b", "c")}
    for name, session in sessions.items():
        assert session.value("open('name').read()") == repr(name)
        assert session.value(f"open('made-{name}', 'w').write('x'); import os; sorted(os.listdir())") == repr(
            [f"made-{name}", "name"]
        )
    assert {started(session) for session in (plain, *sessions.values())} == {"fork"}
    assert zygotes(server) == 1
    # None of them meets another's, by whatever path.
    everywhere = "import os; sorted(f for d, _, fs in os.walk('/') if not d.startswith('/proc') for f in fs if 'made-' in f)"
    assert plain.value(everywhere) == "[]"
    assert sessions["b"].value(everywhere) == "['made-b']"
    mounted = "[line.split()[4] for line in open('/proc/self/mountinfo') if line.split()[4].startswith('/workspace')]"
    assert [session.value(mounted) for session in (plain, sessions["a"])] == ["['/workspace']"] * 2


def test_files_made_in_a_workdir_belong_to_the_directory_owner(server, hosts):
    directory = hosts("mine")
    session = server.client().open(workdir=str(directory), mounts=[{"source": str(hosts("other")), "target": "/workspace/in"}])
    assert session.value("open('made', 'w').write('x'); open('in/name').read()") == "'other'"
    session.delete().expect(204)
    assert {entry.name for entry in directory.iterdir()} == {"name", "made", "in"}
    assert {entry.stat().st_uid for entry in directory.iterdir()} == {os.getuid()}
    assert list((directory / "in").iterdir()) == []


def test_sessions_with_equal_mount_points_share_only_a_zygote(server, hosts, tmp_path):
    client = server.client()
    (tmp_path / "file").write_text("a file")
    assert client.open().value("1") == "1"
    plain = zygotes(server)
    names = ("a", "b")
    sessions = []
    for name in names:
        source = hosts(name)
        (source / "deep").mkdir()
        sessions.append(client.open(mounts=[
            {"source": str(source), "target": "/data", "mode": "rw" if name == "a" else "ro"},
            {"source": str(source), "target": "/again"},
            {"source": str(tmp_path / "file"), "target": "/etc-file"},
            {"source": str(source / "deep"), "target": "/data/deep", "mode": "rw"},
            {"source": str(source), "target": "/tmp/late"},
        ]))
    for name, session in zip(names, sessions):
        assert options_of(session) == {
            "/data": {"rw" if name == "a" else "ro", "nosuid", "nodev"}, "/data/deep": {"rw", "nosuid", "nodev"},
            **dict.fromkeys(("/again", "/etc-file", "/tmp/late"), {"ro", "nosuid", "nodev"}),
        }
        places = "[open(p + '/name').read() for p in ('/data', '/again', '/tmp/late')], open('/etc-file').read()"
        assert session.value(places) == repr(([name] * 3, "a file"))
        assert session.run("open('/data/new', 'w')")["status"] == ("ok" if name == "a" else "error")
        assert session.run("open('/again/new', 'w')")["status"] == "error"
        assert session.run("open('/data/deep/new', 'w')")["status"] == "ok"
    assert zygotes(server) == plain + 2, "what may be written to differs"
    third = client.open(mounts=[
        {"source": str(tmp_path / "b" if at != "/etc-file" else tmp_path / "file"), "target": at, "mode": mode}
        for at, mode in (("/data", "rw"), ("/again", "ro"), ("/etc-file", "ro"), ("/data/deep", "rw"), ("/tmp/late", "ro"))
    ])
    assert third.value("open('/data/name').read()") == "'b'"
    assert zygotes(server) == plain + 2
    # Nor do those without see even the places.
    assert client.open().value("import os; [p for p in ('/data', '/again', '/etc-file') if os.path.exists(p)]") == "[]"


def test_replaced_directory_is_opened_anew(server, hosts, tmp_path):
    client = server.client()
    hosts("place")
    before = client.open(workdir=str(tmp_path / "place"))
    (tmp_path / "place").rename(tmp_path / "moved")
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "name").write_text("new")
    after = client.open(workdir=str(tmp_path / "place"))
    assert (before.value("open('name').read()"), after.value("open('name').read()")) == ("'place'", "'new'")


def test_maximum_number_of_mounts_works(server, hosts):
    sources = [hosts(f"m{i}") for i in range(32)]
    session = server.client().open(
        workdir=str(hosts("w")), mounts=[{"source": str(s), "target": f"/m/{s.name}"} for s in sources]
    )
    assert session.value("import os; [open(f'/m/{n}/name').read() == n for n in os.listdir('/m')]") == repr([True] * 32)


def test_missing_directory_is_reported(server, hosts, tmp_path):
    client = server.client()
    assert client.open(workdir=str(hosts("there"))).value("1") == "1"
    words = client.post("/v1/sessions", workdir=str(tmp_path / "gone"))
    assert "gone" in words.error(words.status)["message"] and words.status in (400, 403, 404), words
    words = client.post("/v1/sessions", mounts=[{"source": str(tmp_path / "gone"), "target": "/x"}])
    assert "gone" in words.error(words.status)["message"] and words.status in (400, 403, 404), words


def test_rejects_mount_point_behind_a_symlink_in_the_workdir(server, hosts):
    """A guest that shares the directory could redirect the mount of another session: over the runners, for example."""
    client = server.client()
    workdir, other = hosts("w"), hosts("other")
    for name, aim in (("runners", "/run/cella"), ("itself", "/workspace"), ("tree", "/usr")):
        (workdir / name).symlink_to(aim)
        for target in (f"/workspace/{name}", f"/workspace/{name}/below"):
            words = client.post(
                "/v1/sessions", workdir=str(workdir), mounts=[{"source": str(other), "target": target}]
            ).error(409)
            assert "symbolic link" in words["message"], words
    assert os.listdir(other) == ["name"]


def test_mount_below_the_interpreter_prefix_is_visible(serve, tmp_path, hosts):  # noqa: F811 (fixture)
    """An interpreter below /tmp is shown there after the jail's own /tmp is; a mount in it comes after that."""
    environment = make_venv(PYTHON, tmp_path / "venv")
    (environment / "inside").mkdir()
    client = serve(config={"allow": {"whole_machine": True}, **NO_POOL}).client()
    session = client.open(
        venv=str(environment), mounts=[{"source": str(hosts("data")), "target": f"{environment}/inside"}]
    )
    assert started(session) == "fork"
    assert session.value(f"open('{environment}/inside/name').read()") == "'data'"


@pytest.mark.parametrize("mode", ["ro", "rw"])
@pytest.mark.parametrize("place", ["{0}", "/project"])
def test_editable_install_in_a_mount_is_importable(serve, tmp_path, place, mode):  # noqa: F811 (fixture)
    """Python leaves a path of a .pth file out that does not exist when it starts, and that is long before the session."""
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "src" / "mine.py").write_text("x = 'mine'\n")
    (project / "mine.py").write_text("x = 'mine'\n")
    target = place.format(project)
    environment = make_venv(PYTHON, tmp_path / "venv")
    packages = next(environment.glob("lib/python3*/site-packages"))
    # What may be written to is empty for the zygote, and what is below it is not there.
    (packages / "mine.pth").write_text(f"{target}/src\n" if mode == "ro" else f"{target}\n")
    client = serve(config={"allow": {"whole_machine": True}, **NO_POOL}).client()
    session = client.open(
        venv=str(environment), mounts=[{"source": str(project), "target": target, "mode": mode}]
    )
    assert started(session) == "fork" and session.value("import mine; mine.x") == "'mine'"


def test_source_that_changes_its_type_affects_only_its_session(server, tmp_path):
    """Between the request and the jail it becomes a file; the place was made for a directory."""
    client = server.client()
    document = {"mounts": [{"source": str(tmp_path / "source"), "target": "/data"}]}

    def change(place, stop):
        while not stop.is_set():
            place.mkdir()
            time.sleep(0.003)
            place.rmdir()
            place.touch()
            time.sleep(0.003)
            place.unlink()

    stop = threading.Event()
    changing = threading.Thread(target=change, args=[tmp_path / "source", stop])
    changing.start()
    for _ in range(20):
        client.post("/v1/sessions", **document)
    stop.set()
    changing.join()
    (tmp_path / "source").mkdir()
    assert client.open(**document).value("import os; os.listdir('/data')") == "[]"
    (tmp_path / "source").rmdir()
    (tmp_path / "source").write_text("a file")
    assert client.open(**document).value("open('/data').read()") == "'a file'"


def test_rejects_allowed_mounts_of_the_servers_programs(cella, environment, short_directory):
    server = Server(
        cella, environment, short_directory, config={"allow": {"mounts": [str(cella.binary.parent)]}}
    )
    try:
        assert server.finish() != 0 and "programs of cella" in server.words()
    finally:
        server.release()


def test_many_mount_points_do_not_evict_the_default_zygote(server, hosts):
    client = server.client()
    source = str(hosts("source"))
    for number in range(20):
        client.open(mounts=[{"source": source, "target": f"/place{number}"}]).delete().expect(204)
        assert client.open().value("1") == "1"
    assert zygotes(server) <= 17


def test_session_that_can_write_to_an_interpreter_does_not_use_a_zygote(serve, tmp_path):  # noqa: F811 (fixture)
    """A guest with the project as its workdir can change the packages of the environment in it."""
    project = tmp_path / "project"
    project.mkdir()
    environment = make_venv(PYTHON, project / ".venv")
    (tmp_path / "beside").mkdir()
    server = serve(config={"allow": {"whole_machine": True}, **NO_POOL})
    client = server.client()
    assert client.open().value("1") == "1"
    before = zygotes(server)
    plain = client.open(venv=str(environment))
    assert started(plain) == "fork" and zygotes(server) == before + 1
    beside = client.open(venv=str(environment), workdir=str(tmp_path / "beside"))
    assert started(beside) == "fork" and zygotes(server) == before + 1
    inside = client.open(venv=str(environment), workdir=str(project))
    assert started(inside) != "fork", "it would import what its guest writes"
    assert inside.value("import sys; sys.prefix") == repr(str(environment))
    assert plain.value("1") == "1" and zygotes(server) == before + 1


def test_programs_writable_by_other_guests_are_not_run_on_the_host(serve, tmp_path):  # noqa: F811 (fixture)
    tools, trace = tmp_path / "tools", tmp_path / "trace"
    tools.mkdir()
    trap = tools / "python3"
    trap.write_text(f"#!/bin/sh\necho ran 2> /dev/null >> {trace}\nexec {PYTHON} \"$@\"\n")
    trap.chmod(0o755)
    subprocess.run([trap, "-c", "1"], check=True)
    assert trace.exists(), "the trap does not work even outside"
    trace.unlink()
    path = f"{tools}:/usr/local/bin:/usr/bin:/bin"
    for number, config in enumerate(({}, {"allow": {"mounts": [str(tools)]}})):
        server = serve(
            config={"policy": {"python": None}, **config, **NO_POOL},
            with_env={"PATH": path, "XDG_CACHE_HOME": str(tmp_path / str(number))},
        )
        assert server.client().open().value("1") == "1"
        assert server.client().post("/v1/run", code="print(1)").expect(200)["stdout"] == "1\n"
        assert not trace.exists(), config


def test_interpreter_that_guests_of_other_sessions_may_have_written_is_no_zygote(serve, tmp_path):  # noqa: F811 (fixture)
    tools = tmp_path / "tools"
    (tools / "bin").mkdir(parents=True)
    tmp_path.chmod(0o755)
    shutil.copy(PYTHON, tools / "bin" / "python3")
    path = f"{tools}/bin:/usr/local/bin:/usr/bin:/bin"
    for mounts, expected in (([], True), ([str(tools)], False)):
        server = serve(
            config={"policy": {"python": None}, "allow": {"mounts": mounts}, **NO_POOL},
            with_env={"PATH": path, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        )
        session = server.client().open()
        assert session.value("import sys; sys.executable") == repr(f"{tools}/bin/python3")
        assert (started(session) == "fork") == expected, mounts
