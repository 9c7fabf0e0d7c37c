"""Packages that sessions of programs without a jail add. From the operator's index."""

import os
import sys

import pytest

import cella

pytestmark = pytest.mark.needs("network-index")

USE = "import cowsay; print(cowsay.__name__)"
EXECUTORS = [cella.LocalExecutor]


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


@pytest.fixture(autouse=True)
def modules():
    """This process forgets what the code imported."""
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] in ("cowsay", "pyjokes")]:
        del sys.modules[name]


def failed(result, word):
    return word in (result.error.name if result.error is not None else result.stderr)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_package_is_added_listed_and_removed_from_outside(open_session, wait, executor):
    session = open_session(executor())
    assert session.supports("deps")
    assert failed(wait(session.run(USE)), "ModuleNotFoundError")
    lines = []
    change = wait(session.deps.add("cowsay", on_progress=lines.append))
    assert "cowsay" in change.added and any(line.startswith("Resolv") for line in lines)
    assert wait(session.run(USE)).stdout == "cowsay\n"
    assert wait(session.deps.list()) == ["cowsay"] and list(wait(session.deps.installed())) == ["cowsay"]
    assert wait(session.deps.remove("Cowsay")) is True and wait(session.deps.remove("cowsay")) is False
    sys.modules.pop("cowsay", None)
    assert failed(wait(session.run(USE)), "ModuleNotFoundError")


@pytest.mark.parametrize("executor", EXECUTORS)
def test_code_adds_a_package_to_its_session(open_session, wait, executor):
    session = open_session(executor())
    added = wait(session.run(f"print(deps.add('cowsay').added[0].split('=')[0])\n{USE}"))
    assert added.stdout == "cowsay\ncowsay\n", added
    assert wait(session.deps.list()) == ["cowsay"]
    assert wait(session.run("print(deps.list(), deps.remove('cowsay'))")).stdout == "['cowsay'] True\n"
    assert wait(session.deps.list()) == []
    wrong = "try:\n    deps.add('cella-no-such-8f3a')\nexcept DepsError as error:\n    print('8f3a' in str(error))"
    assert wait(session.run(wrong)).stdout == "True\n"


@pytest.mark.parametrize("executor", EXECUTORS)
def test_locked_session_installs_what_was_configured_alone(open_session, wait, executor, tmp_path):
    (tmp_path / "requirements.txt").write_text("pyjokes  # old\n")
    session = open_session(executor(deps=["cowsay"], deps_file=tmp_path / "requirements.txt", allow_runtime_deps=False))
    with pytest.raises(cella.DepsDisabledError):
        wait(session.deps.add("rich"))
    assert failed(wait(session.run("deps.add('rich')")), "DepsDisabledError")
    assert set(wait(session.deps.sync()).added) == {"cowsay", "pyjokes"}
    assert wait(session.run("import pyjokes, cowsay; print(pyjokes.__name__)")).stdout == "pyjokes\n"


@pytest.mark.parametrize("executor", EXECUTORS)
def test_wrong_package_raises(open_session, wait, executor):
    session = open_session(executor())
    for spec in ("../x", "--index-url=http://x", "six; import os"):
        with pytest.raises(cella.DepsError):
            wait(session.deps.add(spec))
    assert wait(session.deps.list()) == []


def test_virtual_environment_of_the_caller_keeps_its_pip(open_session, wait, tmp_path):
    import venv

    venv.create(tmp_path / "v", with_pip=True, symlinks=True)
    session = open_session(cella.LocalExecutor(venv_dir=tmp_path / "v"))
    code = "import subprocess, sys; subprocess.run([sys.executable, '-m', 'pip', '--version'])"
    for result in (wait(session.run(code)), wait(session.run("pip --version", language="bash"))):
        assert str(tmp_path / "v") in result.stdout and "of Cella" not in result.stdout, result
    wait(session.deps.add("cowsay"))
    assert wait(session.run(USE)).stdout == "cowsay\n"
    assert not list((tmp_path / "v").rglob("cowsay"))
