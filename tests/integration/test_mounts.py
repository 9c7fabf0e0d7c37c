"""--mount: paths of the host, shown where they are asked for."""

import os
import stat
import subprocess

import pytest
from support.running import IS_ROOT

pytestmark = pytest.mark.as_user


@pytest.fixture
def data(tmp_path):
    directory = tmp_path / "data"
    (directory / "sub").mkdir(parents=True)
    (directory / "file").write_text("content\n")
    (directory / "sub" / "deep").write_text("deep\n")
    return directory


PLACES = ["/data", "/mnt/a/b/c", "/workspace/data", "/tmp/data", "/home/user/data", "/opt/data", "/var/tmp/data"]


@pytest.mark.parametrize("target", PLACES)
@pytest.mark.parametrize("mode", ["", ":ro", ":rw"])
def test_mounted_directory_is_visible(run, data, target, mode):
    result = run.shell(f"cat {target}/file {target}/sub/deep", "--mount", f"{data}:{target}{mode}")
    assert (result["status"], result["stdout"]) == ("ok", "content\ndeep\n"), result


def test_mounted_file_is_visible(run, data):
    result = run.shell(
        "cat /config /etc/app/config", "--mount", f"{data}/file:/config", "--mount", f"{data}/file:/etc/app/config"
    )
    assert result["stdout"] == "content\ncontent\n", result


@pytest.mark.parametrize("mode", ["", ":ro"])
def test_read_only_mount_rejects_writes(run, data, mode):
    code = """
import os
for what, act in [
    ('write', lambda: open('/data/file', 'w')), ('append', lambda: open('/data/file', 'a')),
    ('create', lambda: open('/data/new', 'x')), ('remove', lambda: os.remove('/data/file')),
    ('rename', lambda: os.rename('/data/file', '/data/other')), ('chmod', lambda: os.chmod('/data/file', 0)),
    ('mkdir', lambda: os.mkdir('/data/dir')), ('times', lambda: os.utime('/data/file')),
    ('link', lambda: os.symlink('x', '/data/link')), ('deep', lambda: open('/data/sub/deep', 'a')),
]:
    try:
        act()
        print(what, 'worked')
    except OSError as error:
        assert error.errno in (13, 30), (what, error)
print('tried')
"""
    result = run.python(code, "--mount", f"{data}:/data{mode}")
    assert (result["status"], result["stdout"]) == ("ok", "tried\n"), result
    assert (data / "file").read_text() == "content\n" and sorted(os.listdir(data)) == ["file", "sub"]


def test_files_in_a_writable_mount_belong_to_the_directory_owner(run, data):
    owner = (12345, 12346) if IS_ROOT else (os.geteuid(), os.getegid())
    if IS_ROOT:
        for path in (data, data / "file", data / "sub", data / "sub" / "deep"):
            os.chown(path, *owner)
    code = """
cd /data
echo more >> file; echo new > new; mkdir dir; echo x > dir/x; rm sub/deep; chmod 750 new
ls -n file | cut -d' ' -f3,4
"""
    result = run.shell(code, "--mount", f"{data}:/data:rw")
    assert (result["status"], result["stdout"]) == ("ok", "1000 1000\n"), result
    assert (data / "file").read_text() == "content\nmore\n" and os.listdir(data / "sub") == []
    for name in ("new", "dir", "dir/x"):
        assert ((data / name).stat().st_uid, (data / name).stat().st_gid) == owner
    assert stat.S_IMODE((data / "new").stat().st_mode) == 0o750
    # Only changes of the workspace are told.
    assert result["files"] == []


def test_mount_inside_the_workspace_is_not_reported_as_a_change(run, data, tmp_path):
    result = run.shell(
        "echo new > data/new; echo mine > mine", "--mount", f"{data}:/workspace/data:rw", "--out", tmp_path / "out"
    )
    assert result["status"] == "ok", result
    assert (data / "new").read_text() == "new\n"
    assert (tmp_path / "out" / "mine").read_text() == "mine\n"


def test_mount_inside_a_workdir_is_visible(run, data, tmp_path):
    workdir = tmp_path / "workdir"
    workdir.mkdir()
    owner = (12345, 12346) if IS_ROOT else (os.geteuid(), os.getegid())
    if IS_ROOT:
        os.chown(workdir, *owner)
    result = run.shell("cat new/data/file", "--workdir", workdir, "--mount", f"{data}:/workspace/new/data")
    assert (result["status"], result["stdout"]) == ("ok", "content\n"), result
    made = [workdir / "new", workdir / "new" / "data"]
    assert {(each.stat().st_uid, each.stat().st_gid) for each in made} == {owner}, "the places are made for the owner"
    assert os.listdir(made[-1]) == []


