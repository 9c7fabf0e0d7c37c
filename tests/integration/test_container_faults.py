"""Containers that are paused, and an engine's stream that ends in the middle: clear errors, and nothing stays."""

import contextlib
import os
import socket
import threading
import time

import pytest
from support.engine import Engine
from support.running import LONG, wait_until

pytestmark = pytest.mark.needs("docker")


@pytest.fixture(scope="module")
def engine():
    return Engine()


@pytest.fixture
def open_contained(open_session, engine):
    before = {one["Id"] for one in engine.containers()}

    def start(*flags, host=engine.host):
        words = ["--executor", "container", "--image", engine.image, *flags]
        return open_session(*words, python=None, with_env={"DOCKER_HOST": host})

    start.made = lambda: [one["Id"] for one in engine.containers() if one["Id"] not in before]
    return start


class Proxy:
    """Between Cella and the engine, at an address of its own. It can end the stream of a container."""

    def __init__(self, engine, place):
        self.host = f"unix://{place}"
        self._engine = engine.host.removeprefix("unix://")
        self._left = None  # bytes that the streams of containers may still carry; None: any number
        self._streams = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(place))
        self._listener.listen(16)
        threading.Thread(target=self._accept, daemon=True).start()

    def end_streams_after(self, count):
        self._left = count

    def close(self):
        self._listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                ours, _ = self._listener.accept()
                theirs = socket.socket(socket.AF_UNIX)
                theirs.connect(self._engine)
                first = ours.recv(65536)
                theirs.sendall(first)
                is_stream = b"/attach?" in first.split(b"\r\n", 1)[0]
                for source, target, counted in ((ours, theirs, False), (theirs, ours, is_stream)):
                    threading.Thread(target=self._copy, args=(source, target, counted), daemon=True).start()

    def _copy(self, source, target, counted):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if counted and self._left is not None:
                    data = data[: self._left]
                    self._left -= len(data)
                target.sendall(data)
                if counted and self._left == 0:
                    break
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def proxy(engine):
    place = f"/tmp/cella-proxy-{os.getpid()}"
    made = Proxy(engine, place)
    yield made
    made.close()
    os.unlink(place)


@pytest.mark.parametrize("count", [0, 5, 8, 20, 100_003], ids=lambda count: f"after {count} bytes")
def test_stream_that_ends_inside_a_frame_ends_the_session(open_contained, engine, proxy, count):
    session = open_contained("--timeout", "30s", host=proxy.host)
    session.run("x = 1")
    (container,) = open_contained.made()
    proxy.end_streams_after(count)
    began = time.monotonic()
    result = session.run("print('x' * 1_000_000)")
    assert result["status"] == "crashed" and result["state"] == "lost", result
    assert set(result["stdout"]) <= {"x"}
    result = session.run("1")
    assert result["status"] == "rejected" and "open a new session" in result["error"]["message"], result
    assert time.monotonic() - began < 20
    session.close()
    assert wait_until(lambda: not engine.exists(container), 20)


def test_paused_container_ends_the_run_and_leaves_nothing(open_contained, engine):
    session = open_contained("--timeout", "60s" if LONG else "1s")
    session.run("x = 1")
    (container,) = open_contained.made()
    assert engine.call("POST", f"/containers/{container}/pause")[0] == 204
    began = time.monotonic()
    result = session.run("x")
    # An agent that does not answer is given up.
    assert result["status"] == ("crashed" if LONG else "timeout") and result["state"] == "lost", result
    assert time.monotonic() - began < 30
    result = session.run("x")
    assert result["status"] == "rejected" and "container has ended" in result["error"]["message"], result
    session.close()
    assert wait_until(lambda: not engine.exists(container))
