"""Packages of container sessions: installed outside for the interpreter of the image, which has no network."""

import os

import pytest

import cella
from support.engine import Engine
from support.needs import require

pytestmark = [pytest.mark.needs("docker"), pytest.mark.needs("network-index")]


@pytest.fixture(scope="module", autouse=True)
def state(tmp_path_factory):
    """Packages of their own, without those of the user."""
    before = os.environ.get("CELLA_STATE_DIR")
    os.environ["CELLA_STATE_DIR"] = str(tmp_path_factory.mktemp("state"))
    yield
    if before is None:
        del os.environ["CELLA_STATE_DIR"]
    else:
        os.environ["CELLA_STATE_DIR"] = before


@pytest.fixture
def contained(open_session):
    engine = Engine(require("docker"))

    def make(**fields):
        executor = cella.ContainerExecutor(auth_disabled=True, engine=engine.host, image=engine.image, **fields)
        return open_session(executor=executor)

    return make


def missing(result):
    return result.error is not None and result.error.name == "ModuleNotFoundError"


def test_added_package_fits_the_interpreter_of_the_image(contained, wait):
    """markupsafe has a part in C, so that a wheel for another interpreter could not be imported."""
    session, other = contained(allow_runtime_deps=True), contained(allow_runtime_deps=True)
    assert missing(wait(session.run("import markupsafe._speedups")))
    assert "markupsafe" in wait(session.deps.add("markupsafe")).added
    code = "import markupsafe._speedups as s, sys; s.__name__, sys.version_info[:2] == (3, 11)"
    assert wait(session.run(code)).value == "('markupsafe._speedups', True)"
    assert missing(wait(other.run("import markupsafe._speedups")))
    assert wait(session.run("import socket; socket.create_connection(('192.0.2.1', 80), 1)")).error.name == "OSError"


def test_package_is_there_before_the_first_run_and_after_a_crash(contained, wait):
    session = contained(allow_runtime_deps=True)
    wait(session.deps.add("six"))
    assert wait(session.run("import six; six.__name__")).value == "'six'"
    wait(session.run("import os; os.kill(os.getpid(), 9)"))
    assert wait(session.run("import six; six.__name__")).value == "'six'"
    code = "import subprocess, sys; print(subprocess.run([sys.executable, '-c', 'import six']).returncode)"
    assert wait(session.run(code)).stdout == "0\n"
    assert wait(session.deps.remove("six")) is True
    assert missing(wait(session.run("import sys; sys.modules.pop('six', None); import six")))


def test_configured_packages_come_with_sync_and_others_are_locked(contained, wait, tmp_path):
    (tmp_path / "requirements.txt").write_text("six\n")
    session = contained(deps_file=tmp_path / "requirements.txt")
    with pytest.raises(cella.CellaError, match="locked"):
        wait(session.deps.add("rich"))
    assert "six" in wait(session.deps.sync()).added
    assert wait(session.run("import six; six.__name__")).value == "'six'"


def test_package_larger_than_the_disk_limit_is_refused_and_the_session_goes_on(contained, wait):
    session = contained(allow_runtime_deps=True, disk_limit="1m")
    with pytest.raises(cella.CellaError, match="disk limit"):
        wait(session.deps.add("pygments"))
    assert wait(session.run("1")).value == "1"


def test_added_package_is_in_every_fresh_container(contained, wait):
    session = contained(allow_runtime_deps=True, fresh="run")
    wait(session.deps.add("six"))
    for _ in range(2):
        assert wait(session.run("import six; six.__name__")).value == "'six'"
    assert wait(session.run("deps.add('rich')")).status == "ok"
    assert wait(session.run("import rich; rich.__name__")).value == "'rich'"
    assert wait(session.deps.remove("six")) is True
    assert missing(wait(session.run("import six")))


def test_code_inside_adds_packages_for_itself_and_its_programs(contained, wait):
    session = contained(allow_runtime_deps=True)
    assert wait(session.run("deps.add('six'); import six; six.__name__")).value == "'six'"
    assert wait(session.run("list(deps.list())")).value == "['six']"
    shell = wait(session.run("python3 -c 'import six; print(1)' && pip uninstall -y six >&2", language="bash"))
    assert shell.stdout == "1\n", shell.stderr
    assert missing(wait(session.run("import sys; sys.modules.pop('six', None); import six")))
    locked = wait(contained().run("deps.add('six')"))
    assert locked.error is not None and locked.error.name == "DepsDisabledError"
