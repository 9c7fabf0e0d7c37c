"""What outlives sessions: artifacts and workflows, from outside and from the code."""

import asyncio
import pickle
import warnings

import pytest

import cella
import cella.sync
from cella.errors import ArtifactError, ArtifactNotFoundError, NotAllowed, WorkflowError

SOURCE = "async def run(n=1):\n    return n + 1\n"


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def session(data):
    with cella.sync.Session(storage=cella.FileStorage(data)) as opened:
        yield opened


def test_code_and_caller_see_the_same_artifacts(session, data):
    for value in ("Grüße", b"\0\xff", {"a": [1, None]}, 5, None, "x" * 3_000_000, b"y" * 3_000_000):
        entry = session.artifacts.save("dir/name", value, "a value", {"k": [1]})
        assert (entry.name, entry["description"], entry.metadata) == ("dir/name", "a value", {"k": [1]})
        assert session.artifacts.load("dir/name") == value
        assert session.run("back = artifacts.load('dir/name'); artifacts.save('back', back); 'done'").value == "'done'"
        assert session.artifacts.load("back") == value
    assert [each.name for each in session.artifacts.list()] == ["back", "dir/name"]
    assert (data / "artifacts/dir/name").read_bytes() == b"y" * 3_000_000


def test_missing_artifacts(session):
    assert session.artifacts.list() == [] and session.artifacts.get("x") is None
    assert session.artifacts.exists("x") is False and session.artifacts.delete("x") is False
    with pytest.raises(ArtifactNotFoundError):
        session.artifacts.load("x")
    session.artifacts.save("x", 1)
    assert session.artifacts.exists("x") and session.artifacts.delete("x") and not session.artifacts.exists("x")


@pytest.mark.parametrize(
    "name", ["", "..", "/etc/passwd", "a/../b", "a//b", "x" * 300, "a\0b", "a\nb", ".cella/index.db"]
)
def test_bad_names_are_refused(session, name):
    for operation in (lambda: session.artifacts.save(name, "x"), lambda: session.artifacts.load(name)):
        with pytest.raises(ArtifactError) as caught:
            operation()
        assert not isinstance(caught.value, ArtifactNotFoundError)


@pytest.mark.parametrize("value", [{1, 2}, (1,), {1: 2}, float("inf"), [object()], "\ud800"])
def test_other_values_are_refused_with_a_way_to_convert_them(session, value):
    with pytest.raises(ArtifactError):
        session.artifacts.save("a", value)
    assert session.artifacts.list() == []


def test_workflows_are_kept_found_and_run(session):
    made = session.workflows.create("inc", SOURCE, "adds one")
    assert (made.name, made.description, made.approved) == ("inc", "adds one", True)
    assert session.workflows.invoke("inc", n=4) == 5 and session.workflows.invoke("inc", 1) == 2
    assert session.run("workflows.inc(5)").value == "6"
    assert session.workflows.get("inc").source == SOURCE
    assert [each.name for each in session.workflows.list()] == ["inc"]
    assert [each.name for each in session.workflows.search("adds")] == ["inc"]
    assert session.workflows.search("nothing") == []
    assert session.workflows.delete("inc") and not session.workflows.delete("inc")
    assert session.workflows.get("inc") is None
    with pytest.raises(WorkflowError, match="inc"):
        session.workflows.invoke("inc")


def test_bad_workflows_are_refused(session, data):
    for name, source in (("bad", "def run(): pass"), ("bad", "async def run(:"), ("a-b", SOURCE), ("list", SOURCE)):
        with pytest.raises(WorkflowError):
            session.workflows.create(name, source)
    with pytest.raises(WorkflowError, match="JSON"):
        session.workflows.invoke("x", {1})
    session.workflows.create("fails", "async def run(): raise KeyError('here')")
    with pytest.raises(WorkflowError, match="KeyError"):
        session.workflows.invoke("fails")
    (data / "workflows/_mine.py").write_text(SOURCE)
    with pytest.warns(UserWarning, match="_mine.py was left out"):
        assert [each.name for each in session.workflows.list()] == ["fails"]


