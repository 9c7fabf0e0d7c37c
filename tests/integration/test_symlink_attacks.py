"""Symlinks and programs that a guest left in a host directory must not affect the next run."""

import os
import pathlib
import shutil

import pytest
from pythons import make_venv
from support.cella import PYTHON
from support.running import IS_ROOT

pytestmark = pytest.mark.as_user

# Replaces the interpreter of an environment by a program that leaves a trace on the host if it ever runs there.
PLANT = """
import os, shutil
for name in ("python", "python3"):
    path = ".venv/bin/" + name
    if os.path.lexists(path):
        os.remove(path)
    with open(path, "w") as file:
        file.write("#!/bin/sh\\ntouch {trace}\\nexec /usr/bin/python3 \\"$@\\"\\n")
    os.chmod(path, 0o755)
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "secret").write_text("secret\n")
    (tmp_path / "private" / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "private" / "tool").chmod(0o755)
    return tmp_path / "project"


@pytest.fixture
def trace(tmp_path):
    return tmp_path / "escaped"


@pytest.fixture
def planted(run, project, trace):
    """An environment in the workdir that a guest has taken over; checked to do harm if it is run."""
    venv = make_venv(PYTHON, project / ".venv")
    result = run.python(PLANT.format(trace=trace), "--workdir", project)
    assert result["status"] == "ok", result
    assert "touch" in (venv / "bin" / "python").read_text()
    os.system(str(venv / "bin" / "python") + " -c 1")
    assert trace.exists(), "the trap does not work even outside"
    trace.unlink()
    return venv


def ways(venv):
    return [
        (["--venv", venv], {}),
        (["--python", venv / "bin" / "python"], {}),
        (["--python", venv], {}),
        ([], {"VIRTUAL_ENV": str(venv)}),
        ([], {"VIRTUAL_ENV": str(venv), "PATH": f"{venv}/bin:/usr/bin:/bin"}),
        ([], {"PATH": f"{venv}/bin:/usr/bin:/bin"}),
    ]


def attempt(run, project, venv, trace):
    """Every way to name it, with the workdir and, later, without: nothing of it runs on the host."""
    for flags, env in ways(venv):
        for more in (["--workdir", project], []):
            for lang, code in (("python", "print(1)"), ("bash", "python3 -c 'print(1)'")):
                run.json("--lang", lang, "-c", code, *flags, *more, with_env=env, cwd=project)
                assert not trace.exists(), (flags, env, more, lang)


def test_environment_modified_by_a_guest_is_not_run_on_the_host(run, project, planted, trace):
    attempt(run, project, planted, trace)


def test_interpreter_named_by_a_modified_pyvenv_cfg_is_not_run_on_the_host(run, project, planted, trace):
    evil = project / "evil" / "bin"
    evil.mkdir(parents=True)
    shutil.copy(planted / "bin" / "python", evil / "python3")
    (planted / "pyvenv.cfg").write_text(f"home = {evil}\nversion = 3.11.2\n")
    attempt(run, project, planted, trace)


@pytest.mark.parametrize("posing", [False, True], ids=["bare", "as conda"])
def test_environment_without_pyvenv_cfg_is_not_run_on_the_host(run, project, planted, trace, posing):
    (planted / "pyvenv.cfg").unlink()
    if posing:
        (planted / "conda-meta").mkdir()
        (planted / "conda-meta" / "python-3.11.2-0.json").write_text("{}")
    attempt(run, project, planted, trace)


def test_environment_in_the_workdir_is_usable(run, project):
    venv = make_venv(PYTHON, project / ".venv")
    for flags, env in ways(venv):
        result = run.json(
            "-c", "import sys; print(sys.prefix)", "--workdir", project, *flags, with_env=env, cwd=project
        )
        assert result["stdout"] == f"{venv}\n", (flags, env, result)


def test_an_interpreter_in_the_workdir_runs_there(run, project):
    (project / "bin").mkdir()
    shutil.copy(PYTHON, project / "bin" / "python3")
    code = "import sys; print(sys.executable)"
    result = run.json("-c", code, "--workdir", project, "--python", project / "bin" / "python3")
    assert result["stdout"] == f"{project}/bin/python3\n", result


def test_symlinks_in_an_environment_do_not_expose_other_directories(run, project, planted):
    (planted / "bin" / "python").unlink()
    (planted / "bin" / "python").symlink_to(project.parent / "private" / "tool")
    for more in (["--workdir", project], []):
        message = run.rejected("-c", "1", "--venv", planted, *more)
        assert "does not belong to the installation" in message


def plant_link(run, project, name, target):
    result = run.python(f"import os; os.symlink({str(target)!r}, {name!r})", "--workdir", project)
    assert result["status"] == "ok" and (project / name).is_symlink(), result


def test_symlinks_made_by_a_guest_are_not_followed(run, project):
    private = project.parent / "private"
    plant_link(run, project, "cache", private)
    plant_link(run, project, "data", private / "secret")
    show = "import os; print(os.listdir('/cache'))"
    for flags in (
        ["--mount", "./cache:/cache:rw"],
        ["--mount", "./cache:/cache"],
        ["--mount", f"{project}/cache:/cache"],
        ["--mount", "./data:/cache"],
        ["--file", "./data"],
        ["--file", "./cache/secret"],
        ["--out", "./cache"],
        ["--out", "./cache/new"],
    ):
        message = run.rejected("-c", show, "--python", PYTHON, "--workdir", ".", *flags, cwd=project)
        assert "is a symbolic link in a directory that guests can write to" in message, flags
    assert sorted(os.listdir(private)) == ["secret", "tool"]


def test_symlinks_of_the_user_are_followed(run, project):
    elsewhere = project.parent / "elsewhere"
    elsewhere.symlink_to("private")
    result = run.shell("cat /cache/secret", "--workdir", project, "--mount", f"{elsewhere}:/cache")
    assert result["stdout"] == "secret\n", result


if IS_ROOT:  # no other user can give a link away

    def test_symlinks_of_other_users_are_not_followed(run, project):
        link = project.parent / "swapped"
        link.symlink_to("private")
        os.lchown(link, 12345, 12345)
        for flags in (
            ["--mount", f"{link}:/cache"],
            ["--workdir", link],
            ["--file", link / "secret"],
            ["--out", link / "new"],
        ):
            assert "symbolic link of another user" in run.rejected("-c", "1", "--python", PYTHON, *flags), flags
        assert not pathlib.Path(project.parent / "private" / "new").exists()
