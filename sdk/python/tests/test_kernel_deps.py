"""Packages of sessions with an IPython kernel, from the operator's index."""

import asyncio
import re

import pytest

import cella
from conftest import REPOSITORY

pytestmark = pytest.mark.needs("network-index")


@pytest.fixture(scope="module", autouse=True)
def state(tmp_path_factory):
    """Environments of their own, without those of the user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CELLA_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(params=[False, True], ids=["plain", "jail"])
def kernel(request, open_session):
    return lambda **fields: open_session(executor=cella.SubprocessExecutor(jail=request.param, **fields))


def missing(result):
    return result.error is not None and result.error.name == "ModuleNotFoundError"


def test_package_from_outside_is_in_this_session_alone_after_crash_and_reset(kernel, wait):
    session, other = kernel(), kernel()
    # With the words of py-code-mode too.
    words = ("deps", "deps_install", "deps_uninstall", "process_isolation", "reset")
    assert all(session.supports(word) for word in words)
    assert not session.supports("network_filtering")
    assert missing(wait(session.run("import cowsay")))
    assert "cowsay" in wait(session.deps.add("cowsay")).added
    assert wait(session.run("import cowsay; cowsay.__name__")).value == "'cowsay'"
    assert missing(wait(other.run("import cowsay"))) and wait(other.deps.list()) == []
    assert wait(session.run("import os; os.kill(os.getpid(), 9)")).state == "lost"
    assert wait(session.run("import cowsay; list(deps.list())")).value == "['cowsay']"
    wait(session.reset())
    assert wait(session.run("import cowsay; cowsay.__name__")).value == "'cowsay'"
    assert wait(session.deps.remove("cowsay")) is True
    assert missing(wait(session.run("import sys; sys.modules.pop('cowsay', None); import cowsay")))


def test_configured_packages_come_with_sync_and_others_are_locked(kernel, wait, tmp_path):
    (tmp_path / "requirements.txt").write_text("six\n")
    session = kernel(deps=["cowsay"], deps_file=tmp_path / "requirements.txt", allow_runtime_deps=False)
    with pytest.raises(cella.DepsDisabledError):
        wait(session.deps.add("attrs"))
    refused = wait(session.run("%pip install attrs"))
    assert refused.error is not None and refused.error.name == "DepsDisabledError"
    wait(session.deps.sync())
    assert wait(session.run("import six, cowsay; six.__name__")).value == "'six'"


def test_wrong_package_leaves_the_session_as_it_was(kernel, wait):
    session = kernel()
    wait(session.run("x = 1"))
    for spec in ("--index-url=http://x", "../x", "cella-no-such-package-8f3a"):
        with pytest.raises(cella.DepsError):
            wait(session.deps.add(spec))
    assert wait(session.run("x")).value == "1" and wait(session.deps.list()) == []


def test_packages_stay_in_a_virtual_environment_that_is_kept(open_session, wait, tmp_path):
    place = str(tmp_path / "v")
    first = open_session(executor=cella.SubprocessExecutor(venv_dir=place))
    wait(first.deps.add("cowsay"))
    assert wait(first.run("import cowsay; cowsay.__file__")).value.startswith(f"'{place}/lib/")
    second = open_session(executor=cella.SubprocessExecutor(venv_dir=place, allow_runtime_deps=False))
    assert wait(second.run("import cowsay; cowsay.__file__")).value.startswith(f"'{place}/lib/")


def test_snippet_of_the_guide():
    text = (REPOSITORY / "docs/executors.md").read_text()
    snippet = next(each for each in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S) if "def added" in each)
    names = {}
    exec(snippet, names)
    assert asyncio.run(names["added"]()) == "'iniconfig'"
