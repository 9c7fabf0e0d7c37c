"""The wheel of the programs under test, made once, and what it is made with."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

PROJECT = pathlib.Path(__file__).resolve().parents[2]
REPOSITORY = PROJECT.parents[1]  # Tests of the folder above import it too: all of these files are one name to Python.


@pytest.fixture(scope="session")
def install_tree(tmp_path_factory):
    """That of CELLA_BIN. In a build tree all lies in one folder, and is put where an install puts it."""
    programs = pathlib.Path(os.environ["CELLA_BIN"]).resolve().parent
    if (programs.parent / "libexec" / "cella" / "cella-launch").is_file():
        return programs.parent
    prefix = tmp_path_factory.mktemp("prefix")
    for name, place in (("cella", "bin"), ("cella-launch", "libexec/cella"), ("languages.toml", "share/cella")):
        (prefix / place).mkdir(parents=True, exist_ok=True)
        shutil.copy(programs / name, prefix / place)
    shutil.copytree(programs / "runners", prefix / "libexec/cella/runners")
    (prefix / "libexec/cella/runners/libcella_fork.so").chmod(0o644)  # as an install has it
    return prefix


@pytest.fixture(scope="session")
def tools_directory(tmp_path_factory):
    """Where make_wheel.py keeps its tools: in the checkout if it can be written, so that they are fetched once."""
    if os.access(REPOSITORY, os.W_OK):
        return REPOSITORY / "build" / "wheel-tools"
    return tmp_path_factory.mktemp("tools") / "wheel-tools"


@pytest.fixture(scope="session")
def make_wheel(tools_directory):
    """make_wheel.py, which answers (exit code, what it printed, what it complained about)."""

    def make(prefix, target):
        command = [sys.executable, PROJECT / "tools/make_wheel.py"]
        words = ["--prefix", prefix, "--tools", tools_directory, target]
        done = subprocess.run(list(map(str, command + words)), capture_output=True, text=True, timeout=300, check=False)
        return done.returncode, done.stdout, done.stderr

    return make


@pytest.fixture(scope="session")
def wheel(make_wheel, install_tree, tmp_path_factory):
    code, printed, complaints = make_wheel(install_tree, tmp_path_factory.mktemp("dist"))
    assert code == 0, complaints
    return pathlib.Path(printed.strip())


@pytest.fixture(scope="session")
def tools(wheel, tools_directory):
    """The programs of that environment, which is ready when there is a wheel."""
    return tools_directory / "bin"
