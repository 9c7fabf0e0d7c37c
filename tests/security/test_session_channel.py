"""The socket between a runner and cella: what comes from inside is forged here in every way, and cella must neither
fall, nor wait, nor grow. Losing its own state is all that a guest can win.
"""

import contextlib
import json
import pathlib
import subprocess
import time

import pytest
from support.cella import PYTHON, run_bounded
from support.repl import Repl
from support.running import wait_until
from support.session_tree import SessionTree
from support.victims import Scene

pytestmark = pytest.mark.as_user

# In the guest: speaks as the runner does, and sends descriptors of its choice.
FORGE = r"""
import array, ctypes, json, os, signal, socket, struct, time
def _channel():
    for number in range(1023, 2, -1):
        try:
            if os.readlink("/proc/self/fd/%d" % number).startswith("socket:"):
                return number
        except OSError:
            continue
channel = _channel()
def frame(content):
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return struct.pack("<I", len(body)) + body
def send(content, *descriptors):
    send_bytes(frame(content), *descriptors)
def send_bytes(data, *descriptors):
    with socket.socket(fileno=os.dup(channel)) as carrier:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        sent = carrier.sendmsg([data], rights)
        carrier.sendall(data[sent:])
def taken(sock, process, name=None):
    send({"type": "checkpoint", "name": name, "run": None, "status": "taken"}, sock, process)
def nested(depth, opening=b"[", closing=b"]"):
    return opening * depth + b"0" + closing * depth
"""

ANSWER = 12.0


@pytest.fixture
def forger(cella):
    """Opens sessions that know FORGE."""
    with Scene() as scene, contextlib.ExitStack() as sessions:
        def open_one(*flags):
            repl = sessions.enter_context(Repl(cella.binary, *flags, env=scene.env))
            assert repl.run(FORGE, timeout="20s")["status"] == "ok"
            return repl

        yield open_one


def survives(repl, code, timeout=ANSWER):
    """Runs it, and then proves that cella still serves. Returns the Result, which may be any."""
    result = repl.answer(repl.send(code=code), timeout)["result"]
    again = repl.answer(repl.send(code="6 * 7"), timeout)["result"]
    assert again["status"] == "rejected" or again["value"] == "42", again
    return result


def memory_of(pid, what="VmHWM"):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.partition(what + ":")[2].split()[0]) << 10


def is_stopped(pid):
    with contextlib.suppress(OSError):  # a copy may be gone meanwhile
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_guest_can_forge_frames_of_its_own_session(forger):
    """The control of everything below: what a guest forges does arrive."""
    repl = forger()
    result = repl.run("send({'type': 'display', 'mime': {'text/plain': 'forged'}})")
    assert [output["mime"] for output in result["outputs"]] == [{"text/plain": "forged"}]
    result = repl.run("send({'type': 'done', 'run': 'another', 'status': 'ok'})\nimport time; time.sleep(5)")
    assert result["error"]["name"] == "RunnerLost", result


# Each ends a runner at worst.
NONSENSE = {
    "no JSON": "send(b'nonsense')",
    "nothing": "send(b'')",
    "no object": "send([1, 2, 3])",
    "open brackets": "send(b'[' * 1000000)",
    "types of another kind": "send({'type': 7})\nsend({'type': 'display', 'mime': 7, 'display_id': [], 'update': 1})",
    "no UTF-8": r"send(b'{\"type\":\"display\",\"mime\":{\"\xff\xfe\":\"\xff\"},\"display_id\":\"\xc3\"}')",
    "a frame larger than any": "send_bytes(struct.pack('<I', 0xffffffff) + b'x' * 100000)\ntime.sleep(5)",
    "half a frame": "send_bytes(struct.pack('<I', 1000) + b'x')\nos._exit(0)",
    "numbers beyond all": "send(b'{\"type\":\"done\",\"run\":\"x\",\"exit_code\":1e999}')\ntime.sleep(5)",
    "numbers of many digits": "send(b'{\"type\":\"x\",\"exit_code\":' + b'9' * 1000000 + b'}')",
    "a closed socket": "os.close(channel)\ntime.sleep(5)",
    "a socket shut down": "socket.socket(fileno=channel).shutdown(2)\ntime.sleep(5)",
    "a socket held by another": "if os.fork() == 0: os.setsid(); time.sleep(60)\nos._exit(3)",
    "answers nobody asked for": "for _ in range(1000): send({'type': 'completion', 'matches': ['x']})",
    "a huge name": "send({'type': 'display', 'mime': {'text/plain': ''}, 'display_id': 'x' * 9000000})",
}


