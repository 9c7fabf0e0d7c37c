"""Checkpoints, reset, names, files, and what a session can do."""

import os
import tarfile

import pytest

import cella


def test_named_checkpoints_roll_back(session, wait):
    wait(session.run("x = 1"))
    wait(session.checkpoint("one"))
    wait(session.run("x = 2"))
    wait(session.checkpoint("two"))
    assert sorted(wait(session.checkpoints())) == ["one", "two"]
    wait(session.rollback("one"))
    assert wait(session.run("x")).value == "1"
    wait(session.drop_checkpoint("two"))
    assert "two" not in wait(session.checkpoints())
    with pytest.raises(cella.NotFound):
        wait(session.rollback("two"))


def test_reset_forgets_variables_and_keeps_files(session, wait):
    wait(session.run("x = 1; open('kept', 'w').write('file')"))
    wait(session.reset())
    assert wait(session.run("x")).error.name == "NameError"
    assert wait(session.download("kept")) == b"file"


def test_complete_and_inspect_answer(session, wait):
    wait(session.run("größe_one = 1; größe_two = 2"))
    answer = wait(session.complete("größe_"))
    assert (answer["matches"], answer["start"], answer["end"]) == (["größe_one", "größe_two"], 0, 6)
    assert wait(session.complete("len + 1", 2))["matches"] == ["len"]
    answer = wait(session.inspect("len"))
    assert answer["found"] and "number of items" in answer["text"]


def test_supports_answers_before_and_after_opening(open_session, wait):
    sandbox, local = open_session(), open_session(cella.LocalExecutor())
    for _ in range(2):
        assert sandbox.supports("state") and sandbox.supports("files") and not sandbox.supports("flying")
        assert local.supports("files") and not local.supports("state")
        wait(sandbox.open()), wait(local.open())
    assert wait(sandbox.info())["status"] == "idle"
    assert (sandbox.executor, local.executor) == ("sandbox", "local")


def test_unsupported_operation_is_refused_with_a_message(open_session, wait):
    local = open_session(cella.LocalExecutor())
    with pytest.raises(cella.CellaError):
        wait(local.checkpoint("a"))
    assert wait(local.run("print(1)")).stdout == "1\n"


def test_files_are_uploaded_and_downloaded(session, wait, tmp_path):
    content = bytes(range(256)) * 1000
    (tmp_path / "source").write_bytes(content)
    wait(session.upload("some dir/ü & ?.bin", tmp_path / "source"))
    wait(session.upload("text.txt", "grün"))
    wait(session.upload("bytes", b"\xff"))
    assert wait(session.run("len(open('some dir/ü & ?.bin', 'rb').read())")).value == "256000"
    assert wait(session.run("open('text.txt', encoding='utf-8').read()")).value == "'grün'"
    assert wait(session.download("some dir/ü & ?.bin")) == content
    wait(session.files.download_to("bytes", tmp_path / "down"))
    assert (tmp_path / "down").read_bytes() == b"\xff"
    assert sorted(os.listdir(tmp_path)) == ["down", "source"]


def test_files_are_listed_and_removed(session, wait):
    for name in ("a", "b/c", "b/d"):
        wait(session.upload(name, name))
    assert [(entry.name, entry.type) for entry in wait(session.files.list())] == [("a", "file"), ("b", "directory")]
    assert [(entry.name, entry.size) for entry in wait(session.files.list("b"))] == [("c", 3), ("d", 3)]
    wait(session.files.delete("a"))
    with pytest.raises(cella.CellaError):
        wait(session.files.delete("b"))
    wait(session.files.delete("b", recursive=True))
    assert wait(session.files.list()) == []


def test_list_of_many_files_is_complete(session, wait):
    wait(session.run("for i in range(2500): open(f'f{i:04}', 'w').close()"))
    assert [entry.name for entry in wait(session.files.list())] == [f"f{i:04}" for i in range(2500)]


def test_archives_are_uploaded_and_downloaded(session, wait, tmp_path):
    wait(session.upload("d/x", "content"))
    wait(session.files.download_archive(tmp_path / "w.tar"))
    with tarfile.open(tmp_path / "w.tar") as archive:
        assert archive.extractfile("d/x").read() == b"content"
    wait(session.files.delete("d", recursive=True))
    wait(session.files.upload_archive(tmp_path / "w.tar"))
    assert wait(session.download("d/x")) == b"content"


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "a/../../b"])
def test_paths_cannot_leave_the_workspace(session, wait, path):
    with pytest.raises(cella.CellaError):
        wait(session.upload(path, b"x"))
    with pytest.raises(cella.CellaError):
        wait(session.download(path))


def test_failed_download_leaves_nothing(session, wait, tmp_path):
    with pytest.raises(cella.NotFound):
        wait(session.files.download_to("missing", tmp_path / "x"))
    assert os.listdir(tmp_path) == []


def test_large_file_round_trips(session, wait, tmp_path):
    size = 40 << 20
    (tmp_path / "large").write_bytes(os.urandom(1 << 20) * 40)
    wait(session.upload("large", tmp_path / "large"))
    wait(session.files.download_to("large", tmp_path / "back"))
    assert (tmp_path / "back").stat().st_size == size
    assert (tmp_path / "back").read_bytes() == (tmp_path / "large").read_bytes()
