"""The files of a run: the private workspace, a directory of the host instead, files in, files out, changes told."""

import os
import pathlib
import stat
import subprocess

import pytest
from support.cella import PYTHON
from support.running import IS_ROOT, small_disk

pytestmark = pytest.mark.as_user

EXECUTORS = pytest.mark.parametrize("executor", ["sandbox", "local"])


def changes(result):
    return sorted((entry["path"], entry["change"], entry["size"]) for entry in result["files"])


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


# The private workspace.


def test_workspace_is_private_and_removed_afterwards(run):
    first = run.shell("pwd; echo data > kept; mkdir -p deep/er; ls -A | wc -l")
    assert first["stdout"] == "/workspace\n3\n", first
    assert run.shell("ls -A | wc -l")["stdout"] == "1\n"  # only the code itself


def test_changes_of_a_private_workspace_are_listed(run, tmp_path):
    (tmp_path / "in.txt").write_text("old")
    (tmp_path / "gone.txt").write_text("old")
    code = """
import os
os.makedirs('a/b/c')
open('a/b/c/deep.txt', 'w').write('12345')
open('empty', 'w').close()
open('in.txt', 'a').write('+new')
os.remove('gone.txt')
os.mkdir('only_a_directory')
"""
    result = run.python(code, "--file", tmp_path / "in.txt", "--file", tmp_path / "gone.txt")
    assert result["status"] == "ok", result
    assert changes(result) == [
        ("a/b/c/deep.txt", "created", 5),
        ("empty", "created", 0),
        ("gone.txt", "deleted", 0),
        ("in.txt", "modified", 7),
    ]
    assert "files_complete" not in result


def test_unchanged_files_are_not_listed(run, tmp_path):
    (tmp_path / "in.txt").write_text("old")
    result = run.python("print(open('in.txt').read())", "--file", tmp_path / "in.txt")
    assert result["files"] == [] and result["stdout"] == "old\n"


def test_change_that_keeps_size_and_time_is_listed(run, tmp_path):
    (tmp_path / "in.txt").write_text("aaa")
    code = """
import os
before = os.stat('in.txt')
open('in.txt', 'w').write('bbb')
os.utime('in.txt', ns=(before.st_atime_ns, before.st_mtime_ns))
"""
    assert changes(run.python(code, "--file", tmp_path / "in.txt")) == [("in.txt", "modified", 3)]


def test_files_of_a_failed_run_are_listed(run):
    for code, status in [("raise SystemExit(3)", "error"), ("import time; time.sleep(60)", "timeout")]:
        result = run.python(f"open('made', 'w').write('x')\n{code}", "--timeout", "1s")
        assert result["status"] == status and changes(result) == [("made", "created", 1)]


# A directory of the host.


@EXECUTORS
def test_workdir_is_the_workspace(run, tmp_path, executor):
    (tmp_path / "in.txt").write_text("from the host")
    (tmp_path / "gone.txt").write_text("x")
    (tmp_path / "sub").mkdir()
    code = """
import os
print(open('in.txt').read())
open('out.txt', 'w').write('from inside')
os.makedirs('new/dir'); open('new/dir/file', 'w').close()
open('in.txt', 'a').write('!')
os.remove('gone.txt')
os.chmod('out.txt', 0o640)
open('sub/run.sh', 'w').write('#!/bin/sh'); os.chmod('sub/run.sh', 0o755)
os.symlink('out.txt', 'link')
"""
    result = run.python(code, "--workdir", tmp_path, "--executor", executor)
    assert (result["status"], result["stdout"]) == ("ok", "from the host\n"), result
    assert changes(result) == [
        ("gone.txt", "deleted", 0),
        ("in.txt", "modified", 14),
        ("new/dir/file", "created", 0),
        ("out.txt", "created", 11),
        ("sub/run.sh", "created", 9),
    ]
    assert sorted(os.listdir(tmp_path)) == [
        "in.txt",
        "link",
        "new",
        "out.txt",
        "sub",
    ], "the code's own file stays behind"
    assert (tmp_path / "in.txt").read_text() == "from the host!"
    assert (mode(tmp_path / "out.txt"), mode(tmp_path / "sub/run.sh")) == (0o640, 0o755)
    assert (mode(tmp_path / "new/dir/file"), mode(tmp_path / "new")) == (0o644, 0o755)
    for path in tmp_path.rglob("*"):
        assert (path.lstat().st_uid, path.lstat().st_gid) == (os.geteuid(), os.getegid()), path