@pytest.mark.parametrize("code", NONSENSE.values(), ids=NONSENSE)
def test_malformed_frames_end_at_most_the_runner(forger, code):
    survives(forger(), code)


NESTED = {
    "in a type": "send(b'{\"type\":\"display\",\"mime\":{\"a\":' + nested(4000000) + b'}}')",
    "in metadata": "send(b'{\"type\":\"display\",\"mime\":{},\"metadata\":{\"a\":' + nested(4000000) + b'}}')",
    "in a value": "send(b'{\"type\":\"value\",\"mime\":{\"a\":' + nested(2000000, b'{\"\":', b'}') + b'}}')",
    "in an answer": "send(b'{\"type\":\"completion\",\"a\":' + nested(4000000) + b'}')",
    "for a reader": "send(b'{\"type\":\"display\",\"mime\":{},\"metadata\":{\"a\":' + nested(5000) + b'}}')",
}


@pytest.mark.parametrize("code", NESTED.values(), ids=NESTED)
def test_deep_nesting_does_not_overflow_the_stack(forger, code):
    """cella's own, and that of whoever reads its answers: 5000 levels are too many for Python's parser."""
    with pytest.raises(RecursionError):
        json.loads("[" * 5000 + "]" * 5000)
    survives(forger(), code)


# Descriptors.

DESCRIPTORS = {
    "many": "send({'type': 'x'}, *[0] * 250)",
    "one by one": "for _ in range(100): send({'type': 'x'}, 0)",
    "a pipe for a socket": "r, w = os.pipe()\ntaken(r, os.pidfd_open(os.getpid()))",
    "a listening socket": "s = socket.socket(socket.AF_UNIX)\ns.bind('/tmp/s')\ns.listen()\n"
                          "taken(s.fileno(), os.pidfd_open(os.getpid()))",
    "a datagram socket": "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
                         "taken(a.fileno(), os.pidfd_open(os.getpid()))",
    "a socket not connected": "s = socket.socket(socket.AF_UNIX)\ntaken(s.fileno(), os.pidfd_open(os.getpid()))",
    "the session's own": "taken(channel, os.pidfd_open(os.getpid()))",
    "two sockets": "a, b = socket.socketpair()\ntaken(a.fileno(), b.fileno())",
    "its own process": "a, b = socket.socketpair()\ntaken(a.fileno(), os.pidfd_open(os.getpid()))",
    "a dead process": "a, b = socket.socketpair()\npid = os.fork()\nif pid == 0: os._exit(0)\n"
                      "p = os.pidfd_open(pid)\nos.waitpid(pid, 0)\ntaken(a.fileno(), p)",
    "init": "a, b = socket.socketpair()\ntaken(a.fileno(), os.pidfd_open(1))",
    "a socket in itself": "a, b = socket.socketpair()\n"
                          "a.sendmsg([b'x'], [(1, 1, array.array('i', [a.fileno(), b.fileno()]))])\n"
                          "taken(a.fileno(), os.pidfd_open(os.getpid()))",
}


@pytest.mark.parametrize("code", DESCRIPTORS.values(), ids=DESCRIPTORS)
def test_forged_checkpoint_affects_at_most_its_own_session(forger, code):
    """The runner ends after it, so that cella turns to what it was given."""
    survives(forger(), code + "\nos._exit(3)", timeout=25)


