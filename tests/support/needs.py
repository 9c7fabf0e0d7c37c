"""What a test needs beyond the build: a Docker engine, Jupyter, a package index. One script of tests/needs/ each.

A test declares `@pytest.mark.needs("docker")`. ctest starts every need that a selected test declares, once, and stops it
after the last one. By hand: `tests/needs/docker.sh start build/needs`, and `stop` afterwards.
"""

import os
import pathlib

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
MUST_RUN = os.environ.get("CELLA_TESTS_MUST_RUN") == "1"


def _folder():
    return pathlib.Path(os.environ.get("CELLA_TEST_NEEDS") or REPOSITORY / "build/needs")


def require(name):
    """The settings of a need. Where the machine lacks it the test is skipped, or fails if tests must run."""
    settings, missing = _folder() / f"{name}.env", _folder() / f"{name}.missing"
    if settings.exists():
        return dict(line.split("=", 1) for line in settings.read_text().splitlines())
    reason = missing.read_text().strip() if missing.exists() else f"run 'tests/needs/{name}.sh start {_folder()}' first"
    if MUST_RUN:
        pytest.fail(f"needs {name}: {reason}", pytrace=False)
    pytest.skip(f"needs {name}: {reason}")
