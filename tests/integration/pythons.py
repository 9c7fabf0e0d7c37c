"""Interpreters of every kind, made from the distribution's: a relocated tree, a manager's shim, environments."""

import os
import pathlib
import shutil
import stat
import subprocess

from support.cella import PYTHON

# What of the standard library is linked against other libraries, and thus breaks first.
IMPORTS = "import ssl, sqlite3, ctypes, zlib, hashlib, json"


def version():
    """Of the distribution's Python, as "3.11.2" and "3.11"."""
    answer = subprocess.run(
        [PYTHON, "-c", "import platform; print(platform.python_version())"], capture_output=True, check=True
    )
    full = answer.stdout.decode().strip()
    return full, full.rpartition(".")[0]


def copy_prefix(prefix):
    """A Python that lives in `prefix` alone, as pyenv, uv and conda lay it out."""
    _, minor = version()
    real = pathlib.Path(PYTHON).resolve()
    (prefix / "bin").mkdir(parents=True)
    shutil.copy2(real, prefix / "bin" / f"python{minor}")
    (prefix / "bin" / "python3").symlink_to(f"python{minor}")
    (prefix / "bin" / "python").symlink_to("python3")
    library = (
        subprocess.run(
            [PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))"], capture_output=True, check=True
        )
        .stdout.decode()
        .strip()
    )
    shutil.copytree(
        library,
        prefix / "lib" / f"python{minor}",
        symlinks=True,
        ignore=shutil.ignore_patterns(
            "__pycache__", "test", "idlelib", "tkinter", "config-*", "pydoc_data", "sitecustomize.py"
        ),
    )
    return prefix / "bin" / f"python{minor}"


def write_script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return path


def make_venv(python, directory, *flags):
    subprocess.run(
        [python, "-m", "venv", "--without-pip", *flags, directory], check=True, env={"PATH": "/usr/bin:/bin"}
    )
    return directory


class PrivateHome:
    """A home of mode 0700 with a secret in every directory on the way to the interpreter."""

    def __init__(self, home):
        self.home = home
        self.root = home / ".pyenv"
        self.full, self.minor = version()
        self.prefix = self.root / "versions" / self.full
        self.python = copy_prefix(self.prefix)
        self.shim = write_script(
            self.root / "shims" / "python3", f'#!/bin/sh\nexec {self.python} "$@"\n'
        )
        self.venv = make_venv(self.python, home / "project" / ".venv")
        for directory in (home, self.root, self.root / "versions", home / "project"):
            (directory / "secret").write_text("private")
        os.chmod(home, 0o700)


def foreign_pythons():
    """Interpreters of version managers in the caller's own home, if there are any."""
    root = pathlib.Path(os.environ.get("PYENV_ROOT") or pathlib.Path.home() / ".pyenv") / "versions"
    try:
        found = sorted(path / "bin" / "python3" for path in root.iterdir() if path.name.startswith("3"))
    except OSError:
        return []
    return [path for path in found if path.exists()]
