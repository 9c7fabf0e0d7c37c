"""Which Python runs the code, wherever it lives, and that nothing else of its surroundings becomes visible."""

import json
import os
import pathlib
import shutil
import tempfile

import pytest
from pythons import IMPORTS, PrivateHome, foreign_pythons, make_venv, version, write_script
from support.cella import PYTHON

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
        private.calls.unlink(missing_ok=True)
        yield {
            "HOME": str(private.home),
            "PYENV_ROOT": str(private.root),
            "XDG_CACHE_HOME": cache,
            "PATH": f"{private.shim.parent}:/usr/bin:/bin",
        }


def test_the_distributions_python(run):
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


def test_a_python_below_a_private_home(run, private, at_home):
    told = portrait(run, "--python", private.python, with_env=at_home)
    assert (told["prefix"], told["base"]) == (str(private.prefix), str(private.prefix))
    # Its directory is a way to name it, too.
    assert portrait(run, "--python", private.prefix, with_env=at_home)["prefix"] == str(private.prefix)


def test_a_shim_is_seen_through(run, private, at_home):
    told = portrait(run, with_env=at_home)
    assert (told["prefix"], told["version"]) == (str(private.prefix), private.full)
    assert not told["executable"].startswith(str(private.shim.parent))
    assert private.asked() == 1


def test_an_interpreter_is_asked_once(run, private, at_home):
    for _ in range(3):
        assert run.json("-c", "print(1)", with_env=at_home)["stdout"] == "1\n"
    assert private.asked() == 1
    # Somewhere else it may stand for another version, so it is asked again; and once it has changed.
    with tempfile.TemporaryDirectory() as elsewhere:
        pathlib.Path(elsewhere, ".python-version").write_text(private.full)
        run.json("-c", "print(1)", with_env=at_home, cwd=elsewhere)
    assert private.asked() == 2
    os.utime(private.shim, ns=(1, 1))
    run.json("-c", "print(1)", with_env=at_home)
    assert private.asked() == 3


def test_a_cache_that_cannot_be_kept_is_no_obstacle(run, private, at_home):
    for cache in ("/proc/nowhere", "/dev/null/x", "relative"):
        private.calls.unlink(missing_ok=True)
        # A relative one is ignored, and the one of the home is not there either.
        home = {"HOME": "/dev/null"} if cache == "relative" else {}
        for _ in range(2):
            result = run.json("-c", "print(1)", with_env={**at_home, **home, "XDG_CACHE_HOME": cache})
            assert result["stdout"] == "1\n", result
        assert private.asked() == 2


def test_a_spoilt_cache_is_no_obstacle(run, private, at_home):
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


def test_a_virtual_environment_of_a_private_python(run, private, at_home):
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
def test_a_virtual_environment_of_the_system(run, parent, copies):
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


def test_a_shell_script_gets_the_environment_too(run, private, at_home):
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


def test_a_deleted_active_environment_is_passed_over(run):
    assert portrait(run, with_env={"VIRTUAL_ENV": "/nonexistent/venv"})["prefix"] == "/usr"


def test_every_interpreter_of_a_version_manager(run):
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


def test_a_version_is_found_among_a_managers(run, private, at_home):
    """Those of the manager are looked through before the distribution's when PATH names none."""
    _, minor = version()
    told = portrait(run, "--python", minor, with_env={**at_home, "PATH": "/usr/sbin"})
    assert (told["prefix"], told["version"]) == (str(private.prefix), private.full)


@pytest.mark.parametrize("wanted", ["3.99", "4", "3.11.99"])
def test_a_missing_version_is_refused_with_those_there_are(run, private, at_home, wanted):
    message = run.rejected("-c", "print(1)", "--python", wanted, with_env=at_home, code=127)
    full, _ = version()
    assert f"Python {wanted} was not found" in message
    assert full in message and "/usr/bin/python3" in message and str(private.prefix) in message


def test_what_is_no_python_is_refused(run, tmp_path):
    assert "nowhere" in run.rejected("-c", "1", "--python", "/nowhere/python3", code=127)
    assert "bin/python" in run.rejected("-c", "1", "--python", tmp_path, code=127)
    assert "not a virtual environment" in run.rejected("-c", "1", "--venv", tmp_path, code=127)
    assert "not found on PATH" in run.rejected("-c", "1", "--python", "snake", code=127)
    assert "/bin/true" in run.rejected("-c", "1", "--python", "/bin/true")
    liar = write_script(tmp_path / "python3", '#!/bin/sh\necho \'{"executable": "/bin/sh", "prefix": "/"}\'\n')
    assert str(liar) in run.rejected("-c", "1", "--python", liar)
    (tmp_path / "plain").write_text("")
    assert "not an executable file" in run.rejected("-c", "1", "--python", tmp_path / "plain", code=127)


def test_an_interpreter_that_does_not_answer_is_given_up(run, tmp_path):
    slow = write_script(tmp_path / "python3", "#!/bin/sh\nexec sleep 60\n")
    result = run.json("-c", "1", "--python", slow, timeout=25)
    assert (result["status"], result["exit_code"]) == ("rejected", 126)
    assert "did not answer" in result["error"]["message"]


def test_an_interpreter_that_shows_too_much_is_refused(run, tmp_path):
    """A prefix that is somebody's whole home cannot be mounted without showing it all."""
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
