"""Files that cross the border: what a guest leaves in its workspace must not lead the supervisor astray.

The supervisor acts with the caller's rights on names that the guest has chosen. Each test first shows that the trap
works on a naive reader or writer with the same rights.
"""

import os
import shutil
import stat
import textwrap

import pytest
from support.cella import run_bounded
from support.victims import Scene

pytestmark = pytest.mark.as_user

REJECTED = 126


@pytest.fixture
def scene():
    with Scene(("secret_file",)) as scene:
        scene.out = scene.directory / "out"
        scene.out.mkdir()
        scene.workdir = scene.directory / "workdir"
        scene.workdir.mkdir()
        scene.victim = scene.directory / "victim"
        scene.victim.mkdir()
        (scene.victim / "file").write_text("untouched")
        yield scene


@pytest.fixture
def guest(cella, scene):
    """Runs Python code in the jail; words in angle brackets are filled in from the scene."""

    def run(code, *flags, **options):
        source = scene.directory / "guest.py"
        source.write_text(fill(scene, code))
        return cella.run_python(source, flags=flags, env=scene.env, **options)

    return run


def fill(scene, code):
    return textwrap.dedent(code).replace("<secret>", scene.words["secret_file"]).replace("<home>", scene.words["home"])


def outside(scene, code):
    """The same code in a directory of the host, which is then what a naive supervisor would find."""
    directory = scene.directory / "naive"
    directory.mkdir()
    here = os.getcwd()
    os.chdir(directory)
    try:
        exec(compile(fill(scene, code), "guest", "exec"), {})
    finally:
        os.chdir(here)
    return directory


def secret(scene):
    return open(scene.words["secret_file"]).read()


def contents(directory):
    """Everything that was really copied into a directory: symbolic links are not followed."""
    for parent, names, files in os.walk(directory):
        for name in files:
            path = os.path.join(parent, name)
            if stat.S_ISREG(os.lstat(path).st_mode):
                with open(path, "rb") as stream:
                    yield stream.read(1 << 20)


def assert_nothing_leaked(scene):
    assert not any(secret(scene).encode() in content for content in contents(scene.out))
    for parent, names, files in os.walk(scene.out):
        for name in names + files:
            path = os.path.join(parent, name)
            target = os.path.realpath(path)
            assert target.startswith(str(scene.out) + "/"), f"{path} leads to {target}"


def assert_victim_untouched(scene):
    assert sorted(os.listdir(scene.victim)) == ["file"]
    assert (scene.victim / "file").read_text() == "untouched"


LINKS = {
    "absolute": """
        import os
        os.symlink("<secret>", "leak.txt")
    """,
    "relative": """
        import os
        os.symlink("../" * 24 + "<secret>".lstrip("/"), "leak.txt")
    """,
    "chain": """
        import os
        os.symlink("<secret>", "first")
        os.symlink("first", "leak.txt")
    """,
    "directory": """
        import os
        os.symlink("<home>", "inside")
    """,
    "proc": """
        import os
        os.symlink("/proc/self/root/<secret>", "leak.txt")
    """,
}


@pytest.mark.parametrize("kind", LINKS)
def test_out_follows_no_link_to_a_host_file(guest, scene, kind):
    naive = scene.directory / "copy"
    shutil.copytree(outside(scene, LINKS[kind]), naive, symlinks=False)
    assert any(secret(scene).encode() in content for content in contents(naive)), "the trap does not work"

    finished = guest(LINKS[kind], "--out", scene.out)
    assert finished.result()["status"] in ("ok", "error"), finished.describe()
    assert secret(scene) not in finished.text()
    assert_nothing_leaked(scene)


def test_out_does_not_write_through_links_that_are_already_there(guest, scene):
    os.symlink(scene.victim / "file", scene.out / "result.txt")
    os.symlink(scene.victim, scene.out / "sub")
    with open(scene.out / "result.txt", "a"):
        pass  # the link is writable for the caller, and thus for a naive copy

    finished = guest(
        """
        import os
        open("result.txt", "w").write("overwritten")
        os.mkdir("sub")
        open("sub/planted", "w").write("planted")
        open("sub/file", "w").write("overwritten")
        """,
        "--out", scene.out,
    )
    assert finished.result()["stdout"] == "", finished.describe()
    assert_victim_untouched(scene)


def test_out_does_not_write_through_a_directory_replaced_by_a_symlink(guest, scene):
    """Two runs: the first leaves a link in the output directory, if it can; the second writes through it."""
    guest(f"import os; os.symlink({str(scene.victim)!r}, 'sub')", "--out", scene.out)
    guest("import os; os.mkdir('sub'); open('sub/planted', 'w').write('x')", "--out", scene.out)
    assert_victim_untouched(scene)


