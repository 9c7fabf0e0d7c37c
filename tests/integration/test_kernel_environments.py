"""The Python of a kernel: a fresh environment of its own, a named one, or that of an interpreter which has ipykernel."""

import json
import os
import stat
import subprocess
import sys
import venv

import pytest
from support.cella import PYTHON, run_bounded
from support.package_index import index_variables

pytestmark = [pytest.mark.needs("network-index"), pytest.mark.needs("jupyter")]

UNREACHABLE = {
    "PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0", "PIP_DEFAULT_TIMEOUT": "1", "UV_HTTP_RETRIES": "0",
}


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def with_index(cella, environment, state):
    """Variables for programs, and an environment with ipykernel that is there."""
    env = {**environment, **index_variables(), "CELLA_STATE_DIR": str(state)}
    assert cell(cella, env, "--python", PYTHON)[0].exit_code == 0
    return env


@pytest.fixture
def without_index(environment, tmp_path):
    return {**environment, **UNREACHABLE, "CELLA_STATE_DIR": str(tmp_path / "no-index")}


@pytest.fixture
def kernel_session(open_session, with_index):
    def start(*flags, python=PYTHON, with_env=None, **options):
        env = {**with_index, **(with_env or {})}
        return open_session("--executor", "subprocess", *flags, python=python, with_env=env, **options)

    return start


def value(session, code, **options):
    result = session.run(code, **options)
    assert result["status"] == "ok", result
    return eval(result["value"])  # noqa: S307: of our own code


def cell(cella, env, *flags, code="1"):
    ended = run_bounded([str(cella.binary), "run", "-e", "subprocess", *map(str, flags), "--json", "-c", code], env=env, timeout=120)
    return ended, json.loads(ended.stdout)


PLACE = "import sys, os, ipykernel; (sys.prefix, sys.base_prefix, sys.executable, next(p for p in os.environ['PATH'].split(':') if os.path.exists(p + '/python')))"


def test_each_session_has_a_fresh_environment_that_is_removed(kernel_session):
    first, second = kernel_session(), kernel_session()
    prefix, base, executable, path = value(first, PLACE)
    assert prefix != base and executable == f"{prefix}/bin/python" and path == f"{prefix}/bin"
    assert value(second, "import sys; sys.prefix") != prefix
    assert first.run("1")["isolation"]["start"].startswith("exec: ipykernel in a fresh environment of '/")
    files = sum(len(names) for _, _, names in os.walk(prefix))
    assert files < 12
    first.close()
    assert not os.path.exists(prefix)


def test_packages_of_the_interpreter_are_not_seen_unless_asked_for(kernel_session, tmp_path):
    """The interpreter of a virtual environment chooses the Python, and not the packages."""
    venv.create(tmp_path / "v", with_pip=False, symlinks=True)
    site = next((tmp_path / "v/lib").glob("python*/site-packages"))
    (site / "only_here.py").write_text("x = 1\n")
    python = str(tmp_path / "v/bin/python")
    assert kernel_session(python=python).run("import only_here")["status"] == "error"
    seeing = kernel_session("--system-packages", python=python)
    assert value(seeing, "import only_here, ipykernel, sys; (only_here.__file__, sys.prefix)")[0].startswith(str(site))
    assert value(seeing, "sys.prefix") != str(tmp_path / "v")


def test_pip_of_a_single_run_installs_into_its_own_environment(cella, with_index):
    """What !pip and %pip install belongs to this run, and not to the interpreter or another one."""
    variables = {name: text for name, text in index_variables().items() if name.startswith("PIP_")}
    flags = [word for name, text in variables.items() for word in ("--env", f"{name}={text}")]
    for line in ("!pip install --quiet cowsay", "%pip install --quiet cowsay"):
        code = f"{line}\nimport cowsay, sys\ncowsay.__file__.startswith(sys.prefix)"
        ended, result = cell(cella, with_index, *flags, code=code)
        assert (ended.exit_code, result["value"]) == (0, "True"), result
    ended, result = cell(cella, with_index, code="import cowsay")
    assert result["error"]["name"] == "ModuleNotFoundError"


def test_packages_of_the_run_are_there_beside_ipykernel(cella, with_index):
    ended, result = cell(cella, with_index, "--with", "six==1.16.0", code="import six, ipykernel; six.__version__")
    assert (ended.exit_code, result["value"]) == (0, "'1.16.0'"), result
    assert "fresh environment" in result["isolation"]["start"]


def test_jailed_kernel_uses_a_cached_environment(kernel_session):
    session = kernel_session("--jail")
    result = session.run("import ipykernel, sys; sys.prefix != sys.base_prefix")
    assert result["value"] == "True" and "cached environment" in result["isolation"]["start"]
    assert session.run("import sys; open(sys.prefix + '/x', 'w')")["error"]["name"] == "OSError"


