"""Drives a runner as the supervisor does: frames over a real socket, output from real pipes; no jail around it.

`Runner(command)` starts any runner by exec. `Runner.adopt(...)` takes one that came from elsewhere (a zygote's fork, a
woken checkpoint). All waits are bounded.
"""

import array
import json
import math
import os
import select
import signal
import socket
import struct
import subprocess
import threading
import time

PATIENCE = 20.0
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"}
FIRST_NUDGE, LAST_NUDGE = 0.02, 2.0


class Outcome:
    """What a run gave: its frames, and what arrived on the pipes until `done`."""

    def __init__(self, frames, stdout, stderr):
        self.frames = frames
        self.stdout = stdout
        self.stderr = stderr

    def of(self, kind):
        return [frame for frame in self.frames if frame["type"] == kind]

    @property
    def done(self):
        return self.of("done")[0]

    @property
    def status(self):
        return self.done["status"]

    @property
    def value(self):
        values = self.of("value")
        return values[0]["text"] if values else None

    @property
    def mime(self):
        return self.of("value")[0]["mime"]

    @property
    def displays(self):
        return self.of("display")

    @property
    def error(self):
        errors = self.of("error")
        return errors[0] if errors else None

    @property
    def traceback(self):
        return self.error["traceback"]

    @property
    def checkpoint(self):
        found = self.of("checkpoint")
        return found[0] if found else None


class Collector:
    """Reads a pipe as it fills, so that no writer blocks on it."""

    def __init__(self, fd):
        os.set_blocking(fd, False)
        self._fd = fd
        self._data = bytearray()
        self._lock = threading.Lock()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self):
        while self._fd is not None:
            select.select([self._fd], [], [])
            with self._lock:
                self._drain()

    def _drain(self):
        while self._fd is not None:
            try:
                data = os.read(self._fd, 1 << 16)
            except BlockingIOError:
                return
            self._data += data
            if not data:
                os.close(self._fd)
                self._fd = None

    def take(self):
        """All that was written before this call and not taken yet."""
        with self._lock:
            self._drain()
            data = bytes(self._data)
            self._data.clear()
        return data.decode("utf-8", "backslashreplace")


class Runner:
    def __init__(self, command=None, checkpoints=False, **popen):
        """Started as the engine does it: /dev/null and two pipes at 0-2, the session socket at 3, nothing else."""
        self.checkpoints = checkpoints
        self._number = 0
        self._buffer = b""
        self._nudge_pause = math.inf  # until the next nudge; for ever where none is due
        self.descriptors = []
        self.process = None
        self.pid = None
        if command is None:
            return
        ours, theirs = socket.socketpair()
        stdout, stderr = os.pipe(), os.pipe()
        high = os.open(os.devnull, os.O_RDONLY), stdout[1], stderr[1], theirs.fileno()

        def place():
            # First away from 0-3, since the sources may lie there.
            for number, fd in enumerate([os.dup2(fd, 200 + index) for index, fd in enumerate(high)]):
                os.dup2(fd, number)
            os.closerange(4, 256)

        self.process = subprocess.Popen(command, preexec_fn=place, close_fds=False, **popen)
        self.pid = self.process.pid
        theirs.close()
        for fd in high[:3]:
            os.close(fd)
        self._attach(ours, Collector(stdout[0]), Collector(stderr[0]))

    @classmethod
    def adopt(cls, sock, stdout, stderr, pid=None, checkpoints=False):
        runner = cls(checkpoints=checkpoints)
        runner.pid = pid
        runner._attach(sock, stdout, stderr)
        return runner

    def _attach(self, sock, stdout, stderr):
        self.socket = sock
        self.socket.settimeout(PATIENCE)
        self.stdout = stdout
        self.stderr = stderr

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Closes the socket; the runner must end of itself."""
        self.socket.close()
        for fd in self.descriptors:
            os.close(fd)
        self.descriptors = []
        if self.process is not None:
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise

    def configure(self, env=None, cwd="/tmp", network=False, value_limit=100_000):
        env = ENVIRONMENT if env is None else env
        frame = {"type": "configure", "env": env, "cwd": str(cwd), "network": network, "value_limit": value_limit}
        self.send(frame)
        return self

    def send(self, frame):
        body = json.dumps(frame).encode()
        self.socket.sendall(struct.pack("<I", len(body)) + body)

    def receive(self):
        while True:
            if len(self._buffer) >= 4:
                (size,) = struct.unpack("<I", self._buffer[:4])
                assert size <= 16 << 20, "a frame above 16 MiB"
                if len(self._buffer) >= 4 + size:
                    body = self._buffer[4 : 4 + size]
                    self._buffer = self._buffer[4 + size :]
                    return json.loads(body.decode("utf-8"))
            self._nudge_while_silent()
            try:
                data, ancillary, _, _ = self.socket.recvmsg(1 << 20, socket.CMSG_SPACE(8 * 4), socket.MSG_CMSG_CLOEXEC)
            except ConnectionResetError as error:  # it left without reading what we sent
                raise ConnectionResetError(f"the runner is gone; its stderr: {self.stderr.take()!r}") from error
            for _, _, content in ancillary:
                descriptors = array.array("i")
                descriptors.frombytes(content)
                self.descriptors.extend(descriptors)
            if not data:
                raise EOFError("the runner is gone")
            self._buffer += data

    def _nudge_while_silent(self):
        """While an interrupted run goes on: SIGINT may have come just when Python was about to block."""
        while self._nudge_pause <= LAST_NUDGE and not select.select([self.socket], [], [], self._nudge_pause)[0]:
            os.kill(self.pid, signal.SIGURG)
            self._nudge_pause *= 2

    def ask(self, frame):
        """A request with one answer."""
        self.send(frame)
        return self.receive()

    def start(self, code, **fields):
        self._number += 1
        request = {
            "type": "run",
            "run": "run_%d" % self._number,
            "number": self._number,
            "code": code,
            "file": None,
            "stdin": None,
            "input": False,
            "checkpoint": "off",
        }
        request.update(fields)
        self._nudge_pause = math.inf
        self._expects_checkpoint = self.checkpoints and request["checkpoint"] != "off"
        self.send(request)

    def finish(self, answers=()):
        """Frames until `done` (and the checkpoint); input requests get the answers in turn."""
        frames, answers = [], list(answers)
        while True:
            frame = self.receive()
            frames.append(frame)
            if frame["type"] == "input_request":
                answer = answers.pop(0)
                reply = {"eof": True} if answer is None else {"text": answer}
                self.send({"type": "input_reply", **reply})
            if frame["type"] == "done":
                assert frame["run"] == "run_%d" % self._number
                self._nudge_pause = math.inf
                break
        output = self.stdout.take(), self.stderr.take()
        if self._expects_checkpoint:
            frames.append(self.receive())
            assert frames[-1]["type"] == "checkpoint"
        return Outcome(frames, *output)

    def run(self, code, answers=(), **fields):
        self.start(code, **fields)
        return self.finish(answers)

    def interrupt(self):
        """As the supervisor does it: a frame that says what is meant, SIGINT, and nudges while there is no answer."""
        self.send({"type": "interrupt", "run": "run_%d" % self._number})
        os.kill(self.pid, signal.SIGINT)
        self.nudge()

    def nudge(self):
        self._nudge_pause = FIRST_NUDGE

    def wait_for_output(self, text):
        """Until the running cell has printed that text."""
        seen, deadline = "", time.monotonic() + PATIENCE
        while text not in seen:
            assert time.monotonic() < deadline, "no %r in the output %r" % (text, seen)
            seen += self.stdout.take()
            time.sleep(0.001)
        return seen