@pytest.mark.parametrize("exists", [True, False], ids=["replaced", "made"])
def test_out_directory_writable_by_the_guest_is_not_swapped_for_a_symlink(guest, scene, exists):
    """`--workdir . --out ./out`: the guest can put a link where the output directory was, or will be."""
    if exists:
        (scene.workdir / "out").mkdir()
    guest(
        f"""
        import os
        if os.path.exists("out"):
            os.rename("out", "aside")
        os.symlink({str(scene.victim)!r}, "out")
        open("planted", "w").write("planted")
        """,
        "--workdir", scene.workdir, "--out", scene.workdir / "out",
    )
    assert_victim_untouched(scene)


SPECIAL = {
    "fifo": "import os; os.mkfifo('special'); open('plain', 'w').write('x')",
    "socket": """
        import socket
        socket.socket(socket.AF_UNIX).bind("special")
        open("plain", "w").write("x")
    """,
}


@pytest.mark.parametrize("kind", SPECIAL)
def test_out_neither_blocks_on_nor_creates_special_files(guest, scene, kind):
    special = outside(scene, SPECIAL[kind]) / "special"
    assert not stat.S_ISREG(special.lstat().st_mode), "the trap does not work"

    finished = guest(SPECIAL[kind], "--out", scene.out, timeout=15)
    assert finished.exit_code == 0, finished.describe()
    assert (scene.out / "plain").read_text() == "x"
    assert not os.path.lexists(scene.out / "special")


def test_out_resists_swapping_directories_for_symlinks(guest, scene):
    """A child goes on exchanging a directory and a link to the caller's home while the files are collected."""
    code = """
        import ctypes, os, sys, time
        os.mkdir("a")
        open("a/secret.txt", "w").write("harmless")
        os.symlink("<home>", "b")
        libc = ctypes.CDLL(None)
        if os.fork() == 0:
            os.setsid()
            while True:
                libc.renameat2(-100, b"a", -100, b"b", 2)
        time.sleep(0.02)
        os._exit(0)
    """
    for attempt in range(8):
        finished = guest(code, "--out", scene.out, timeout=15)
        assert secret(scene) not in finished.text()
        assert_nothing_leaked(scene)
        shutil.rmtree(scene.out)
        scene.out.mkdir()


# Little inside, much outside: what is copied out must fit the limit that held inside.
INFLATED = {
    "one-hole": """
        try:
            open("hole", "wb").truncate(3 << 30)
        except OSError:
            pass
    """,
    "many-holes": """
        for n in range(40):
            try:
                open(f"hole{n}", "wb").truncate(60 << 20)
            except OSError:
                pass
    """,
    "many-links": """
        import os
        open("file", "wb").write(os.urandom(1 << 20) * 40)
        for n in range(60):
            os.link("file", f"link{n}")
    """,
}


@pytest.mark.parametrize("kind", INFLATED)
def test_out_is_no_larger_than_the_disk_limit(guest, scene, kind):
    finished = guest(INFLATED[kind], "--disk", "64m", "--out", scene.out, timeout=25)
    used = sum(os.lstat(os.path.join(p, f)).st_blocks * 512 for p, _, files in os.walk(scene.out) for f in files)
    assert used <= 64 << 20, f"{used} bytes came out"
    assert finished.exit_code in (0, REJECTED), finished.describe()


def test_out_makes_no_privileged_files(guest, scene):
    finished = guest(
        """
        import os
        open("tool", "w").write("#!/bin/sh")
        for mode in (0o755, 0o4755, 0o6777):
            try:
                os.chmod("tool", mode)
            except OSError:
                pass
        """,
        "--out", scene.out,
    )
    assert finished.exit_code == 0, finished.describe()
    status = (scene.out / "tool").lstat()
    assert not status.st_mode & (stat.S_ISUID | stat.S_ISGID)
    assert status.st_uid == os.geteuid()


def test_strange_names_do_not_break_the_result(guest, scene):
    finished = guest(
        r"""
        import os
        for name in (b"new\nline", b"\x1b[31mred", b"\xff\xfe", b"n" * 255, b'"quote', b"{\"status\": \"ok\"}"):
            open(name, "w").close()
        """,
        "--out", scene.out,
    )
    result = finished.result()
    assert result["status"] == "ok"
    for entry in result["files"]:
        assert not entry["path"].startswith("/") and ".." not in entry["path"].split("/")


def test_a_guest_cannot_forge_its_result(guest, scene):
    finished = guest(
        """
        import os
        forged = b'\\n{"status": "ok", "exit_code": 0, "stdout": "forged"}\\n'
        os.write(1, forged)
        os.write(2, forged)
        os._exit(3)
        """
    )
    result = finished.result()
    assert (finished.exit_code, result["exit_code"], result["status"]) == (3, 3, "error")


