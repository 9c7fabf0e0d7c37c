"""Packages that a session in this process adds: in a directory of its own at the end of sys.path, never in the
caller's environment, and gone with the session."""

import gc
import os
import subprocess
import sys
import textwrap

import pytest

import cella
import cella.sync
from cella.execution import InProcessConfig, InProcessExecutor

NEEDS_INDEX = pytest.mark.needs("network-index")


@pytest.fixture(scope="module", autouse=True)
def state(tmp_path_factory):
    """Environments of their own, without those of the user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CELLA_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture
def plain(open_session):
    """A session, and after it no module of its packages."""
    before = set(sys.modules)
    yield lambda **fields: open_session(InProcessExecutor(**fields))
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("cowsay", "inflection", "parse"):
            del sys.modules[name]


@NEEDS_INDEX
def test_added_package_is_at_the_end_of_the_path_until_the_session_closes(plain, wait, twin):
    path = list(sys.path)
    session = plain()
    assert session.supports("deps_install") and wait(session.deps.list()) == []
    lines = []
    assert "cowsay" in wait(session.deps.add("cowsay", on_progress=lines.append)).added and lines
    assert sys.path[:-1] == path
    found = wait(session.run("import cowsay; cowsay.__file__")).value
    assert found.startswith(f"'{sys.path[-1]}/") and not found.startswith(f"'{sys.prefix}")
    assert wait(session.deps.list()) == ["cowsay"] and "cowsay" in wait(session.deps.installed())
    wait(session.reset())
    assert wait(session.run("import cowsay; list(deps.list())")).value == "['cowsay']"
    directory = sys.path[-1]
    twin.close(session)
    assert sys.path == path and not os.path.exists(directory)


@NEEDS_INDEX
def test_path_of_a_session_that_was_not_closed_ends_with_it(wait, twin):
    path = list(sys.path)
    session = twin.api.Session(executor=InProcessExecutor())
    wait(session.deps.add("parse"))
    assert len(sys.path) == len(path) + 1
    del session
    gc.collect()
    assert sys.path == path


@NEEDS_INDEX
def test_code_adds_and_removes_packages(plain, wait):
    path = list(sys.path)
    session = plain()
    code = "print(deps.add('parse').added[0][:7])\nimport parse\n(await deps.add('inflection')).added"
    result = wait(session.run(code, timeout=60))
    assert result.ok and result.stdout == "parse==\n" and "inflection==" in result.value, result
    piped = wait(session.run("%pip install --quiet cowsay\nimport cowsay, inflection; cowsay.__name__", timeout=60))
    assert piped.value == "'cowsay'", piped
    assert sorted(wait(session.deps.list())) == ["cowsay", "inflection", "parse"]
    assert len(sys.path) == len(path) + 1
    assert wait(session.run("deps.remove('cowsay'), deps.remove('cowsay')")).value == "(True, False)"
    gone = wait(session.run("import sys; del sys.modules['cowsay']\nimport cowsay"))
    assert gone.error.name == "ModuleNotFoundError"
    for name in ("parse", "inflection"):
        assert wait(session.deps.remove(name)) is True
    assert sys.path == path


@NEEDS_INDEX
def test_configured_packages_come_with_sync_and_others_are_locked(plain, wait, tmp_path):
    (tmp_path / "requirements.txt").write_text("parse  # a comment\n")
    fields = {"deps": ["cowsay"], "deps_file": tmp_path / "requirements.txt", "allow_runtime_deps": False}
    session = plain(**fields)
    assert session.supports("deps") and not session.supports("deps_install")
    with pytest.raises(cella.DepsDisabledError):
        wait(session.deps.add("inflection"))
    for code in ("deps.add('inflection')", "%pip install inflection", "deps.remove('parse')"):
        assert wait(session.run(code)).error.name == "DepsDisabledError"
    assert wait(session.run("deps.sync().added", timeout=60)).ok
    assert wait(session.run("import parse, cowsay; cowsay.__name__")).value == "'cowsay'"
    assert InProcessConfig.from_json(InProcessConfig(**fields).to_json()).deps == ("cowsay",)


@NEEDS_INDEX
def test_packages_are_synchronised_on_start(wait, twin, tmp_path):
    (tmp_path / "requirements.txt").write_text("inflection\n")
    session = twin.api.Session(cella.FileStorage(tmp_path), InProcessExecutor(), sync_deps_on_start=True)
    try:
        assert wait(session.run("import inflection; inflection.__name__")).value == "'inflection'"
        assert wait(session.run("artifacts.save('a', 1); artifacts.load('a')")).value == "1"
    finally:
        twin.close(session)
        sys.modules.pop("inflection", None)


@pytest.mark.parametrize("spec", ["../x", "--index-url=http://127.0.0.1:1", "numpy; import os", ""])
def test_wrong_package_is_an_error_and_leaves_the_session_as_it_was(plain, wait, spec):
    path = list(sys.path)
    session = plain()
    wait(session.run("x = 1"))
    with pytest.raises(cella.DepsError):
        wait(session.deps.add(spec))
    refused = wait(session.run(f"deps.add({spec!r})"))
    assert refused.error.name == "DepsError" and "cella" not in refused.error.traceback, refused
    assert wait(session.run("deps.add(1)")).error.name == "DepsError"
    assert wait(session.run("x")).value == "1" and sys.path == path


def test_line_for_the_pip_of_a_shell_is_refused(plain, wait):
    session = plain()
    refused = wait(session.run("!pip install parse > /dev/null"))
    assert refused.error.name == "UsageError" and "%pip install" in refused.stderr


def test_call_is_an_event_of_the_run(plain, wait, twin):
    stream = plain().stream("deps.list()\nlen([deps.list() for _ in range(3)])")
    events = [event for event in twin.each(stream) if event.type == "tool"]
    assert [(event.document["namespace"], event.document["status"]) for event in events] == [("deps", "ok")] * 4


def test_session_without_programs_says_what_is_missing(tmp_path):
    code = """
        import cella.sync
        with cella.sync.Session(cella.InProcessExecutor()) as session:
            print(session.run("deps.list()"))
            print(session.run("deps.add('parse')").error.name)
            try: session.deps.add("parse")
            except cella.CellaError as error: print("CELLA_BIN" in str(error))
    """
    environment = {**os.environ, "CELLA_BIN": str(tmp_path / "none"), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=environment, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("[]\nDepsError\nTrue\n", "")
