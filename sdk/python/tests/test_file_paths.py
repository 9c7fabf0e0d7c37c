"""Files are named relative to the workspace, or as the code in a jail names them."""

import pytest

import cella


def test_a_path_of_the_guest_names_the_same_file(session, wait):
    wait(session.upload("/workspace/d/a.txt", b"one"))
    assert wait(session.run("open('/workspace/d/a.txt').read()")).value == "'one'"
    assert wait(session.download("d/a.txt")) == wait(session.download("/workspace/d/a.txt")) == b"one"


@pytest.mark.parametrize("path", ["/tmp/x", "/workspace", "/workspacex/a", "/workspace//etc/passwd", "/workspace/../x"])
def test_other_absolute_paths_are_refused(session, wait, path):
    with pytest.raises(cella.InvalidRequest):
        wait(session.download(path))