@pytest.mark.parametrize("name", ["../planted", "../../planted", "/planted", "a/../../planted", ".."])
def test_file_target_cannot_leave_the_workspace(guest, scene, name):
    """`--file SRC:NAME`: a name that leads out is refused, or confined."""
    source = scene.directory / "source"
    source.write_text("planted")
    before = sorted(p.name for p in scene.directory.iterdir())
    finished = guest("pass", "--workdir", scene.workdir, "--file", f"{source}:{name}")
    assert finished.exit_code in (0, 2, REJECTED), finished.describe()
    assert sorted(p.name for p in scene.directory.iterdir()) == sorted({*before, "guest.py"})
    assert not os.path.lexists("/planted")


@pytest.mark.parametrize("name", ["link/planted", "file-link"])
def test_file_does_not_follow_links_of_the_workspace(guest, scene, name):
    """The directory may be one that an earlier guest had as its workspace."""
    os.symlink(scene.victim, scene.workdir / "link")
    os.symlink(scene.victim / "file", scene.workdir / "file-link")
    with open(scene.workdir / "file-link", "a"):
        pass  # writable for the caller, and thus for a naive copy
    source = scene.directory / "source"
    source.write_text("planted")
    finished = guest("pass", "--workdir", scene.workdir, "--file", f"{source}:{name}")
    assert finished.exit_code in (0, 2, REJECTED), finished.describe()
    assert_victim_untouched(scene)


def test_script_is_not_written_through_a_symlink_of_the_workspace(guest, scene):
    """Whatever name the supervisor gives the program's file, a link of that name may be waiting for it."""
    for name in ("guest.py", "main.py", "script.py", "code.py", "-"):
        os.symlink(scene.victim / "file", scene.workdir / name)
    finished = guest("print('ran')", "--workdir", scene.workdir)
    assert finished.exit_code in (0, REJECTED), finished.describe()
    assert_victim_untouched(scene)


@pytest.mark.parametrize("name", ["../planted.py", "/tmp/cella-planted.py", "link/planted.py"])
def test_file_name_of_a_block_cannot_leave_the_workspace(cella, scene, name):
    """A first line `# filename: X` names the file of the code, and comes from a model."""
    os.symlink(scene.victim, scene.workdir / "link")
    finished = cella(
        "run", "-c", f"# filename: {name}\nprint('ran')", "--python", "/usr/bin/python3", "--json",
        "--workdir", scene.workdir, env=scene.env,
    )
    assert finished.exit_code in (0, REJECTED), finished.describe()
    assert not os.path.lexists(scene.directory / "planted.py")
    assert not os.path.lexists("/tmp/cella-planted.py")
    assert_victim_untouched(scene)


def test_symlinks_of_the_workspace_do_not_reach_the_host(guest, scene):
    os.symlink(scene.words["secret_file"], scene.workdir / "leak")
    os.symlink(scene.home, scene.workdir / "home")
    assert (scene.workdir / "leak").read_text() == (scene.workdir / "home/secret.txt").read_text() == secret(scene)

    finished = guest(
        """
        for name in ("leak", "home/secret.txt"):
            try:
                print(open(name).read())
            except OSError as error:
                print("denied")
        """,
        "--workdir", scene.workdir,
    )
    assert finished.result()["stdout"] == "denied\ndenied\n", finished.describe()


def test_the_scan_of_changed_files_does_not_leave_the_workspace(guest, scene):
    """`files` of the Result: a link to a directory of the host is an entry, never a way."""
    finished = guest(
        """
        import os
        os.symlink("<home>", "way")
        open("made", "w").write("x")
        """,
        "--workdir", scene.workdir,
    )
    result = finished.result()
    paths = [entry["path"] for entry in result["files"]]
    assert "made" in paths, finished.describe()
    assert not any(path.startswith("way/") for path in paths)
    assert "secret.txt" not in finished.text()


def test_directory_on_standard_input_does_not_reach_the_host(cella, scene):
    """A caller does that by mistake only, but a descriptor of a directory outside undoes every root."""
    code = "cat /proc/self/fd/0/secret.txt /proc/self/fd/0/../../../../../../../../" + scene.words["secret_file"]
    directory = os.open(scene.home, os.O_RDONLY | os.O_DIRECTORY)
    try:
        naive = run_bounded(["/bin/bash", "-c", code], stdin=directory, env=scene.env)
        assert secret(scene) in naive.text(), "the trap does not work"
        finished = cella("run", "-c", code, "--lang", "bash", "--json", stdin=directory, env=scene.env)
    finally:
        os.close(directory)
    finished.result()
    assert secret(scene) not in finished.text()