def test_a_session_without_storage_says_so():
    with cella.sync.Session() as session, pytest.raises(cella.Conflict, match="no storage"):
        session.artifacts.list()


def test_storage_is_also_the_first_argument(data):
    for first in (cella.FileStorage(data), data):
        with cella.sync.Session(first, cella.SandboxExecutor()) as session:
            session.artifacts.save("a", 1)
    with cella.sync.Session(cella.SandboxExecutor()) as session:
        assert session.executor == "sandbox"
    with pytest.raises(TypeError):
        cella.sync.Session(cella.SandboxExecutor(), cella.SandboxExecutor())
    for wrong in (5, "sandbox"):
        with pytest.raises(TypeError, match="executor="):
            cella.sync.Session(wrong)


def test_file_storage_is_a_value(data, tmp_path, monkeypatch):
    storage = cella.FileStorage(base_path=data)
    assert storage == cella.FileStorage(str(data)) and hash(storage) == hash(cella.FileStorage(data))
    assert storage.base_path == data and pickle.loads(pickle.dumps(storage)) == storage
    monkeypatch.chdir(tmp_path)
    assert cella.FileStorage("data") == storage
    assert not data.exists()
    for bad in ("", "a\0", b"x"):
        with pytest.raises((ValueError, TypeError)):
            cella.FileStorage(bad)


def test_from_base_has_the_parameters_of_py_code_mode(data):
    data.mkdir()
    (data / "requirements.txt").write_text("# nothing yet\n")
    with cella.sync.Session.from_base(
        data, timeout=30, extra_deps=None, allow_runtime_deps=False, sync_deps_on_start=False
    ) as session:
        assert session.run("artifacts.save('a', 1); artifacts.load('a')").value == "1"
        assert session.run("deps.add('rich')").error.name == "DepsDisabledError"


def test_requirements_are_synchronised_at_the_start(data):
    data.mkdir()
    (data / "requirements.txt").write_text("no-such-package-of-cella==1\n")
    session = cella.sync.Session(cella.FileStorage(data), sync_deps_on_start=True)
    with pytest.raises(cella.DepsError, match="no-such-package-of-cella"), session:
        pass
    (data / "requirements.txt").write_text("--index-url http://127.0.0.1:1\n")
    with pytest.raises(cella.CellaError, match=r"requirements\.txt"), cella.sync.Session(cella.FileStorage(data)):
        pass


def test_a_storage_where_code_may_write_is_refused(tmp_path):
    executor = cella.SandboxExecutor(work_dir=str(tmp_path))
    with pytest.raises(NotAllowed, match="code may write"), cella.sync.Session(tmp_path / "data", executor):
        pass
    # Also by a session that has ended: what it left there stays.
    with cella.sync.Session(executor) as session:
        session.run("1")
    with pytest.raises(NotAllowed, match="code may write"), cella.sync.Session(tmp_path / "data"):
        pass


def test_a_directory_within_an_open_storage_is_not_given_to_code(session, data):
    session.artifacts.save("a", 1)
    executor = cella.SandboxExecutor(work_dir=str(data / "artifacts"))
    with pytest.raises(NotAllowed, match="code may write"), cella.sync.Session(executor):
        pass


@pytest.mark.parametrize("executor", [cella.InProcessExecutor(), cella.LocalExecutor()], ids=str)
def test_other_executors_have_the_storage_from_outside(data, executor):
    with cella.sync.Session(data, executor) as session:
        session.artifacts.save("a", [1])
        session.workflows.create("inc", SOURCE)
        assert session.artifacts.load("a") == [1] and session.workflows.get("inc").source == SOURCE
        assert session.run("1", language="python").exit_code == 0


