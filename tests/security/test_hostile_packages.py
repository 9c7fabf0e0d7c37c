"""Packages that attack the installer. Each first succeeds against a plain installer on the host."""

import subprocess

import pytest
from support.cella import PYTHON, run_bounded
from support.needs import require
from support.package_index import index_variables
from support.wheels import make_wheel

pytestmark = [pytest.mark.needs("network-index"), pytest.mark.as_user]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A state directory and a directory with packages."""
    place = tmp_path_factory.mktemp("packages")
    (place / "links").mkdir()
    return place


@pytest.fixture(scope="module")
def variables(place, tmp_path_factory):
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path_factory.mktemp("home")), **index_variables(),
        "CELLA_STATE_DIR": str(place / "state"), "UV_FIND_LINKS": str(place / "links"),
    }


def install_on_the_host(place, name, *flags):
    """The control: a virtual environment, as a plain installer makes it."""
    venv = place / f"venv-{name}"
    python = require("network-index")["INDEX_PYTHON"]
    subprocess.run([python, "-m", "venv", venv], check=True)
    pip = [venv / "bin/python", "-m", "pip", "install", "--quiet", "--no-index", "--find-links", place / "links", *flags, name]
    return venv, subprocess.run(pip, capture_output=True, text=True)


def run_with(cella, variables, name, code):
    argv = [str(cella.binary), "run", "--with", name, "--python", PYTHON, "-c", code]
    return run_bounded(argv, env=variables, timeout=120)


def test_wheel_that_replaces_pyvenv_cfg_is_refused(cella, place, variables):
    make_wheel(place / "links", "evil_config", {"evil_config-1.0.data/data/pyvenv.cfg": "home = /evil\n"})
    venv, _ = install_on_the_host(place, "evil_config")
    assert "/evil" in (venv / "pyvenv.cfg").read_text(), "control"
    refused = run_with(cella, variables, "evil-config", "print('ran')")
    assert refused.exit_code == 126 and b"pyvenv.cfg" in refused.stderr, refused.describe()
    assert refused.stdout == b""


def test_wheel_that_replaces_a_file_of_another_package_is_refused(cella, place, variables):
    make_wheel(place / "links", "victim", {"victim.py": "who = 'victim'\n"})
    make_wheel(place / "links", "thief", {"victim.py": "who = 'thief'\n"})
    venv, _ = install_on_the_host(place, "victim")
    subprocess.run(
        [venv / "bin/python", "-m", "pip", "install", "-q", "--no-index", "-f", place / "links", "thief"], check=True
    )
    assert "thief" in subprocess.run([venv / "bin/python", "-c", "import victim; print(victim.who)"], capture_output=True,
                                     text=True).stdout, "control"
    argv = [str(cella.binary), "run", "--with", "victim", "--with", "thief", "--python", PYTHON, "-c", "print('ran')"]
    refused = run_bounded(argv, env=variables, timeout=120)
    assert refused.exit_code == 126 and b"victim.py" in refused.stderr, refused.describe()


def test_path_file_does_not_run_where_the_cache_is(cella, place, variables):
    marker = place / "state" / "environments" / "work" / "cache" / "poisoned"
    own = place / "poisoned"
    attack = f"import os; [open(p, 'w').close() for p in ({str(own)!r}, {str(marker)!r}) if os.path.isdir(os.path.dirname(p))]"
    make_wheel(place / "links", "evil_path", {"evil_path.pth": attack + "\n", "evil_path.py": ""})
    venv, _ = install_on_the_host(place, "evil_path")
    subprocess.run([venv / "bin/python", "-c", ""], capture_output=True)
    assert own.exists(), "control"
    own.unlink()
    marker.unlink(missing_ok=True)
    done = run_with(cella, variables, "evil-path", "import evil_path, os; print(os.path.exists(%r))" % str(marker.parent))
    assert done.stdout == b"False\n", done.describe()
    assert not marker.exists() and not own.exists()
