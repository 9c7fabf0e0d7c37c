"""Gives every test the program in surroundings of its own."""

import contextlib
import pathlib
import secrets
import tempfile

import pytest
from support.leftovers import mounts
from support.repl import Repl
from support.running import Run


@pytest.fixture(scope="session")
def home():
    """A private home, the same for all: what cella remembers of interpreters stays there."""
    with tempfile.TemporaryDirectory(prefix="cella-home-") as directory:
        yield pathlib.Path(directory)


@pytest.fixture(scope="session")
def environment(home):
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}


@pytest.fixture(scope="session")
def run(cella, environment):
    return Run(cella, environment)


@pytest.fixture
def open_session(cella, environment):
    """`cella repl --json` with these flags. One that the test does not end is closed after it; nothing may stay."""
    before = mounts()
    with contextlib.ExitStack() as sessions:

        def start(*flags, with_env=None, **options):
            env = {**environment, **(with_env or {})}
            return sessions.enter_context(Repl(cella.binary, *flags, env=env, **options))

        yield start
    assert mounts() == before


@pytest.fixture
def tmp_path():
    """As pytest's own, but gone after the test, and below no directory that others have to pass."""
    with tempfile.TemporaryDirectory(prefix="cella-test-") as directory:
        yield pathlib.Path(directory)


@pytest.fixture
def token():
    """Unique digits: an argument that marks processes, also as the fraction of a `sleep`."""
    return "".join(secrets.choice("123456789") for _ in range(12))
