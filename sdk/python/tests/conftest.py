"""The package as people use it, on a real server with real jails. Most tests run with both twins."""

import asyncio
import os
import pathlib
import secrets
import sys
import tempfile

import pytest

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[2]
sys.path[:0] = [str(HERE), str(REPOSITORY / "tests")]

from support import fixtures  # noqa: E402
from support.fixtures import pytest_addoption, pytest_collection_modifyitems  # noqa: E402, F401 (hooks)
from support.leftovers import mounts  # noqa: E402


def pytest_configure(config):
    fixtures.pytest_configure(config)
    built = REPOSITORY / "build/release/bin/cella"
    os.environ.setdefault("CELLA_BIN", str(built))
    if not os.access(os.environ["CELLA_BIN"], os.X_OK):
        pytest.exit(f"{os.environ['CELLA_BIN']} is no program: build the release preset, or set CELLA_BIN", 2)
    # Cases that end badly must not wait for the machine's own limits.
    config.addinivalue_line("markers", "slow: takes seconds")


class Asynchronous:
    """`wait` turns what the package answers into values."""

    name = "async"

    def __init__(self):
        import cella

        self.api = cella
        self.loop = asyncio.new_event_loop()

    def wait(self, awaitable):
        return self.loop.run_until_complete(awaitable)

    def each(self, stream):
        """The elements of an asynchronous iterator, as they come."""
        iterator = stream.__aiter__()

        async def following():
            return await iterator.__anext__()

        while True:
            try:
                yield self.wait(following())
            except StopAsyncIteration:
                return

    def close(self, resource):
        self.wait(resource.aclose())

    def end(self):
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()


class Synchronous:
    name = "sync"

    def __init__(self):
        import cella.sync

        self.api = cella.sync

    def wait(self, value):
        return value

    def each(self, stream):
        yield from stream

    def close(self, resource):
        resource.close()

    def end(self):
        pass


@pytest.fixture
def token():
    """An argument that no other process on the machine has."""
    return secrets.token_hex(8)


@pytest.fixture(params=[Asynchronous, Synchronous], ids=["async", "sync"])
def twin(request):
    made = request.param()
    yield made
    made.end()


@pytest.fixture
def wait(twin):
    return twin.wait


@pytest.fixture
def open_session(twin):
    """Opens sessions that end with the test."""
    opened = []

    def make(*words, **options):
        session = twin.api.Session(*words, **options)
        opened.append(session)
        return session

    yield make
    for session in opened:
        twin.close(session)


@pytest.fixture
def session(open_session):
    return open_session()


@pytest.fixture
def own_places(monkeypatch):
    """The directory for private servers of this test alone: servers of tests beside it lie elsewhere."""
    with tempfile.TemporaryDirectory(prefix="cella-run-", dir="/tmp") as directory:
        monkeypatch.setenv("XDG_RUNTIME_DIR", directory)
        monkeypatch.setenv("TMPDIR", directory)
        yield pathlib.Path(directory)


@pytest.fixture(scope="session", autouse=True)
def nothing_stays():
    """After all tests, and the end of the private server, the machine is as it was."""
    before = mounts()
    yield
    from cella import _private_server as private

    directory = private._current._directory.path if private._current else None
    private.stop()
    assert directory is None or not os.path.exists(directory)
    assert mounts() == before