def test_workdir_of_another_user_keeps_its_owner(run, tmp_path):
    """Root works in every user's directory, and what is made there belongs to its owner; others may not enter."""
    if not IS_ROOT:
        message = run.rejected("-c", "1", "--workdir", "/root")
        assert "/root" in message and "Permission denied" in message
        return
    other = 12345
    os.chown(tmp_path, other, other)
    (tmp_path / "theirs").write_text("x")
    os.chown(tmp_path / "theirs", other, other)
    result = run.shell(
        "cat theirs; echo y >> theirs; mkdir d; touch d/made; ls -ln theirs | cut -d' ' -f3", "--workdir", tmp_path
    )
    assert (result["status"], result["stdout"]) == ("ok", "x1000\n"), result
    for path in [tmp_path, *tmp_path.rglob("*")]:
        assert (path.stat().st_uid, path.stat().st_gid) == (other, other), path
    assert (tmp_path / "theirs").read_text() == "xy\n"


def test_roots_private_files_in_a_workdir_are_unreadable(run, tmp_path):
    """Started by root: what belongs to the directory's owner is the guest's, what is root's alone is not."""
    if not IS_ROOT:
        assert run.shell("touch mine", "--workdir", tmp_path)["status"] == "ok"
        assert (tmp_path / "mine").stat().st_uid == os.geteuid()
        return
    os.chown(tmp_path, 12345, 12345)
    (tmp_path / "roots").write_text("secret")
    (tmp_path / "roots").chmod(0o600)
    result = run.shell("cat roots; echo x > roots", "--workdir", tmp_path)
    assert result["status"] == "error" and "Permission denied" in result["stderr"], result
    assert (tmp_path / "roots").read_text() == "secret"


def test_relative_and_linked_workdirs_are_resolved(run, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    for name in ("real", "./real", "link", "real/../real", str(tmp_path / "link") + "/"):
        assert run.shell("echo x > made", "--workdir", name, cwd=tmp_path)["status"] == "ok"
        (tmp_path / "real" / "made").unlink()


@EXECUTORS
def test_missing_workdir_exits_127(run, tmp_path, executor):
    message = run.rejected(
        "-c", "1", "--workdir", tmp_path / "missing", "--executor", executor, "--python", PYTHON, code=127
    )
    assert "missing" in message and "No such file" in message


@EXECUTORS
def test_rejects_workdir_that_is_not_a_directory(run, tmp_path, executor):
    (tmp_path / "file").write_text("")
    message = run.rejected("-c", "1", "--workdir", tmp_path / "file", "--executor", executor, "--python", PYTHON)
    assert "file" in message and "directory" in message.lower()
    empty = run("-c", "1", "--workdir", "", "--executor", executor, "--python", PYTHON)
    assert empty.exit_code == 2 and b"--workdir" in empty.stderr, empty.describe()


def read_only(directory):
    """A command that starts its arguments where `directory` cannot be written to, not even by root."""
    script = f'mount --bind {directory} {directory} && mount -o remount,bind,ro {directory} && exec "$@"'
    return ["unshare", "-m", "/bin/sh", "-c", script, "sh"]


@EXECUTORS
def test_rejects_unwritable_workdir(run, tmp_path, executor):
    work = tmp_path / "work"
    work.mkdir()
    through = read_only(work) if IS_ROOT else ["/usr/bin/env"]
    work.chmod(0o755 if IS_ROOT else 0o555)
    message = run.rejected("-c", "1", "--workdir", work, "--executor", executor, "--python", PYTHON, through=through)
    assert str(work) in message
    assert ("Read-only file system" if IS_ROOT else "Permission denied") in message
    work.chmod(0o755)


@EXECUTORS
def test_code_file_is_removed_unless_the_code_named_it(run, tmp_path, executor):
    words = ["--workdir", tmp_path, "--executor", executor, "--python", PYTHON]
    for code in ("print(1)", "raise SystemExit(3)", "import os; os._exit(1)", "import os; os.kill(os.getpid(), 9)"):
        run.json("-c", code, *words)
        assert os.listdir(tmp_path) == []
    run.json("-c", "import time; time.sleep(9)", *words, "--timeout", "300ms")
    assert os.listdir(tmp_path) == []
    result = run.json("-c", "# filename: named.py\nprint(1)", *words)
    assert os.listdir(tmp_path) == ["named.py"] and result["status"] == "ok"
    assert (tmp_path / "named.py").stat().st_uid == os.geteuid()


@EXECUTORS
def test_compiled_program_leaves_nothing_in_the_workdir(run, tmp_path, executor):
    result = run.json("--lang", "c", "-c", "int main() { return 4; }", "--workdir", tmp_path, "--executor", executor)
    assert result["exit_code"] == 4 and os.listdir(tmp_path) == []


@EXECUTORS
def test_existing_file_with_the_name_of_the_code_is_not_overwritten(run, tmp_path, executor):
    """The file comes from elsewhere, and the directory has another one of that name: whose is it?"""
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "main.py").write_text("print('new')")
    (work / "main.py").write_text("print('the users own')")
    message = run.rejected(tmp_path / "main.py", "--workdir", work, "--executor", executor, "--python", PYTHON)
    assert "main.py" in message
    assert (work / "main.py").read_text() == "print('the users own')"
    # The very same content is no conflict, and stays.
    (work / "main.py").write_text("print('new')")
    assert run.json(tmp_path / "main.py", "--workdir", work, "--executor", executor)["stdout"] == "new\n"
    assert (work / "main.py").read_text() == "print('new')"


