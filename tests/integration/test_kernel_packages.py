"""Packages of a session with an IPython kernel, without and with a jail. From the operator's index."""

import subprocess
import venv

import pytest
from server import serving
from support.cella import PYTHON, run_bounded
from support.package_index import index_variables

pytestmark = [pytest.mark.needs("network-index"), pytest.mark.needs("jupyter")]

FOUND = "import importlib.util; importlib.util.find_spec('cowsay') is not None"


@pytest.fixture(scope="module")
def variables(cella, environment, tmp_path_factory):
    """For programs, with the installer and an environment with ipykernel that are there."""
    env = {**environment, **index_variables(), "CELLA_STATE_DIR": str(tmp_path_factory.mktemp("state"))}
    words = [str(cella.binary), "run", "-e", "subprocess", "--python", PYTHON, "-c", "1"]
    made = run_bounded(words, env=env, timeout=120)
    assert made.exit_code == 0, made.describe()
    return env


@pytest.fixture
def kernel_session(open_session, variables):
    return lambda *flags, python=PYTHON: open_session(
        "--executor", "subprocess", *flags, python=python, with_env=variables
    )


@pytest.fixture(params=[[], ["--jail"]], ids=["plain", "jail"])
def flags(request):
    return request.param


WAYS = {
    "deps": "deps.add('cowsay')",
    "awaited deps": "await deps.add('cowsay')",
    "pip magic": "%pip install cowsay",
    "pip command": "name = 'cowsay'\n!pip install {name}",
    "shell script": "%%bash\npip install -q cowsay",
    "module": "import subprocess, sys; subprocess.run([sys.executable, '-m', 'pip', 'install', 'cowsay'], check=True)",
    "thread": "import threading; t = threading.Thread(target=deps.add, args=('cowsay',)); t.start(); t.join()",
}


def test_code_adds_a_package_to_its_session_alone(kernel_session, flags):
    session, other = kernel_session(*flags), kernel_session(*flags)
    for way, code in WAYS.items():
        assert session.value(FOUND) == "False", way
        result = session.run(code, timeout=100)
        assert result["status"] == "ok", (way, result)
        assert session.value("import cowsay; cowsay.__name__") == "'cowsay'", way
        assert session.value("import sys; sys.modules.pop('cowsay'); deps.remove('cowsay')") == "True", way
    session.value("deps.add('cowsay').removed")
    assert other.value(FOUND) == "False"
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import cowsay']).returncode"
    assert other.value(child) == "1"


def test_package_is_there_after_crash_and_reset_and_gone_after_removal(kernel_session, flags):
    session = kernel_session(*flags)
    assert session.value("deps.add('cowsay').added") .startswith("['cowsay==")
    assert session.run("import os; os.kill(os.getpid(), 9)")["state"] == "lost"
    assert session.value("import cowsay; cowsay.__name__") == "'cowsay'"
    session.ask(op="reset")
    assert session.value("import cowsay; list(deps.list())") == "['cowsay']"
    programs = session.run("!cowsay -t moo; python3 -c 'import cowsay; print(1)'")
    assert "moo" in programs["stdout"] and programs["stdout"].endswith("1\r\n"), programs
    assert session.run("%pip uninstall -y cowsay")["status"] == "ok"
    session.ask(op="reset")
    assert session.run("import cowsay")["error"]["name"] == "ModuleNotFoundError"


def test_failed_pip_line_is_the_cells_error_if_it_stands_alone(kernel_session, flags):
    session = kernel_session(*flags)
    for line in ("%pip install cella-no-such-package-8f3a", "# first\n!pip install cella-no-such-package-8f3a"):
        alone = session.run(line, timeout=100)
        assert alone["error"]["name"] == "DepsError" and "cella-no-such-package" in alone["stderr"], alone
    beside = session.run("%pip install -e .\nx = _exit_code", timeout=100)
    assert beside["status"] == "ok" and "-e" in beside["stderr"], beside
    assert session.value("x") == "1"


def test_version_of_the_layer_precedes_that_of_the_environment(kernel_session, flags):
    """IPython requires pygments, and its environment has the newest version."""
    session = kernel_session(*flags)
    change = session.value("c = deps.add('pygments==2.17.2'); c.needs_restart")
    assert change == "['pygments']"
    child = "import subprocess, sys; subprocess.check_output([sys.executable, '-c', 'import pygments; print(pygments.__version__)'])"
    assert session.value(child) == r"b'2.17.2\n'"
    session.ask(op="reset")
    assert session.value("1") == "1"


def test_kernels_of_a_jail_cannot_list_the_packages_of_others(kernel_session):
    session = kernel_session("--jail")
    session.value("deps.add('cowsay').removed")
    listing = session.run("import os; os.listdir('/run/cella-packages')")
    assert listing["error"]["name"] == "PermissionError"
    assert session.run("import cowsay; open(cowsay.__file__, 'w')")["error"]["name"] == "OSError"


