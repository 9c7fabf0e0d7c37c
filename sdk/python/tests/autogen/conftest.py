from __future__ import annotations

import pathlib
import secrets
import sys

import pytest

# AutoGen is not made for older ones. Everywhere else it has to be there.
if sys.version_info < (3, 10):
    collect_ignore_glob = ["test_*.py"]
else:
    from lab import KINDS, OURS, Lab

    @pytest.fixture(params=list(KINDS))
    def lab(request: pytest.FixtureRequest, work_dir: pathlib.Path) -> Lab:
        """What holds for AutoGen's executor and for both of ours."""
        return Lab(request.param, work_dir)

    @pytest.fixture(params=OURS)
    def ours(request: pytest.FixtureRequest, work_dir: pathlib.Path) -> Lab:
        """What AutoGen's executor cannot do."""
        return Lab(request.param, work_dir)

    @pytest.fixture
    def sandbox(work_dir: pathlib.Path) -> Lab:
        return Lab("sandbox", work_dir)

    @pytest.fixture
    def local(work_dir: pathlib.Path) -> Lab:
        return Lab("local", work_dir)


@pytest.fixture
def work_dir(tmp_path: pathlib.Path) -> pathlib.Path:
    directory = tmp_path / "coding"
    directory.mkdir()
    return directory


@pytest.fixture
def mark() -> str:
    """To be put among the arguments of processes, so that leftovers are found without guessing."""
    return f"mark-{secrets.token_hex(8)}"