@EXECUTORS
def test_file_in_the_workdir_is_run_in_place(run, tmp_path, executor):
    (tmp_path / "main.py").write_text("import helper; print(helper.answer)")
    (tmp_path / "helper.py").write_text("answer = 42")
    result = run.json(tmp_path / "main.py", "--workdir", tmp_path, "--executor", executor)
    assert (result["status"], result["stdout"]) == ("ok", "42\n"), result
    assert sorted(os.listdir(tmp_path)) == ["helper.py", "main.py"], "no __pycache__, nothing removed"


# Files in.


def test_files_are_copied_in(run, tmp_path):
    (tmp_path / "a.txt").write_text("A")
    (tmp_path / "b.bin").write_bytes(bytes(range(256)) * 4000)
    (tmp_path / "tool.sh").write_text("#!/bin/sh\necho tool $1\n")
    (tmp_path / "tool.sh").chmod(0o700)
    code = """
cat a.txt in/deep/renamed; wc -c < b.bin
./tool.sh runs
stat -c %a a.txt tool.sh; test -w a.txt && echo writable
"""
    result = run.shell(
        code,
        "--file",
        tmp_path / "a.txt",
        "--file",
        f"{tmp_path}/a.txt:in/deep/renamed",
        "--file",
        tmp_path / "b.bin",
        "--file",
        tmp_path / "tool.sh",
    )
    assert (result["status"], result["stdout"]) == ("ok", "AA1024000\ntool runs\n644\n755\nwritable\n"), result
    assert (tmp_path / "a.txt").read_text() == "A"


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "..", ".", "dir/"])
def test_rejects_file_target_outside_the_workspace(run, tmp_path, name):
    (tmp_path / "a.txt").write_text("A")
    message = run.rejected("-c", "1", "--file", f"{tmp_path}/a.txt:{name}")
    assert "--file" in message and "not in the workspace" in message


def test_rejects_missing_file_and_directory_as_file(run, tmp_path):
    assert "No such file" in run.rejected("-c", "1", "--file", tmp_path / "missing", code=127)
    message = run.rejected("-c", "1", "--file", tmp_path)
    assert "--file" in message and "directory" in message.lower()


def test_rejects_file_with_the_name_of_the_code(run, tmp_path):
    (tmp_path / "main.py").write_text("print('code')")
    (tmp_path / "other.py").write_text("print('data')")
    message = run.rejected(tmp_path / "main.py", "--file", f"{tmp_path}/other.py:main.py")
    assert "main.py" in message


# Files out.


