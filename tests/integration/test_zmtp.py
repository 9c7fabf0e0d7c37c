"""Our ZMTP against libzmq: the peers are real pyzmq sockets, in a process of their own."""

import contextlib
import hashlib
import json
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


HEADER = {"session": "me", "username": "u", "date": "2026-01-01T00:00:00Z", "msg_type": "kernel_info_request", "version": "5.3"}


@pytest.mark.parametrize("transport", ["ipc", "tcp"])
def test_real_kernel_answers_each_time_it_comes_back(start, transport, tmp_path):
    python = require("jupyter")["JUPYTER_PYTHON"]
    names = ["shell_port", "iopub_port", "stdin_port", "control_port", "hb_port"]
    ports = dict(zip(names, free_ports(5) if transport == "tcp" else range(1, 6)))
    ip = "127.0.0.1" if transport == "tcp" else str(tmp_path / "k")
    file = tmp_path / "connection.json"
    file.write_text(json.dumps({"transport": transport, "ip": ip, "key": "", "signature_scheme": "hmac-sha256", **ports}))

    def place(name):
        return f"tcp:{ports[name]}" if transport == "tcp" else f"ipc:{ip}-{ports[name]}"

    shell, iopub = start(DRIVER, "dealer", place("shell_port"), "me"), start(DRIVER, "sub", place("iopub_port"))
    asked = 0
    for times in (1, 2, 3):
        with open(tmp_path / "said", "w") as said, subprocess.Popen(
            [python, "-m", "ipykernel_launcher", "-f", file], stdin=subprocess.DEVNULL, stdout=said, stderr=said
        ) as kernel:
            try:
                assert shell.next(60) == f"connected {times}"
                assert iopub.next(60) == f"connected {times}"
                # What is published before the subscription has arrived is lost.
                published = None
                while published is None:
                    asked += 1
                    header = json.dumps({"msg_id": str(asked), **HEADER})
                    shell.send(f"<IDS|MSG>\t\t{header}\t{{}}\t{{}}\t{{}}")
                    assert shell.next(60).startswith("message <IDS|MSG>\t\t#")
                    with contextlib.suppress(AssertionError):
                        published = iopub.next(0.2)
                assert "<IDS|MSG>\t\t#" in published, published
            finally:
                kernel.kill()
        with contextlib.suppress(AssertionError):
            while True:
                iopub.next(0.2)  # what it published besides


def free_ports(count):
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