def test_pidfd_of_cella_in_a_frame_does_not_kill_cella(forger):
    """The kernel gives a pidfd of the peer to whoever holds the other end of its socket, across pid namespaces."""
    repl = forger()
    found = repl.value(
        "s = socket.socket(fileno=os.dup(channel))\n"
        "try: supervisor = s.getsockopt(socket.SOL_SOCKET, 77)\n"
        "except OSError as error: supervisor = -error.errno\n"
        "supervisor >= 0"
    )
    if found == "False":
        # Refused by the kernel (before 6.5) or by the filter: there is nothing to send.
        return
    assert repl.value("open('/proc/self/fdinfo/%d' % supervisor).read().count('NSpid')") == "1"
    survives(repl, "a, b = socket.socketpair()\ntaken(a.fileno(), supervisor)\na.close()\nb.close()\nos._exit(3)")
    assert repl.process.poll() is None


def test_socket_set_to_blocking_does_not_block_cella(forger):
    """Both ends of a checkpoint's socket are the guest's, and whether reading waits is a property that they share."""
    repl = forger()
    code = """
ours, theirs = socket.socketpair()
shared = socket.socket(fileno=os.dup(theirs.fileno()))
pid = os.fork()
if pid == 0:
    os.setsid()
    while True:
        shared.setblocking(True)
        time.sleep(0.001)
taken(theirs.fileno(), os.pidfd_open(pid))
time.sleep(0.3)
os._exit(3)
"""
    number = repl.send(code=code)
    # Whatever it waits for, it goes on to serve.
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        repl.answer(repl.send(op="checkpoints"), 5)
        if any(answer.get("id") == number for answer in repl._kept):
            return
        time.sleep(0.05)
    raise AssertionError("the run does not end")


LINGER = """
listener = socket.create_server(("127.0.0.1", 0))
sender = socket.create_connection(listener.getsockname())
receiver, _ = listener.accept()
sender.setblocking(False)
try:
    while True: sender.send(bytes(65536))
except BlockingIOError:
    pass
sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
"""


def test_closing_received_descriptors_does_not_block_cella(forger):
    """The last one to close a socket that lingers waits for its data to be taken: here for ever."""
    control = "import socket, struct, time\n" + LINGER.replace("3600", "1") + \
        "begin = time.monotonic()\nsender.close()\nprint(time.monotonic() - begin)"
    assert float(run_bounded([PYTHON, "-c", control]).text()) > 0.9, "nobody waits: this proves nothing"
    repl = forger()
    code = LINGER + "send({'type': 'x'}, sender.fileno())\ntime.sleep(0.2)\nsender.close()\n" \
        "send({'type': 'checkpoint', 'name': None, 'status': 'off'})"
    survives(repl, code)


def test_exhausted_in_flight_descriptors_do_not_end_the_runner(forger):
    """They are counted by user id, which the sessions of one environment share: a checkpoint may be impossible then."""
    repl = forger()
    full = repl.value("""
kept, number = [], 0
def fill():
    while True:
        kept.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
        try: kept[-1][0].sendmsg([b"x"], [(1, 1, array.array("i", [0] * 200))])
        except OSError as error: return error.errno
fill()
""")
    assert full == "109", "descriptors in flight are not limited here: this proves nothing"
    result = repl.run("kept[0]; 1")
    assert result["state"] == "kept", result
    assert repl.value("len(kept) > 1") == "True"


# Floods. A Result keeps 32 MiB of displays, a frame has at most 16 MiB, and both exist more than once for a moment.
ROOM = 320 << 20
ROOM_WITHOUT_A_READER = 128 << 20

FLOODS = {
    "small displays": "frame({'type': 'display'}) * 1000",
    "large displays": "frame({'type': 'display', 'mime': {'text/plain': 'x' * 1000000}})",
    "large types": "frame({'type': 'display', 'mime': {'x' * 1000000: ''}})",
    "large metadata": "frame({'type': 'display', 'mime': {}, 'metadata': {'x': 'x' * 1000000}})",
    "large ids": "frame({'type': 'display', 'mime': {}, 'display_id': 'x' * 1000000})",
    "errors": "frame({'type': 'error', 'name': 'x', 'message': 'x' * 1000000})",
    "values": "frame({'type': 'value', 'text': 'x' * 1000000, 'mime': {}})",
    "input requests": "frame({'type': 'input_request', 'prompt': 'x' * 1000000})",
    "unknown frames": "frame(b'{}') * 1000",
}
FLOODED = "flood = {}\nwhile True: send_bytes(flood)"


