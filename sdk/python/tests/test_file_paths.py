"""Files are named relative to the workspace, or as the code in a jail names them."""

import os

import pytest

import cella


def test_a_path_of_the_guest_names_the_same_file(session, wait):
    wait(session.upload("/workspace/d/a.txt", b"one"))
    assert wait(session.run("open('/workspace/d/a.txt').read()")).value == "'one'"
    assert wait(session.download("d/a.txt")) == wait(session.download("/workspace/d/a.txt")) == b"one"


def test_files_in_tmp_are_those_of_the_sandbox(session, wait, tmp_path):
    wait(session.upload("/tmp/d/a.txt", b"one"))
    assert wait(session.run("open('/tmp/d/a.txt').read()")).value == "'one'"
    wait(session.run("import os; os.chmod('/tmp/d/a.txt', 0o755); open('/tmp/b', 'w').write('made')"))
    wait(session.upload("/tmp/d/a.txt", b"two"))
    assert wait(session.run("open('/tmp/d/a.txt').read(), oct(os.stat('/tmp/d/a.txt').st_mode)")).value == (
        "('two', '0o100755')"
    )
    assert wait(session.download("/tmp/b")) == b"made"
    assert not os.path.exists("/tmp/d/a.txt"), "it is not the host's"
    # What a guest puts there leads nowhere else.
    wait(session.run("os.symlink('/etc', '/tmp/link'); os.symlink('/etc/passwd', '/tmp/file')"))
    for path in ("/tmp/link/passwd", "/tmp/file", "/tmp/../etc/passwd", "/tmp/d/../../etc/passwd"):
        with pytest.raises(cella.ApiError):
            wait(session.download(path))
    with pytest.raises(cella.ApiError):
        wait(session.upload("/tmp/link/planted", b"x"))


@pytest.mark.parametrize(
    "path",
    ["/tmpx/a", "/etc/passwd", "/workspace", "/workspacex/a", "/workspace//etc/passwd", "/workspace/../x", "/tmp//x"],
)
def test_other_absolute_paths_are_refused(session, wait, path):
    with pytest.raises(cella.InvalidRequest):
        wait(session.download(path))
