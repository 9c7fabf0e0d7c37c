"""Hooks and fixtures that the suites share."""

import hashlib

import pytest

from support import cella as driver
from support import needs


def _fingerprint(directory):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in directory.iterdir() if path.is_file()}


@pytest.fixture(scope="session")
def cella():
    """The program under test. No guest of the whole session may have changed it or its neighbours."""
    binary = driver.program()
    if not binary.exists():
        pytest.fail(f"{binary} does not exist: build the release preset, or set CELLA_BIN", pytrace=False)
    before = _fingerprint(binary.parent)
    yield driver.Cella(binary)
    assert _fingerprint(binary.parent) == before, "a guest changed the installed programs"


MARKS = (
    "alone: compares times, or counts what the whole machine has; runs with nothing beside it",
    "as_user: depends on who runs it (limits, mounts, identity, files, security); repeated as an ordinary user",
    "needs(name): needs what tests/needs/NAME.sh starts",
)


def pytest_configure(config):
    for mark in MARKS:
        config.addinivalue_line("markers", mark)


def pytest_addoption(parser):
    parser.addoption("--shard", metavar="K/N", help="run the K-th of N parts of the selected tests")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Every N-th test, so that slow neighbours land in different shards."""
    if shard := config.getoption("--shard"):
        part, parts = map(int, shard.split("/"))
        dropped = [item for number, item in enumerate(items) if number % parts != part - 1]
        items[:] = items[part - 1 :: parts]
        config.hook.pytest_deselected(items=dropped)


def pytest_runtest_setup(item):
    for mark in item.iter_markers("needs"):
        needs.require(*mark.args)
