"""--venv with editable installs: directories that .pth files of the environment add are shown, read-only, if only root
and the caller could have written them."""

import os
import pathlib
import subprocess

import pytest
from support.cella import PYTHON

pytestmark = pytest.mark.as_user

FIND = "import project_module; print(project_module.WORD)"


@pytest.fixture
def place(tmp_path):
    tmp_path.chmod(0o755)
    return tmp_path


@pytest.fixture
def venv(place):
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", place / "venv"], check=True)
    return place / "venv"


@pytest.fixture
def source(place):
    source = place / "project" / "src"
    source.mkdir(parents=True)
    (source / "project_module.py").write_text("WORD = 'editable'\n")
    return source


def add(venv, *lines):
    (site,) = venv.glob("lib/python3*/site-packages")
    path = site / "project.pth"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_module_of_an_editable_install_is_importable_and_read_only(run, venv, source):
    add(venv, "import sys", source)
    done = run("--venv", venv, "-c", FIND)
    assert done.stdout == b"editable\n", done.describe()
    write = f"open({str(source / 'new.py')!r}, 'w')"
    refused = run("--venv", venv, "-c", write)
    assert refused.exit_code == 1 and b"OSError" in refused.stderr or b"PermissionError" in refused.stderr
    assert not (source / "new.py").exists()
    beside = run("--venv", venv, "-c", f"import os; print(os.listdir({str(source.parent)!r}))")
    assert beside.stdout in (b"['src']\n", b""), "nothing else of the project is shown"


def test_session_imports_an_editable_install(open_session, venv, source):
    add(venv, source)
    session = open_session("--venv", venv, python=None)
    assert session.value("import project_module; project_module.WORD") == "'editable'"


def test_file_that_others_may_write_counts_for_nothing(run, venv, source):
    add(venv, source).chmod(0o666)
    refused = run("--venv", venv, "-c", FIND)
    assert refused.exit_code == 1 and b"ModuleNotFoundError" in refused.stderr, refused.describe()


def test_directory_that_others_may_write_is_not_shown(run, venv, source):
    add(venv, source)
    source.chmod(0o777)
    refused = run("--venv", venv, "-c", FIND)
    assert refused.exit_code == 1 and b"ModuleNotFoundError" in refused.stderr, refused.describe()


def test_directory_of_another_user_is_not_shown(run, venv, source):
    if os.geteuid() != 0:
        pytest.skip("needs root to make one")
    add(venv, source)
    os.chown(source, 54321, 54321)
    refused = run("--venv", venv, "-c", FIND)
    assert refused.exit_code == 1 and b"ModuleNotFoundError" in refused.stderr, refused.describe()


def test_environment_that_the_guest_may_write_adds_nothing(run, place, venv, source):
    """A guest could have written the .pth file to see a directory of the caller."""
    add(venv, source)
    refused = run("--venv", venv, "--mount", f"{place}/venv:/mnt/venv:rw", "-c", FIND)
    assert b"editable" not in refused.stdout, refused.describe()


WRITE = "import glob; open(glob.glob('{place}/lib/python3*/site-packages')[0] + '/project.pth', 'w').write('{line}\\n')"


@pytest.mark.parametrize("way", ["workdir", "mount", "inside"])
def test_directory_that_an_earlier_guest_named_is_not_shown(run, place, venv, source, way):
    """The attack: one guest writes the .pth file, and the guest of the next command reads the directory."""
    show = ("--venv", venv, "-c", FIND)
    (site,) = venv.glob("lib/python3*/site-packages")
    add(venv, source)
    assert run(*show).stdout == b"editable\n", "the control: a file of the caller is believed"
    (site / "project.pth").unlink()
    flags, inside = {
        "workdir": (["--workdir", place], "venv"),
        "mount": (["--mount", f"{venv}:/data:rw"], "/data"),
        "inside": (["--mount", f"{site}:/data/lib/python3/site-packages:rw"], "/data"),
    }[way]
    written = run("--python", PYTHON, *flags, "-c", WRITE.format(place=inside, line=source))
    assert written.exit_code == 0 and (site / "project.pth").read_text() == f"{source}\n", written.describe()
    refused = run(*show)
    assert refused.exit_code == 1 and b"ModuleNotFoundError" in refused.stderr, refused.describe()
    # Also from another name of the environment.
    venv.rename(place / "renamed")
    refused = run("--venv", place / "renamed", "-c", FIND)
    assert b"editable" not in refused.stdout, refused.describe()


def test_directory_that_an_earlier_session_named_is_not_shown(run, open_session, place, venv, source):
    session = open_session("--workdir", place)
    assert session.run(WRITE.format(place="venv", line=source))["status"] == "ok"
    refused = run("--venv", venv, "-c", FIND)
    assert refused.exit_code == 1 and b"ModuleNotFoundError" in refused.stderr, refused.describe()


def test_without_a_record_of_guests_nothing_is_shown(run, place, venv, source):
    add(venv, source)
    (place / "cache").write_text("a file is in the way of the record")
    refused = run("--venv", venv, "-c", FIND, with_env={"XDG_CACHE_HOME": str(place / "cache")})
    assert b"editable" not in refused.stdout, refused.describe()


def test_home_directory_is_never_shown(run, venv, tmp_path):
    home = pathlib.Path(tmp_path / "home")
    (home / "secret").mkdir(parents=True)
    (home / "project_module.py").write_text("WORD = 'home'\n")
    add(venv, home)
    refused = run("--venv", venv, "-c", FIND, with_env={"HOME": str(home)})
    assert b"home" not in refused.stdout, refused.describe()
