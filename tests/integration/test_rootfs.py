"""--rootfs: another tree instead of the host's, friendly or hostile."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

pytestmark = pytest.mark.as_user

PROGRAMS = ("/bin/sh", "/bin/cat", "/bin/ls", "/usr/bin/id", "/bin/touch", "/usr/bin/env")


def copy_into(root, path):
    target = root / path.lstrip("/")
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(os.path.realpath(path), target)


@pytest.fixture(scope="module")
def small():
    """A handful of programs with the libraries that they are linked to. Not below /tmp, which is covered inside."""
    with tempfile.TemporaryDirectory(prefix=".cella-test-", dir=pathlib.Path.home()) as directory:
        root = pathlib.Path(directory) / "root"
        for program in PROGRAMS:
            copy_into(root, program)
            listing = subprocess.run(["ldd", program], capture_output=True, check=True).stdout.decode()
            for library in re.findall(r"(/\S+) \(0x", listing):
                copy_into(root, library)
        (root / "etc").mkdir()
        (root / "etc" / "marker").write_text("of the tree\n")
        for path in [root, *root.rglob("*")]:
            if path.is_dir():
                path.chmod(0o755)
        pathlib.Path(directory).chmod(0o755)
        yield root


def listing(root):
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_programs_of_the_tree_run_and_host_programs_are_absent(run, small):
    before = listing(small)
    result = run.shell("cat /etc/marker; ls /usr/bin; cat /etc/debian_version /etc/hostname; true", "--rootfs", small)
    assert result["status"] == "ok", result
    assert result["stdout"].startswith("of the tree\n") and "env" in result["stdout"]
    assert "python3" not in result["stdout"] and result["stderr"].count("No such file") == 2, result
    assert result["isolation"]["executor"] == "sandbox" and result["isolation"]["seccomp"] is True
    assert listing(small) == before


def test_workspace_tmp_proc_and_dev_exist(run, small):
    code = """
echo x > here; cat here
touch /tmp/t /dev/shm/s; echo > /dev/null
ls /proc/self/fd >/dev/null && echo proc
touch /etc/x || echo ro
"""
    result = run.shell(code, "--rootfs", small, "--memory", "64m")
    assert result["stdout"] == "x\nproc\nro\n", result
    assert [entry["path"] for entry in result["files"]] == ["here"]


def test_arguments_input_and_exit_code_are_passed(run, small):
    result = run.shell("cat; echo $1; exit 7", "--rootfs", small, args=["arg"], input=b"in\n")
    assert (result["exit_code"], result["stdout"]) == (7, "in\narg\n"), result


def test_language_missing_in_the_tree_exits_127(run, small):
    for language, tool in (("python", "python3"), ("ruby", "ruby"), ("c", "clang")):
        result = run.json("--lang", language, "-c", "1", "--rootfs", small)
        assert (result["status"], result["exit_code"]) == ("rejected", 127), result
        assert tool in result["error"]["message"] and "install" in result["error"]["message"]


def test_rejects_missing_rootfs(run, tmp_path):
    assert "missing" in run.rejected("-c", "1", "--rootfs", tmp_path / "missing", code=127)
    (tmp_path / "file").write_text("")
    assert "file" in run.rejected("-c", "1", "--rootfs", tmp_path / "file")
    result = run.json("-c", "1", "--rootfs", tmp_path)
    assert (result["status"], result["exit_code"]) == ("rejected", 127), result


def test_local_rejects_rootfs(run, small):
    assert "rootfs" in run.rejected("-c", "1", "--rootfs", small, "--executor", "local")


def test_mounts_and_workdir_work_with_rootfs(run, small, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "f").write_text("data\n")
    (tmp_path / "work").mkdir()
    result = run.shell(
        "cat /data/f; echo made > made",
        "--rootfs",
        small,
        "--mount",
        f"{tmp_path}/data:/data",
        "--workdir",
        tmp_path / "work",
    )
    assert (result["status"], result["stdout"]) == ("ok", "data\n"), result
    assert (tmp_path / "work" / "made").read_text() == "made\n"


@pytest.fixture
def hostile(small):
    """A copy to be spoilt, and a directory of the host that it shall not reach."""
    with tempfile.TemporaryDirectory(prefix=".cella-test-", dir=pathlib.Path.home()) as directory:
        root, victim = pathlib.Path(directory) / "root", pathlib.Path(directory) / "victim"
        shutil.copytree(small, root, symlinks=True)
        victim.mkdir()
        (victim / "secret").write_text("of the host")
        yield root, victim


@pytest.mark.parametrize(
    "name",
    ["etc", "tmp", "dev", "proc", "workspace", "var", "run", "home", "mnt", "sys", "var/tmp", "dev/shm", "etc/passwd"],
)
def test_symlink_of_the_tree_does_not_reach_the_host(run, hostile, name):
    """The tree makes one of the jail's own places a link to the host."""
    root, victim = hostile
    place = root / name
    if place.is_dir():
        shutil.rmtree(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(victim)
    result = run.shell(
        f"ls /{name}/ {victim}; cat {victim}/secret; touch /{name}/planted {victim}/planted; echo ran", "--rootfs", root
    )
    assert sorted(os.listdir(victim)) == ["secret"], "something was made in a directory of the host"
    assert (victim / "secret").read_text() == "of the host"
    assert "of the host" not in result["stdout"]
    # It either runs or says why not.
    assert result["stdout"].endswith("ran\n") if result["status"] == "ok" else result["error"], result


@pytest.mark.parametrize("name", ["etc", "tmp", "proc", "dev", "workspace"])
def test_file_in_place_of_a_directory_is_replaced_or_rejected(run, hostile, name):
    root, _ = hostile
    if (root / name).is_dir():
        shutil.rmtree(root / name)
    (root / name).write_text("a file")
    result = run.shell("echo ran", "--rootfs", root)
    assert result["stdout"] == "ran\n" if result["status"] == "ok" else result["error"]["message"], result


def test_tree_with_var_but_without_var_tmp_runs(run, hostile):
    """A sparse tree lacks what ours would link into; it is read-only and stays as it is."""
    root, _ = hostile
    (root / "var").mkdir()
    result = run.shell("echo ran", "--rootfs", root)
    assert (result["status"], result["stdout"]) == ("ok", "ran\n"), result
    assert os.listdir(root / "var") == []


def test_rejects_interpreter_that_is_a_symlink_to_the_host(run, hostile):
    root, victim = hostile
    script = victim / "sh"
    script.write_text("#!/bin/true\n")
    script.chmod(0o755)
    (root / "bin" / "sh").unlink()
    (root / "bin" / "sh").symlink_to(script)
    (root / "bin" / "dash").unlink(missing_ok=True)
    result = run.shell("echo ran", "--rootfs", root)
    assert (result["status"], result["exit_code"]) == ("rejected", 127), result
