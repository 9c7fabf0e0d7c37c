"""Our ZMTP against libzmq: the peers are real pyzmq sockets, in a process of their own."""

import hashlib
import os
import pathlib
import socket
import subprocess
import tempfile
import threading
from queue import Empty, Queue

import pytest
from support.cella import program
from support.needs import require

pytestmark = pytest.mark.needs("jupyter")

DRIVER = pathlib.Path(program()).with_name("cella-zmtp")

# Reads Python expressions and prints what they give. `bind(kind, url)` makes the socket.
PEER = """
import sys, zmq
context = zmq.Context()
peer = None
def bind(kind, url, **options):
    global peer
    peer = context.socket(getattr(zmq, kind))
    peer.linger = 0
    for option, value in options.items():
        peer.setsockopt(getattr(zmq, option), value)
    peer.rcvtimeo = 10000
    peer.bind(url)
def close():
    peer.close()
for line in sys.stdin:
    try:
        print(repr(eval(line)), flush=True)
    except Exception as error:
        print(repr(error), flush=True)
"""


class Lines:
    """A process that is driven by lines."""

    def __init__(self, *argv):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self._lines = Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def next(self, seconds=15):
        try:
            return self._lines.get(timeout=seconds)
        except Empty:
            raise AssertionError("no line came") from None

    def ask(self, line):
        self.send(line)
        return self.next()

    def stop(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()


@pytest.fixture
def start():
    running = []

    def begin(*argv):
        running.append(Lines(*map(str, argv)))
        return running[-1]

    yield begin
    for lines in running:
        lines.stop()


@pytest.fixture
def peer(start):
    python = require("jupyter")["JUPYTER_PYTHON"]
    return start(python, "-c", PEER)


@pytest.fixture(params=["ipc", "tcp"])
def place(request):
    """(the URL that the peer binds, what the driver connects to)"""
    if request.param == "ipc":
        with tempfile.TemporaryDirectory(prefix="zmtp-") as directory:
            yield f"ipc://{directory}/s", f"ipc:{directory}/s"
    else:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        yield f"tcp://127.0.0.1:{port}", f"tcp:{port}"


def test_dealer_exchanges_messages_with_a_router(peer, place, start):
    peer.ask(f"bind('ROUTER', '{place[0]}')")
    driver = start(DRIVER, "dealer", place[1], "me")
    assert driver.next() == "connected 1"
    driver.send("hello\tworld")
    assert peer.ask("peer.recv_multipart()") == "[b'me', b'hello', b'world']"
    peer.ask("peer.send_multipart([b'me', b'', b'answer'])")
    assert driver.next() == "message \tanswer"


def test_subscriber_gets_everything_in_order(peer, place, start):
    peer.ask(f"bind('XPUB', '{place[0]}')")
    driver = start(DRIVER, "sub", place[1])
    assert driver.next() == "connected 1"
    assert peer.ask("peer.recv()") == "b'\\x01'"  # the subscription has arrived
    peer.ask("peer.setsockopt(zmq.SNDHWM, 0)")
    peer.ask("[peer.send_multipart([b'topic', b'%d' % n]) for n in range(5000)] and None")
    assert [driver.next() for _ in range(5000)] == [f"message topic\t{n}" for n in range(5000)]


def test_large_messages_pass_and_too_large_ones_are_skipped_without_losing_the_next(peer, place, start):
    peer.ask(f"bind('ROUTER', '{place[0]}')")
    driver = start(DRIVER, "dealer", place[1], "me")
    assert driver.next() == "connected 1"
    driver.send("ready")
    peer.ask("peer.recv_multipart()")
    peer.ask("peer.send_multipart([b'me', b'head', b'x' * 1000000])")
    assert driver.next() == "message head\t#1000000:" + hashlib.sha256(b"x" * 1000000).hexdigest()
    peer.ask("peer.send_multipart([b'me', b'head', b'x' * 60000000])")
    assert driver.next() == "message head\t\tskipped 60000000"
    peer.ask("peer.send_multipart([b'me', b'next'])")
    assert driver.next() == "message next"
    driver.send("y" * 1_000_000)
    expected = hashlib.sha256(b"y" * 1_000_000).hexdigest()
    assert peer.ask("__import__('hashlib').sha256(peer.recv_multipart()[1]).hexdigest()") == repr(expected)


def test_connects_to_a_peer_that_comes_later_and_again_after_it_went(peer, place, start):
    driver = start(DRIVER, "dealer", place[1], "me")
    driver.send("queued")
    peer.ask(f"bind('ROUTER', '{place[0]}')")
    assert driver.next() == "connected 1"
    assert peer.ask("peer.recv_multipart()") == "[b'me', b'queued']"
    for count in (2, 3):
        peer.ask("close()")
        while "Error" in peer.ask(f"bind('ROUTER', '{place[0]}')"):
            pass
        assert driver.next() == f"connected {count}"
        driver.send(f"message {count}")
        assert peer.ask("peer.recv_multipart()") == f"[b'me', b'message {count}']"


def test_answers_a_ping(peer, place, start):
    peer.ask(f"bind('ROUTER', '{place[0]}', HEARTBEAT_IVL=50, HEARTBEAT_TIMEOUT=1000)")
    driver = start(DRIVER, "dealer", place[1], "me")
    assert driver.next() == "connected 1"
    # A peer that gets no answer to its pings closes the connection after a second.
    peer.ask("__import__('time').sleep(2)")
    driver.send("still here")
    assert peer.ask("peer.recv_multipart()") == "[b'me', b'still here']"
    with pytest.raises(AssertionError):
        driver.next(seconds=0.1)  # it connected once


def test_refuses_a_socket_of_another_kind(peer, place, start):
    peer.ask(f"bind('PULL', '{place[0]}')")
    driver = start(DRIVER, "dealer", place[1])
    assert "PULL socket, which cannot talk to a DEALER" in driver.next()


def test_refuses_what_is_no_zeromq_peer(start, tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        driver = start(DRIVER, "dealer", f"ipc:{tmp_path}/s")
        with listener.accept()[0] as connection:
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            assert "does not speak ZMTP 3" in driver.next()


def test_refuses_a_peer_that_never_answers(start, tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        driver = start(DRIVER, "dealer", f"ipc:{tmp_path}/s")
        with listener.accept()[0]:
            assert "did not finish the ZeroMQ handshake" in driver.next()


def test_never_follows_a_symbolic_link_to_a_socket(start, tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "real"))
        listener.listen()
        os.symlink(tmp_path / "real", tmp_path / "link")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "link"))  # the attack works
        driver = start(DRIVER, "dealer", f"ipc:{tmp_path}/link")
        assert "is no socket" in driver.next()
