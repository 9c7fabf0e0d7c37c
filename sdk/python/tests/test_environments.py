"""Environments of sessions, from the operator's index."""

import asyncio
import os

import pytest

import cella
from cella import Environment
from conftest import REPOSITORY

pytestmark = pytest.mark.needs("network-index")

PYTHON = "/usr/bin/python3"


@pytest.fixture(scope="module", autouse=True)
def state(tmp_path_factory):
    """Environments of their own, without those of the user."""
    before = os.environ.get("CELLA_STATE_DIR")
    os.environ["CELLA_STATE_DIR"] = str(tmp_path_factory.mktemp("state"))
    yield
    if before is None:
        del os.environ["CELLA_STATE_DIR"]
    else:
        os.environ["CELLA_STATE_DIR"] = before


def test_environment_is_a_document_like_its_configuration():
    config = cella.SandboxConfig(environment=Environment(packages=["six"], preload=["six"]))
    assert cella.SandboxConfig.from_json(config.to_json()) == config
    assert config.policy(local=False)["environment"] == {"packages": ["six"], "preload": ["six"]}
    assert cella.LocalConfig(environment="tools").policy(local=False)["environment"] == "tools"
    with pytest.raises(TypeError):
        Environment(packages="six")


@pytest.mark.parametrize("executor", [cella.SandboxExecutor, cella.LocalExecutor])
def test_session_has_the_packages_of_its_environment(open_session, wait, executor):
    session = open_session(executor(environment=Environment(packages=["six==1.16.0"], python=PYTHON)))
    assert wait(session.run("import six; print(six.__version__)")).stdout == "1.16.0\n"


def test_preloaded_module_is_there_and_more_can_be_added(open_session, wait):
    environment = Environment(packages=["six==1.16.0"], python=PYTHON, preload=["six"])
    session = open_session(cella.SandboxExecutor(environment=environment))
    assert wait(session.run("import sys; 'six' in sys.modules")).value == "True"
    change = wait(session.deps.add("attrs"))
    assert set(change.added) == {"attrs"}
    assert wait(session.run("import attr, six; six.__version__")).value == "'1.16.0'"


def test_package_that_does_not_exist_raises_deps_error(open_session, wait):
    environment = Environment(packages=["cella-no-such-package-8f3a"], python=PYTHON)
    with pytest.raises(cella.DepsError, match="cella-no-such-package-8f3a"):
        wait(open_session(cella.SandboxExecutor(environment=environment)).open())


def test_environment_excludes_another_python(open_session, wait):
    executor = cella.SandboxExecutor(environment=Environment(packages=["six"]), python_version="3.11")
    with pytest.raises(cella.InvalidRequest, match="python"):
        wait(open_session(executor).open())


def test_code_that_adds_packages_shows_progress(open_session, wait):
    session = open_session(cella.SandboxExecutor(python_version=PYTHON))
    events = []
    result = wait(session.run("deps.add('rich')", on_event=events.append))
    assert result.ok, result.stderr
    assert any(event.type == "progress" and event.text for event in events)


def test_snippet_of_the_guide_prints_what_it_says(capsys):
    from test_docs import PROMISE, SNIPPET, run

    text = (REPOSITORY / "docs" / "environments.md").read_text()
    (snippet,) = [each for each in SNIPPET.findall(text) if "cella.Environment" in each]
    asyncio.run(run(snippet, {}))
    assert capsys.readouterr().out.splitlines() == PROMISE.findall(snippet)
