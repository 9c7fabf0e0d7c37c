"""Fixtures that the suites share."""

import hashlib

import pytest

from support import cella as driver


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
