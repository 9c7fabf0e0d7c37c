"""Packages that the code of a session adds for itself, in `cella repl`. From the operator's index."""

import pytest
from support.package_index import index_variables

pytestmark = [pytest.mark.needs("network-index"), pytest.mark.as_user]


@pytest.fixture
def session(open_session, tmp_path):
    variables = {**index_variables(), "CELLA_STATE_DIR": str(tmp_path / "state")}
    return open_session(with_env=variables)


def test_package_is_there_at_once_and_after_crash_and_reset(session):
    assert session.value("deps.add('cowsay'); import cowsay; cowsay.__name__") == "'cowsay'"
    assert session.run("import os; os.kill(os.getpid(), 9)")["status"] == "crashed"
    assert session.value("import cowsay; cowsay.__name__") == "'cowsay'"
    session.ask(op="reset")
    assert session.value("import cowsay; list(deps.list())") == "['cowsay']"
    shell = session.run("python3 -c 'import cowsay; print(1)'; pip uninstall -y cowsay >&2; pip freeze", language="bash")
    assert shell["stdout"].startswith("1\n") and "cowsay" not in shell["stdout"], shell["stderr"]
    session.ask(op="reset")
    assert session.run("import cowsay")["error"]["name"] == "ModuleNotFoundError"
    # The packages of other sessions are below the same directory.
    listing = session.run("import os; os.listdir('/run/cella-packages')")
    assert listing["error"]["name"] == "PermissionError"


@pytest.fixture
def plain(open_session, tmp_path):
    """The interpreter as a plain process."""
    variables = {**index_variables(), "CELLA_STATE_DIR": str(tmp_path / "state")}
    return open_session("--executor", "inprocess", with_env=variables)


def test_plain_process_has_packages_at_once_and_after_crash_and_reset(plain):
    assert plain.value("deps.add('cowsay'); import cowsay; cowsay.__name__") == "'cowsay'"
    assert plain.run("import os; os._exit(3)")["state"] == "lost"
    assert plain.value("import cowsay; list(deps.list())") == "['cowsay']"
    plain.ask(op="reset")
    assert plain.value("import cowsay, subprocess, sys; subprocess.call([sys.executable, '-c', 'import cowsay'])") == "0"
    added = plain.run("%%bash\npip install -q inflection && python3 -c 'import inflection; print(inflection.__name__)'")
    assert added["stdout"] == "inflection\n", added
    assert plain.value("import inflection; sorted(deps.list())") == "['cowsay', 'inflection']"
    assert plain.value("deps.remove('cowsay')") == "True"
    assert plain.run("import sys; del sys.modules['cowsay']\nimport cowsay")["error"]["name"] == "ModuleNotFoundError"