def test_changed_files_are_copied_out(run, tmp_path):
    (tmp_path / "in.txt").write_text("old")
    (tmp_path / "same.txt").write_text("same")
    out = tmp_path / "new" / "out"
    code = """
import os, socket
os.makedirs('a/b'); open('a/b/deep', 'w').write('deep')
open('run.sh', 'w').write('#!/bin/sh'); os.chmod('run.sh', 0o755)
open('in.txt', 'a').write('+new')
os.symlink('in.txt', 'link'); os.symlink('/etc', 'etc'); os.mkfifo('fifo')
socket.socket(socket.AF_UNIX).bind('socket')
open('big', 'wb').write(os.urandom(1 << 20) * 20)
"""
    result = run.python(code, "--file", tmp_path / "in.txt", "--file", tmp_path / "same.txt", "--out", out)
    assert result["status"] == "ok", result
    copied = sorted(str(path.relative_to(out)) for path in out.rglob("*") if not path.is_dir())
    assert copied == ["a/b/deep", "big", "in.txt", "run.sh"]
    assert (out / "in.txt").read_text() == "old+new" and (tmp_path / "in.txt").read_text() == "old"
    assert (out / "big").stat().st_size == 20 << 20
    assert (mode(out / "run.sh"), mode(out / "a/b/deep")) == (0o755, 0o644)
    for path in out.rglob("*"):
        assert path.lstat().st_uid == os.geteuid()


def test_out_works_with_plain_output(run, tmp_path):
    finished = run("-c", "print('said'); open('made', 'w').write('x')", "--out", tmp_path / "out")
    assert (finished.exit_code, finished.stdout, finished.stderr) == (0, b"said\n", b"")
    assert (tmp_path / "out" / "made").read_text() == "x"


def test_files_of_a_failed_run_are_copied_out(run, tmp_path):
    result = run.python(
        "open('made', 'w').write('x')\nimport time; time.sleep(9)", "--timeout", "1s", "--out", tmp_path
    )
    assert result["status"] == "timeout" and (tmp_path / "made").read_text() == "x"


def test_out_replaces_existing_files(run, tmp_path):
    (tmp_path / "made").write_text("a much longer old text")
    (tmp_path / "other").write_text("stays")
    assert run.python("open('made', 'w').write('new')", "--out", tmp_path)["status"] == "ok"
    assert (tmp_path / "made").read_text() == "new" and (tmp_path / "other").read_text() == "stays"


def test_rejects_out_that_is_not_a_directory(run, tmp_path):
    (tmp_path / "file").write_text("")
    result = run.json("-c", "print('ran'); open('made', 'w')", "--out", tmp_path / "file" / "x")
    assert (result["status"], result["exit_code"]) == ("rejected", 126), result
    assert "file" in result["error"]["message"]
    empty = run("-c", "1", "--out", "")
    assert empty.exit_code == 2 and b"--out" in empty.stderr, empty.describe()


def test_full_disk_at_out_is_reported(run, tmp_path):
    code = "print('said')\nfor n in range(4): open(f'part{n}', 'wb').write(b'x' * (700 << 10))"
    finished = run("--json", "-c", code, "--python", PYTHON, "--out", tmp_path, through=small_disk(tmp_path))
    result = finished.result()
    assert (finished.exit_code, result["exit_code"], result["status"]) == (126, 126, "rejected"), result
    assert "No space left on device" in result["error"]["message"] and "part" in result["error"]["message"]
    # What the program said is not lost with its files.
    assert result["stdout"] == "said\n"


def test_full_host_directory_is_an_error_of_the_program(run, tmp_path):
    code = "open('big', 'wb').write(b'x' * (3 << 20))"
    result = run.python(code, "--workdir", tmp_path, through=small_disk(tmp_path))
    assert result["status"] == "error" and "No space left on device" in result["stderr"], result


def test_full_disk_for_the_code_is_reported(run, tmp_path):
    through = small_disk(tmp_path)
    through[-2] = through[-2].replace("exec", f"dd if=/dev/zero of={tmp_path}/fill bs=1k status=none 2>/dev/null; exec")
    result = run.json("-c", "print(1)", "--python", PYTHON, "--workdir", tmp_path, through=through)
    assert (result["status"], result["exit_code"]) == ("rejected", 126), result
    assert "No space left on device" in result["error"]["message"]


def test_out_into_the_source_directory_of_a_copied_file_updates_it(run, tmp_path):
    """--out into the very directory that a file came from."""
    (tmp_path / "data.csv").write_text("1\n")
    run.json("-c", "open('data.csv', 'a').write('2\\n')", "--file", tmp_path / "data.csv", "--out", tmp_path)
    assert (tmp_path / "data.csv").read_text() == "1\n2\n"
    assert subprocess.run(["find", tmp_path, "-type", "f"], capture_output=True).stdout.count(b"\n") == 1
    assert pathlib.Path(tmp_path, "data.csv").stat().st_nlink == 1