def test_without_an_index_the_interpreters_own_ipykernel_is_used_and_said(cella, without_index, jupyter_python):
    ended, result = cell(cella, without_index, "--python", jupyter_python, code="import sys; sys.prefix")
    assert ended.exit_code == 0, ended.describe()
    start = result["isolation"]["start"]
    assert f"the ipykernel of '{jupyter_python}' (" in start and "fresh environment" in start
    assert result["value"] != repr(os.path.dirname(os.path.dirname(jupyter_python)))


def test_without_an_index_and_ipykernel_the_command_is_named(cella, without_index, tmp_path):
    venv.create(tmp_path / "v", with_pip=False, symlinks=True)
    ended, result = cell(cella, without_index, "--python", tmp_path / "v/bin/python")
    assert ended.exit_code == 127
    assert "-m pip install ipykernel" in result["error"]["message"]


@pytest.fixture(scope="module")
def jupyter_python():
    from support.needs import require

    return require("jupyter")["JUPYTER_PYTHON"]


def test_missing_venv_is_made_kept_and_used_again(cella, with_index, tmp_path):
    place = tmp_path / "below" / "v"
    ended, result = cell(cella, with_index, "--venv", place, code="import sys; sys.prefix")
    assert (ended.exit_code, result["value"]) == (0, repr(str(place))), ended.describe()
    assert result["isolation"]["start"] == f"exec: ipykernel of the virtual environment '{place}'"
    made = (place / "pyvenv.cfg").stat()
    pip = subprocess.run([place / "bin/pip", "--version"], capture_output=True, text=True, check=True)
    assert str(place) in pip.stdout
    mark = next(place.glob("lib/python*/site-packages")) / "left_here.py"
    mark.write_text("x = 7\n")
    assert cell(cella, with_index, "--venv", place, code="import left_here; left_here.x")[1]["value"] == "7"
    assert (place / "pyvenv.cfg").stat() == made
    assert stat.S_IMODE(place.stat().st_mode) & 0o700 == 0o700 and sorted(os.listdir(place.parent)) == ["v"]


def test_missing_venv_cannot_be_made_without_an_index(cella, without_index, tmp_path):
    ended, result = cell(cella, without_index, "--venv", tmp_path / "v")
    assert ended.exit_code == 126 and "does not exist, and cannot be made" in result["error"]["message"]
    assert not (tmp_path / "v").exists()


def test_directory_that_is_no_venv_is_refused(cella, with_index, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d/file").write_text("x")
    ended, result = cell(cella, with_index, "--venv", tmp_path / "d")
    assert ended.exit_code == 127 and "is not a virtual environment" in result["error"]["message"]
    assert os.listdir(tmp_path / "d") == ["file"]


def test_venv_of_another_version_is_refused(cella, with_index, tmp_path):
    venv.create(tmp_path / "v", with_pip=False, symlinks=True)
    has = f"{sys.version_info[0]}.{sys.version_info[1]}"
    ended, result = cell(cella, with_index, "--venv", tmp_path / "v", "--python", "3.7")
    assert ended.exit_code == 126
    assert f"has Python {has}" in result["error"]["message"] and "not 3.7" in result["error"]["message"]


def test_python_version_that_the_machine_lacks_is_refused(cella, with_index):
    for flags in ((), ("--jail",), ("--system-packages",)):
        ended, result = cell(cella, with_index, *flags, "--python", "3.77")
        assert ended.exit_code in (126, 127) and "3.77" in result["error"]["message"], result


def test_ipykernel_is_added_to_a_venv_that_lacks_it(cella, with_index, tmp_path):
    venv.create(tmp_path / "v", with_pip=False, symlinks=True)
    ended, result = cell(cella, with_index, "--venv", tmp_path / "v", code="import ipykernel, sys; sys.prefix")
    assert (ended.exit_code, result["value"]) == (0, repr(str(tmp_path / "v"))), ended.describe()
    site = next((tmp_path / "v/lib").glob("python*/site-packages"))
    assert list(site.glob("ipykernel-*.dist-info"))


def test_venv_without_ipykernel_is_refused_where_it_cannot_be_added(cella, without_index, tmp_path):
    venv.create(tmp_path / "v", with_pip=False, symlinks=True)
    ended, result = cell(cella, without_index, "--venv", tmp_path / "v")
    assert ended.exit_code in (126, 127) and "has no ipykernel" in result["error"]["message"]
    site = next((tmp_path / "v/lib").glob("python*/site-packages"))
    assert not list(site.glob("ipykernel*"))