def test_path_outside_is_the_file_itself(session, data):
    session.run("artifacts.save('a/b.csv', 'x,y')")
    assert session.artifacts.path("a/b.csv") == str(data / "artifacts/a/b.csv")
    with open(session.artifacts.path("a/b.csv")) as file:
        assert file.read() == "x,y"
    with pytest.raises(ArtifactNotFoundError):
        session.artifacts.path("none")
    with pytest.raises(ArtifactError):
        session.artifacts.path("../requirements.txt")


def test_path_in_code_is_the_file_itself_only_where_code_shares_the_file_system(session, data):
    saved = "artifacts.save('a', 'content')\n"
    inside = session.run(saved + "path = artifacts.path('a')\nopen(path, 'a').write('!')\npath").value
    assert inside == "'/workspace/.artifacts/a'" and session.artifacts.load("a") == "content"
    with cella.sync.Session(data, cella.InProcessExecutor()) as shared:
        assert shared.run(saved + "artifacts.path('a')").value == repr(str(data / "artifacts/a"))


def test_calls_of_code_in_this_process_pass_the_gate(data):
    with cella.sync.Session(data, cella.InProcessExecutor()) as session:
        events = []
        saving = "artifacts.save('a', 1); artifacts.load('a'); workflows.list()"
        assert session.run(saving, on_event=events.append).ok
        documents = [each.document for each in events if each.type == "tool"]
        calls = [(each["namespace"], each["name"], each["status"]) for each in documents]
        assert calls == [("artifacts", "save", "ok"), ("artifacts", "load", "ok"), ("workflows", "list", "ok")]
        result = session.run("for n in range(10001): artifacts.exists('a') if n > 9998 else tools.list()")
        assert "more than 10000 calls" in result.error.message, result.error
        assert session.run("import threading; keep = artifacts; artifacts.load('a')").value == "1"


def test_code_in_this_process_runs_only_approved_sources(data):
    with cella.sync.Session(data) as jailed:
        jailed.run(f"workflows.create('inc', {SOURCE!r})")
        with cella.sync.Session(data, cella.InProcessExecutor()) as session:
            failed = session.run("workflows.inc(1)")
            assert failed.error.name == "WorkflowError" and "cella workflows approve inc" in failed.error.message
            session.workflows.create("inc", SOURCE)
            assert session.run("await workflows.inc(1), await workflows.inc.call_async(2)").value == "(2, 3)"


def test_two_sessions_share_a_storage(session, data):
    with cella.sync.Session(data) as other:
        other.run("artifacts.save('a', [1])")
        assert session.run("artifacts.load('a')").value == "[1]"


def test_a_crash_and_a_reset_leave_names_and_artifacts(session):
    session.run("artifacts.save('a', 1)")
    session.run("import os; os.kill(os.getpid(), 9)")
    assert session.run("artifacts.load('a')").value == "1"
    session.reset()
    assert session.run("artifacts.load('a')").value == "1"


def test_asynchronous_twin(data):
    asyncio.run(use_asynchronously(data))


async def use_asynchronously(data):
    async with cella.Session(storage=cella.FileStorage(data)) as session:
        await session.artifacts.save("a", {"n": 1})
        await session.workflows.create("inc", SOURCE)
        result = await session.run("await workflows.inc(artifacts.load('a')['n'])")
        assert result.value == "2", result.error
        assert await session.workflows.invoke("inc", n=2) == 3
        assert [each.name for each in await session.artifacts.list()] == ["a"]


def test_nothing_is_executed_by_looking_at_it(session, data, tmp_path):
    trap = tmp_path / "trap"
    session.workflows.create("trap", f"open({str(trap)!r}, 'w').close()\n{SOURCE}")
    session.workflows.list(), session.workflows.get("trap"), session.workflows.search("run")
    session.artifacts.save("p", pickle.dumps([1]))
    assert isinstance(session.artifacts.load("p"), bytes)
    assert not trap.exists()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(session.workflows.list()) == 1