@pytest.mark.parametrize("place", ["/proc", "/proc/1", "/proc/self/root", "/"])
def test_processes_of_the_host_are_not_shown(run, place):
    listed = subprocess.run(["ls", "/proc"], capture_output=True, text=True, check=True).stdout.split()
    assert "1" in listed and str(os.getpid()) in listed
    message = run.rejected("-c", "1", "--mount", f"{place}:/data")
    assert "no guest may see" in message or "link" in message, message


def test_nested_mounts_are_visible(run, data, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "o").write_text("other\n")
    result = run.shell(
        "cat /data/file /data/sub/o; echo x > /data/sub/new",
        "--mount",
        f"{data}:/data",
        "--mount",
        f"{tmp_path}/other:/data/sub:rw",
    )
    assert (result["status"], result["stdout"]) == ("ok", "content\nother\n"), result
    assert (tmp_path / "other" / "new").exists() and not (data / "sub" / "new").exists()


def test_relative_and_linked_sources_are_resolved(run, data, tmp_path):
    (tmp_path / "link").symlink_to("data")
    for source in ("data", "./data", "link"):
        assert run.shell("cat /data/file", "--mount", f"{source}:/data", cwd=tmp_path)["stdout"] == "content\n"


def test_source_readable_only_by_the_caller_is_visible(run, data, tmp_path):
    """What the caller can read is shown, whatever stands above it."""
    tmp_path.chmod(0o700)
    assert run.shell("cat /data/file", "--mount", f"{data}:/data")["stdout"] == "content\n"


RESERVED = ["/proc", "/proc/x", "/dev", "/usr", "/etc", "/tmp", "/workspace", "/sys", "/bin", "/lib", "/lib64"]


@pytest.mark.parametrize(
    "target",
    ["data", "/", "//", "/../x", "/a/../b", "/a/./b", *RESERVED, *(place + "/" for place in RESERVED), "//usr"],
)
def test_rejects_invalid_target(run, data, target):
    message = run.rejected("-c", "1", "--mount", f"{data}:{target}")
    assert "mount" in message and f"'{target}'" in message, message


@pytest.mark.parametrize("target", ["/dev/shm", "/dev/pts", "/dev/mine", "/run", "/usr/share/mine", "/a/"])
def test_target_is_mounted_or_rejected(run, data, target):
    result = run.shell(f"cat {target}/file", "--mount", f"{data}:{target}")
    if result["status"] == "rejected":
        assert result["exit_code"] == 126 and target in result["error"]["message"]
    else:
        assert (result["status"], result["stdout"]) == ("ok", "content\n"), result


@pytest.mark.parametrize(
    "text", ["", "nothing", ":/data", "/tmp:", "/tmp::ro", "/tmp:/data:rx", "/tmp:/data:ro:rw", "/tmp:/data:", "::"]
)
def test_malformed_mount_is_a_wrong_command_line(run, text):
    finished = run("-c", "1", "--mount", text)
    assert (finished.exit_code, finished.stdout) == (2, b""), finished.describe()
    assert b"SOURCE:TARGET[:ro|rw]" in finished.stderr or b"target" in finished.stderr, finished.describe()


def test_missing_source_is_reported(run, tmp_path):
    message = run.rejected("-c", "1", "--mount", f"{tmp_path}/missing:/data", code=127)
    assert "missing" in message and "No such file" in message


def test_rejects_source_that_the_caller_cannot_read(run, tmp_path):
    """Mounting gives a user no further rights: for an ordinary user a private directory stays closed."""
    if IS_ROOT:
        private = tmp_path / "private"
        private.mkdir(mode=0o700)
        (private / "secret").write_text("root's")
        os.chmod(private / "secret", 0o600)
        # Read-only mounts are not mapped: the guest is nobody's root.
        result = run.shell("cat /data/secret", "--mount", f"{private}:/data")
        assert result["status"] == "error" and "root's" not in result["stdout"], result
    else:
        result = run.json("-c", "import os; print(os.listdir('/data'))", "--mount", "/root:/data")
        assert result["status"] in ("error", "rejected") and "Permission denied" in result["stderr"] + str(
            result["error"]
        )


def test_local_rejects_mounts(run, data):
    message = run.rejected("-c", "1", "--mount", f"{data}:/data", "--executor", "local")
    assert "mounts" in message and "--executor sandbox" in message


def test_no_mount_remains_after_the_run(run, data, tmp_path):
    run.shell("true", "--mount", f"{data}:/data:rw", "--mount", f"{data}:/workspace/x")
    assert str(data) not in open("/proc/self/mountinfo").read()
    assert sorted(os.listdir(data)) == ["file", "sub"]