def test_packages_stay_in_a_named_virtual_environment(kernel_session, tmp_path):
    place = tmp_path / "v"
    first = kernel_session("--venv", str(place), python=None)
    assert first.value("deps.add('cowsay'); import cowsay; cowsay.__file__").startswith(f"'{place}/lib/python")
    first.close()
    second = kernel_session("--venv", str(place), python=None)
    assert second.value("import cowsay; list(deps.list())") == "[]"
    assert "Requirement already satisfied" in second.run("%pip install cowsay")["stdout"]
    second.close()
    # As pip itself sees it.
    shown = subprocess.run([place / "bin/python", "-m", "pip", "show", "-f", "cowsay"], capture_output=True, text=True, check=True)
    assert "../../../bin/cowsay" in shown.stdout
    assert "moo" in subprocess.run([place / "bin/cowsay", "-t", "moo"], capture_output=True, text=True, check=True).stdout
    subprocess.run([place / "bin/python", "-m", "pip", "uninstall", "-y", "cowsay"], check=True, capture_output=True)
    assert not (place / "bin/cowsay").exists()


def test_session_removes_from_a_named_virtual_environment_what_it_added(kernel_session, tmp_path):
    place = tmp_path / "v"
    session = kernel_session("--venv", str(place), python=None)
    session.value("1")  # the environment is made
    before = {path.relative_to(place) for path in place.rglob("*")}
    session.value("deps.add('cowsay'); import cowsay")
    assert session.value("deps.remove('cowsay')") == "True"
    assert session.run("import sys; sys.modules.pop('cowsay', None); import cowsay")["error"]["name"] == "ModuleNotFoundError"
    assert {path.relative_to(place) for path in place.rglob("*") if "__pycache__" not in str(path)} <= before


def test_jailed_session_leaves_a_named_virtual_environment_as_it_is(kernel_session, tmp_path):
    place = tmp_path / "v"
    made = kernel_session("--venv", str(place), python=None)
    made.value("0")
    made.close()
    files = sorted(place.rglob("*"))
    jailed = kernel_session("--jail", "--venv", str(place), python=None)
    assert jailed.value("deps.add('cowsay'); import cowsay; cowsay.__file__").startswith("'/run/cella-packages/")
    assert sorted(place.rglob("*")) == files


def test_package_of_the_interpreter_is_known_where_it_is_shown(kernel_session, tmp_path):
    venv.create(tmp_path / "v", with_pip=False, symlinks=True)
    subprocess.run([PYTHON, "-m", "pip", "install", "-q", "--target", next((tmp_path / "v/lib").glob("python*/site-packages")),
                    "six==1.16.0"], check=True, env={**index_variables(), "PATH": "/usr/bin:/bin"}, capture_output=True)
    session = kernel_session("--system-packages", python=str(tmp_path / "v/bin/python"))
    assert session.value("deps.add('six').added, list(deps.list())") == "([], ['six'])"


# Over HTTP.


@pytest.fixture(scope="module")
def serve_kernels(cella, environment):
    with serving(cella, environment) as start:

        def serve(**allow):
            config = {"allow": {"executors": ["sandbox", "subprocess"], **allow}}
            return start(config=config, with_env=index_variables())

        yield serve


def test_packages_over_http(serve_kernels):
    client = serve_kernels(runtime_deps=True).client()
    for jail in (False, True):
        policy = {"executor": "subprocess", "jail": jail, "deps": ["six"], "allow_runtime_deps": True}
        made = client.post("/v1/sessions", **policy).expect(201)
        assert "deps" in made["capabilities"]
        route = f"/v1/sessions/{made['id']}"
        added = client.post(f"{route}/deps", packages=["cowsay"]).expect(200)
        assert [each["name"] for each in added["added"]] == ["cowsay"]
        run = client.post(f"{route}/runs", code="import cowsay; cowsay.__name__").expect(200)
        assert run["value"] == "'cowsay'", run
        assert client.post(f"{route}/deps/sync").expect(200)["added"][0]["name"] == "six"
        assert client.post(f"{route}/runs", code="import six; six.__name__").expect(200)["value"] == "'six'"
        assert client.ask("DELETE", f"{route}/deps/cowsay").expect(200) == {"removed": True}
        listed = client.get(f"{route}/deps").expect(200)
        assert listed["deps"] == ["six"]
        client.ask("DELETE", route)


def test_locked_session_refuses_changes_from_outside_and_inside(serve_kernels):
    client = serve_kernels(runtime_deps=True).client()
    for jail in (False, True):
        policy = {"executor": "subprocess", "jail": jail, "allow_runtime_deps": False}
        route = f"/v1/sessions/{client.post('/v1/sessions', **policy).expect(201)['id']}"
        assert client.post(f"{route}/deps", packages=["cowsay"]).status == 403
        for code in ("deps.add('cowsay')", "%pip install cowsay", "!pip install cowsay"):
            run = client.post(f"{route}/runs", code=code).expect(200)
            assert run["error"]["name"] == "DepsDisabledError", (code, run)
        child = "import subprocess, sys; subprocess.run([sys.executable, '-m', 'pip', 'install', 'cowsay'], capture_output=True).returncode"
        assert client.post(f"{route}/runs", code=child).expect(200)["value"] == "1"
        client.ask("DELETE", route)
