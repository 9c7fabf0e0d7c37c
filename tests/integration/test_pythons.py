"""Which Python runs the code, wherever it lives, and that nothing else of its surroundings becomes visible."""

import json
import os
import pathlib
import shutil
import stat
import tempfile

import pytest
from pythons import IMPORTS, PrivateHome, foreign_pythons, make_venv, version, write_script
from support.cella import PYTHON
from support.running import IS_ROOT

# Prints who it is, and every name that it sees in the directories above its prefix.
PORTRAIT = f"""
{IMPORTS}
import os, sys
above = {{}}
for start in {{sys.prefix, sys.base_prefix}}:
    parent = os.path.dirname(start)
    while parent not in ("/", "/usr"):
        above[parent] = sorted(os.listdir(parent))
        parent = os.path.dirname(parent)
connection = sqlite3.connect("file.db")
connection.execute("create table t (x)")
print(json.dumps({{
    "executable": sys.executable, "prefix": sys.prefix, "base": sys.base_prefix, "above": above,
    "version": "%d.%d.%d" % sys.version_info[:3], "virtual_env": os.environ.get("VIRTUAL_ENV"),
    "path": os.environ["PATH"],
}}))
"""


def portrait(run, *flags, **options):
    result = run.json("-c", PORTRAIT, *flags, **options)
    assert (result["status"], result["stderr"]) == ("ok", ""), result
    told = json.loads(result["stdout"])
    assert_alone(told)
    return told


def assert_alone(told):
    """Above a prefix only the way to it (and to the other prefix) is there."""
    ways = [told["prefix"], told["base"], os.path.dirname(told["executable"])]
    for parent, names in told["above"].items():
        for name in names:
            path = os.path.join(parent, name)
            known = any((way + "/").startswith(path + "/") for way in ways)
            assert known or parent == "/dev" or path == "/var/tmp", f"{path} is visible"


@pytest.fixture(scope="module")
def private():
    """Below the caller's own home, as it is in life; /tmp is another place inside."""
    with tempfile.TemporaryDirectory(prefix=".cella-test-", dir=pathlib.Path.home()) as directory:
        yield PrivateHome(pathlib.Path(directory))


@pytest.fixture
def at_home(run, private):
    """Runs as the owner of that home would: no cache yet, the shim first on PATH."""
    with tempfile.TemporaryDirectory(prefix="cella-cache-") as cache:
        yield {
            "HOME": str(private.home),
            "PYENV_ROOT": str(private.root),
            "XDG_CACHE_HOME": cache,
            "PATH": f"{private.shim.parent}:/usr/bin:/bin",
        }


def test_distribution_python_is_used(run):
    full, minor = version()
    for flags in (
        [],
        ["--python", PYTHON],
        ["--python", minor],
        ["--python", full],
        ["--python", "python3"],
        ["--python", "3"],
    ):
        told = portrait(run, *flags)
        assert (told["prefix"], told["base"], told["version"]) == ("/usr", "/usr", full), flags
        assert told["virtual_env"] is None


def test_python_below_a_private_home_runs(run, private, at_home):
    told = portrait(run, "--python", private.python, with_env=at_home)
    assert (told["prefix"], told["base"]) == (str(private.prefix), str(private.prefix))
    # Its directory is a way to name it, too.
    assert portrait(run, "--python", private.prefix, with_env=at_home)["prefix"] == str(private.prefix)


def test_shim_is_resolved_to_its_interpreter(run, private, at_home):
    told = portrait(run, with_env=at_home)
    assert (told["prefix"], told["version"]) == (str(private.prefix), private.full)
    assert not told["executable"].startswith(str(private.shim.parent))


def test_interpreter_is_queried_once(run, private, at_home):
    def ask(**options):
        """Whether the answer was a new one, which is then remembered in a new file."""
        before = {(path, path.stat().st_ino) for path in pathlib.Path(at_home["XDG_CACHE_HOME"]).rglob("*.json")}
        assert run.json("-c", "print(1)", with_env=at_home, **options)["stdout"] == "1\n"
        return before != {(path, path.stat().st_ino) for path in pathlib.Path(at_home["XDG_CACHE_HOME"]).rglob("*.json")}

    assert [ask(), ask(), ask()] == [True, False, False]
    # Somewhere else it may stand for another version, so it is asked again; and once it has changed.
    with tempfile.TemporaryDirectory() as elsewhere:
        pathlib.Path(elsewhere, ".python-version").write_text(private.full)
        assert [ask(cwd=elsewhere), ask(cwd=elsewhere)] == [True, False]
    os.utime(private.shim, ns=(1, 1))
    assert [ask(), ask()] == [True, False]


def test_unwritable_cache_is_ignored(run, private, at_home):
    for cache in ("/proc/nowhere", "/dev/null/x"):
        for _ in range(2):
            result = run.json("-c", "print(1)", with_env={**at_home, "XDG_CACHE_HOME": cache})
            assert result["stdout"] == "1\n", result