@pytest.mark.parametrize("content", FLOODS.values(), ids=FLOODS)
def test_flood_of_frames_neither_fills_memory_nor_delays_requests(forger, content):
    """However much a guest sends: nothing grows, and other requests are heard meanwhile."""
    repl = forger("--timeout", "1500ms")
    number = repl.send(code=FLOODED.format(content))
    slowest = 0.0
    for _ in range(5):
        begin = time.monotonic()
        repl.answer(repl.send(op="checkpoints"), ANSWER)
        slowest = max(slowest, time.monotonic() - begin)
        time.sleep(0.05)
    assert repl.answer(number, ANSWER)["result"]["status"] == "timeout"
    assert memory_of(repl.pid) < ROOM, f"cella took {memory_of(repl.pid) >> 20} MiB"
    assert slowest < 1.2, f"cella did not hear for {slowest:.2f} s"


@pytest.mark.parametrize("content", [*FLOODS.values(), None], ids=[*FLOODS, "output"])
def test_flood_of_output_is_held_back_by_a_slow_reader(cella, content):
    """Events are asked for and nobody takes them: the guest has to wait, and cella keeps no more than a little."""
    code = FLOODED.format(content) if content else "while True: os.write(1, bytes(65536))"
    with Scene() as scene:
        process = subprocess.Popen(
            [cella.binary, "repl", "--json", "--python", PYTHON], env=scene.env, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )
        try:
            for request in ({"code": FORGE}, {"code": code, "events": True}):
                process.stdin.write(json.dumps(request).encode() + b"\n")
                process.stdin.flush()
                process.stdout.readline()
            deadline = time.monotonic() + 1
            while time.monotonic() < deadline and memory_of(process.pid, "VmRSS") < ROOM_WITHOUT_A_READER:
                time.sleep(0.02)
            assert memory_of(process.pid) < ROOM_WITHOUT_A_READER, f"cella took {memory_of(process.pid) >> 20} MiB"
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()


def test_memory_of_a_large_frame_is_bounded_and_released(forger):
    """16 MiB of empty lists are five million values to whoever parses them all."""
    repl = forger()
    survives(repl, "for _ in range(3): send(b'{\"type\":\"x\",\"a\":[' + b'[],' * 5000000 + b'0]}')")
    assert memory_of(repl.pid) < 600 << 20, f"cella took {memory_of(repl.pid) >> 20} MiB"


def test_checkpoint_names_of_a_guest_are_not_interpreted(forger):
    """Nobody asked for them, and whoever lists them must not get megabytes or more of them than a session keeps."""
    repl = forger()
    repl.run("for number in range(40):\n"
             "    a, b = socket.socketpair()\n"
             "    taken(a.fileno(), os.pidfd_open(os.getpid()), str(number) + 'n' * 100000)\n")
    names = repl.ask(op="checkpoints")["checkpoints"]
    assert all(len(name) <= 64 for name in names), f"{len(names)} names of up to {max(map(len, names))} characters"


def test_runner_that_never_reads_does_not_block_cella(forger):
    """It was stopped between two runs, and the next request does not fit into the socket."""
    repl = forger("--timeout", "500ms")
    stop = "if os.fork() == 0:\n    time.sleep(1)\n    os.kill(os.getppid(), signal.SIGSTOP)\n    os._exit(0)\n"
    assert repl.run(stop, timeout="20s")["status"] == "ok"
    assert wait_until(lambda: any(map(is_stopped, SessionTree(repl.pid).guests))), "nobody was stopped"
    begin = time.monotonic()
    result = repl.run("#" + "x" * (8 << 20))
    assert result["status"] in ("timeout", "crashed") and time.monotonic() - begin < 15, result
    assert repl.value("6 * 7", timeout="10s") == "42"
