"""Images that are fetched: from a registry of the test's own, from one that has stopped answering, and not at all."""

import http.server
import io
import signal
import tarfile
import threading
import time

import pytest
from support.engine import Engine
from support.needs import require

pytestmark = [pytest.mark.needs("docker"), pytest.mark.needs("docker-registry")]


@pytest.fixture(scope="module")
def engine():
    return Engine()


@pytest.fixture(scope="module")
def pushed(engine):
    """A small image with a shell; only the registry has it."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add("/bin/busybox", "bin/busybox")
        for link in ("sh", "echo", "sleep"):
            entry = tarfile.TarInfo(f"bin/{link}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
    name = f"{require('docker-registry')['REGISTRY']}/cella-test/small"
    engine.load(archive.getvalue(), f"{name}:1")
    engine.push(f"{name}:1")
    engine.forget(f"{name}:1")
    yield f"{name}:1"
    engine.forget(f"{name}:1")


@pytest.fixture
def silent():
    """host:port of a registry that answers no more once it is asked for an image."""
    asked, over = threading.Event(), threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path != "/v2/":
                asked.set()
                over.wait(120)
            self.send_response(200)
            self.end_headers()

        do_HEAD = do_GET

        def log_message(self, *ignored):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.asked = asked
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    over.set()
    server.shutdown()
    server.server_close()


def image_of(server):
    return f"127.0.0.1:{server.server_address[1]}/cella-test/none:1"


@pytest.fixture
def words(engine):
    return ["-c", "echo on", "--lang", "sh", "--executor", "container", "--engine", engine.host]


def test_missing_image_is_fetched_once(run, engine, words, pushed):
    assert not engine.has(pushed)
    message = run.rejected(*words, "--image", pushed, "--pull", "never", code=127)
    assert pushed in message and not engine.has(pushed)
    assert run.json(*words, "--image", pushed)["stdout"] == "on\n"
    assert engine.has(pushed)
    assert run.json(*words, "--image", pushed, "--pull", "never")["stdout"] == "on\n"


def test_image_that_the_registry_lacks_is_named(run, words, pushed):
    image = pushed.replace("small", "none")
    assert image in run.rejected(*words, "--image", image, code=127)


def test_registry_that_stops_answering_ends_the_pull(run, engine, words, silent):
    start = time.monotonic()
    result = run.json(*words, "--image", image_of(silent))
    assert result["status"] == "rejected" and "no progress for 15s" in result["error"]["message"], result
    assert silent.asked.is_set() and 14 < time.monotonic() - start < 40
    assert not engine.containers()


def test_cancel_ends_a_pull_at_once(run, words, silent):
    with run.started(*words, "--image", image_of(silent)) as process:
        assert silent.asked.wait(60)
        start = time.monotonic()
        process.send(signal.SIGINT)
        assert process.finish().exit_code == 125
    assert time.monotonic() - start < 10