@pytest.mark.parametrize("value", [None, "/dev/null", "/nonexistent"])
def test_without_a_home_answers_are_kept_in_the_state_directory(run, tmp_path, value):
    environment = {name: value for name, value in run.environment.items() if name != "HOME"}
    environment |= {"HOME": value} if value else {}
    # A relative one is ignored.
    environment |= {"XDG_CACHE_HOME": "relative", "XDG_STATE_HOME": str(tmp_path / "state")}
    for _ in range(2):
        assert run.json("-c", "print(1)", env=environment)["stdout"] == "1\n"
    file = tmp_path / "state" / "cella" / "answers.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert not pathlib.Path("relative").exists()


def test_corrupt_cache_is_ignored(run, private, at_home):
    run.json("-c", "print(1)", with_env=at_home)
    (cache,) = pathlib.Path(at_home["XDG_CACHE_HOME"]).rglob("*.json")
    good = cache.read_bytes()
    for spoilt in (
        b"",
        b"{",
        good[: len(good) // 2],
        b"\xff" * 100,
        good.replace(b'"/', b'"'),
        b"[]",
        b"0" * (1 << 20),
    ):
        cache.write_bytes(spoilt)
        assert run.json("-c", "print(1)", with_env=at_home)["stdout"] == "1\n"


def test_virtual_environment_of_a_private_python_runs(run, private, at_home):
    for flags, env in [
        (["--venv", private.venv], {}),
        (["--python", private.venv / "bin" / "python"], {}),
        ([], {"VIRTUAL_ENV": str(private.venv)}),
    ]:
        told = portrait(run, *flags, with_env={**at_home, **env})
        assert (told["prefix"], told["base"]) == (str(private.venv), str(private.prefix)), flags
        assert told["virtual_env"] == str(private.venv)
        assert told["path"].startswith(str(private.venv / "bin") + ":")


@pytest.mark.parametrize("parent", ["/tmp", "/var/tmp", pathlib.Path.home()], ids=str)
@pytest.mark.parametrize("copies", [[], ["--copies"]], ids=["links", "copies"])
def test_virtual_environment_of_the_system_python_runs(run, parent, copies):
    with tempfile.TemporaryDirectory(prefix="cella-venv-", dir=parent) as directory:
        venv = make_venv(PYTHON, pathlib.Path(directory) / "venv", *copies)
        _, minor = version()
        package = venv / "lib" / f"python{minor}" / "site-packages" / "only_here.py"
        package.write_text("answer = 42")
        (venv.parent / "secret").write_text("private")
        told = portrait(run, "--venv", venv)
        assert (told["prefix"], told["base"], told["virtual_env"]) == (str(venv), "/usr", str(venv))
        assert run.json("-c", "import only_here; print(only_here.answer)", "--venv", venv)["stdout"] == "42\n"
        assert run.json("-c", "import only_here", "--python", PYTHON)["status"] == "error"
        # It is there to be used, not to be changed.
        denied = run.json("-c", f"open({str(package)!r}, 'w')", "--venv", venv)
        assert denied["status"] == "error" and "Error: [Errno" in denied["stderr"]
        # By a relative name, and as the environment that is active.
        assert portrait(run, "--venv", "venv", cwd=directory)["prefix"] == str(venv)
        assert portrait(run, with_env={"VIRTUAL_ENV": str(venv)})["prefix"] == str(venv)
        # What was asked for by name is stronger than what is active.
        assert portrait(run, "--python", PYTHON, with_env={"VIRTUAL_ENV": str(venv)})["prefix"] == "/usr"


def test_shell_script_uses_the_virtual_environment(run, private, at_home):
    result = run.json(
        "--lang",
        "bash",
        "-c",
        "python -c 'import sys; print(sys.prefix)'; echo $VIRTUAL_ENV",
        "--venv",
        private.venv,
        with_env=at_home,
    )
    assert result["stdout"] == f"{private.venv}\n{private.venv}\n", result


def test_deleted_active_environment_is_ignored(run):
    assert portrait(run, with_env={"VIRTUAL_ENV": "/nonexistent/venv"})["prefix"] == "/usr"


def test_every_interpreter_of_a_version_manager_runs(run):
    """Those of the machine, where there are any: by path, and by version if it is the newest of its kind."""
    for python in foreign_pythons():
        home = {"HOME": str(pathlib.Path.home()), "XDG_CACHE_HOME": run.environment["HOME"] + "/cache"}
        result = run.json(
            "-c", "import ssl, sqlite3, ctypes, sys; print(sys.prefix)", "--python", python, with_env=home
        )
        assert result["stdout"] == f"{python.parents[1]}\n", result
        hidden = run.json(
            "-c", f"import os; print(os.listdir({str(pathlib.Path.home())!r}))", "--python", python, with_env=home
        )
        assert hidden["stdout"] == f"{[python.relative_to(pathlib.Path.home()).parts[0]]}\n", hidden


def test_version_is_found_in_a_version_manager(run, private, at_home):
    """Those of the manager are looked through before the distribution's when PATH names none."""
    _, minor = version()
    told = portrait(run, "--python", minor, with_env={**at_home, "PATH": "/usr/sbin"})
    assert (told["prefix"], told["version"]) == (str(private.prefix), private.full)


@pytest.mark.parametrize("wanted", ["3.99", "4", "3.11.99"])
def test_missing_version_error_lists_installed_versions(run, private, at_home, wanted):
    message = run.rejected("-c", "print(1)", "--python", wanted, with_env=at_home, code=127)
    full, _ = version()
    assert f"Python {wanted} was not found" in message
    assert full in message and "/usr/bin/python3" in message and str(private.prefix) in message


def test_rejects_program_that_is_not_python(run, tmp_path):
    assert "nowhere" in run.rejected("-c", "1", "--python", "/nowhere/python3", code=127)
    assert "bin/python" in run.rejected("-c", "1", "--python", tmp_path, code=127)
    assert "not a virtual environment" in run.rejected("-c", "1", "--venv", tmp_path, code=127)
    assert "not found on PATH" in run.rejected("-c", "1", "--python", "snake", code=127)
    assert "/bin/true" in run.rejected("-c", "1", "--python", "/bin/true")
    liar = write_script(tmp_path / "python3", '#!/bin/sh\necho \'{"executable": "/bin/sh", "prefix": "/"}\'\n')
    assert str(liar) in run.rejected("-c", "1", "--python", liar)
    (tmp_path / "plain").write_text("")
    assert "not an executable file" in run.rejected("-c", "1", "--python", tmp_path / "plain", code=127)


def test_rejects_interpreter_that_does_not_answer(run, tmp_path):
    slow = write_script(tmp_path / "slow" / "python3", "#!/bin/sh\nexec sleep 60\n")
    result = run.json("-c", "1", "--python", slow, timeout=25)
    assert (result["status"], result["exit_code"]) == ("rejected", 126)
    assert "did not answer" in result["error"]["message"]


def test_rejects_interpreter_whose_prefix_exposes_too_much(run, tmp_path):
    """A prefix that is a user's whole home cannot be mounted without showing it all."""
    home = tmp_path / "home"
    shutil.copytree("/usr/lib/python3", home / "lib" / f"python{version()[1]}", ignore=lambda *_: ["dist-packages"])
    liar = write_script(
        home / "bin" / "python3",
        "#!/bin/sh\necho '"
        + json.dumps(
            {
                "executable": str(home / "bin" / "python3"),
                "version": version()[0],
                **{name: str(home) for name in ("prefix", "base_prefix", "exec_prefix", "base_exec_prefix")},
            }
        )
        + "'\n",
    )
    message = run.rejected("-c", "1", "--python", liar, with_env={"HOME": str(home)})
    assert str(home) in message and "show all of" in message


@pytest.mark.as_user
def test_venv_that_its_owner_keeps_to_himself(run, tmp_path):
    """Started by root, the guest is another user."""
    venv = make_venv(PYTHON, tmp_path / "venv")
    os.chmod(venv, 0o700)
    code = f"import os, sys; print(sys.prefix); os.chmod({str(venv)!r}, 0o777)"
    result = run.json("--venv", venv, "-c", code)
    assert result["stdout"] == f"{venv}\n" and "Read-only file system" in result["stderr"], result
    assert stat.S_IMODE(os.stat(venv).st_mode) == 0o700


@pytest.mark.skipif(not IS_ROOT, reason="the guests of an ordinary user are that user")
def test_private_directory_that_a_planted_venv_leads_to_stays_private(run, tmp_path):
    """A guest may have written the pyvenv.cfg of the environment that is named, but not chosen what its owner hides."""
    private = make_venv(PYTHON, tmp_path / "private")
    (private / "secret").write_text("hidden")
    os.chmod(private, 0o700)
    venv = make_venv(PYTHON, tmp_path / "venv")
    (venv / "pyvenv.cfg").write_text(f"home = {private}/bin\nversion = {version()[0]}\n")
    (venv / "bin/python").unlink()
    (venv / "bin/python").symlink_to(private / "bin/python")
    result = run.json("--venv", venv, "--lang", "bash", "-c", f"cat {private}/secret; echo done")
    assert "hidden" not in result["stdout"], result


def test_python_is_the_chosen_interpreter_under_its_short_name_too(run):
    """The distribution has only python3."""
    code = "import subprocess; print(subprocess.check_output(['python', '-c', 'import sys; print(sys.version)'], text=True))"
    told = run.python(code)["stdout"].strip()
    assert told == run.python("import sys; print(sys.version)")["stdout"].strip() and told.startswith(version()[0])
