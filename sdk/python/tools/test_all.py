#!/usr/bin/env python3
"""Tests the package with every Python that there is, each in a fresh environment, and as an ordinary user.

    test_all.py [--python PATH]... [--as-user] [PYTEST ARGUMENTS]
    test_all.py --user-with-autogen FILE...

Without --python: python3.9 to python3.13 of pyenv, uv and PATH. CELLA_BIN names the program, else the release build.
--as-user runs the tests once more as an ordinary user, with the system's Python.
--user-with-autogen runs these files of tests/autogen as an ordinary user, with the packages of the interpreter that
runs this script.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile

PROJECT = pathlib.Path(__file__).resolve().parents[1]
REPOSITORY = PROJECT.parents[1]
VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13")
SYSTEM_PYTHON = "/usr/bin/python3"


def find_pythons():
    """One interpreter for each version, by what it says of itself: shims lead anywhere."""
    home = pathlib.Path.home()
    found = {}
    for version in VERSIONS:
        places = [
            *sorted(home.glob(f".pyenv/versions/{version}.*/bin/python{version}")),
            *sorted(home.glob(f".local/share/uv/python/cpython-{version}.*/bin/python{version}")),
            shutil.which(f"python{version}"),
        ]
        for place in filter(None, places):
            code = "import sys; print('%d.%d' % sys.version_info[:2])"
            asked = subprocess.run([place, "-c", code], capture_output=True, text=True, check=False)
            if asked.stdout.strip() == version:
                found[version] = str(place)
                break
    return found


def test_with(python, words):
    with tempfile.TemporaryDirectory(prefix="cella-test-all-") as directory:
        # Not the directory itself, which is private: guests of root are others than root.
        subprocess.run([python, "-m", "venv", f"{directory}/venv"], check=True)
        own = f"{directory}/venv/bin/python"
        # As users install it: what the tests import is the package, not the source tree.
        subprocess.run([own, "-m", "pip", "install", "-q", str(PROJECT), "pytest"], check=True)
        command = [own, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--ignore", "tests/autogen", *words]
        return subprocess.run(command, cwd=PROJECT, check=False).returncode == 0


def test_as_user(words, packages=None):
    """Only what the tests read is laid out for the user, since the repository may lie below a private directory.
    `packages`: of an environment, for the tests that `words` name below tests/autogen."""
    with tempfile.TemporaryDirectory(prefix="cella-test-all-") as directory:
        tree = pathlib.Path(directory) / "tree"
        for part in ("sdk/python", "tests"):
            shutil.copytree(REPOSITORY / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
        (tree / "docs").mkdir()
        shutil.copy(REPOSITORY / "docs/python.md", tree / "docs")
        shutil.copy(REPOSITORY / "README.md", tree)
        programs = pathlib.Path(os.environ.get("CELLA_BIN") or REPOSITORY / "build/release/bin/cella").parent
        tests, path = "{tests}/sdk/python/tests", "{tests}/sdk/python/src"
        wanted = [tests, "--ignore", f"{tests}/autogen"]
        if packages is not None:
            shutil.copytree(packages, tree / "packages", ignore=shutil.ignore_patterns("__pycache__"))
            path, wanted = f"{path}:{{tests}}/packages", []
            words = [f"{tests}/autogen/{word}" for word in words]
        command = [
            SYSTEM_PYTHON, REPOSITORY / "tests/support/as_user.py", "--programs", programs, "--tests", tree, "--",
            "env", f"PYTHONPATH={path}", "PYTHONDONTWRITEBYTECODE=1",
            SYSTEM_PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider",
            "-c", "{tests}/sdk/python/pyproject.toml", "--rootdir", "{tests}/sdk/python",
            *wanted, *words,
        ]
        return subprocess.run(list(map(str, command)), check=False).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", help="an interpreter to test with (repeatable)")
    parser.add_argument("--as-user", action="store_true", help="also as an ordinary user")
    parser.add_argument("--user-with-autogen", action="store_true", help="only these files of tests/autogen")
    options, words = parser.parse_known_args()
    if options.user_with_autogen:
        return 0 if test_as_user(words, sysconfig.get_path("purelib")) else 1
    pythons = {path: path for path in options.python} if options.python else find_pythons()
    if not pythons:
        parser.error(f"none of Python {', '.join(VERSIONS)} was found: name one with --python")
    outcomes = {}
    for name, python in pythons.items():
        print(f"== {name}: {python}", flush=True)
        outcomes[name] = test_with(python, words)
    if options.as_user:
        print("== as an ordinary user", flush=True)
        outcomes["as an ordinary user"] = test_as_user(words)
    for name, passed in outcomes.items():
        print(f"{name}: {'passed' if passed else 'FAILED'}")
    return 0 if all(outcomes.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
