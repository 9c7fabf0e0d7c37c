"""Drives a runner that is exec'ed: the real program, with a socket as descriptor 3 and pipes as its output."""

import contextlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path

RUNNERS = Path(__file__).resolve().parents[2] / "runners"


class Ended(Exception):
    """The runner closed its socket."""


class Answer:
    """What came between a run's frame and its `done`, with the output that was in the pipes by then."""

    def __init__(self, frames, stdout, stderr):
        self.frames = frames
        self.done = frames[-1]
        self.status = self.done["status"]
        self.exit_code = self.done["exit_code"]
        self.stdout_bytes, self.stderr_bytes = stdout, stderr
        self.stdout, self.stderr = stdout.decode("utf-8", "replace"), stderr.decode("utf-8", "replace")

    def only(self, kind):
        found = [frame for frame in self.frames if frame["type"] == kind]
        assert len(found) <= 1, found
        return found[0] if found else None

    @property
    def value(self):
        frame = self.only("value")
        return frame and frame["text"]

    @property
    def error(self):
        return self.only("error")


class Runner:
    def __init__(self, command, cwd, env=None, value_limit=100_000):
        self.socket, theirs = socket.socketpair()
        self.outputs = {}
        writers = []
        for name in ("stdout", "stderr"):
            reader, writer = os.pipe()
            os.set_blocking(reader, False)
            self.outputs[name] = reader
            writers.append(writer)

        # The wrapper puts the socket where the protocol wants it; exec keeps the process.
        number = theirs.fileno()
        redirect = f'exec "$@" 3<&{number} {number}<&-' if number != 3 else 'exec "$@"'
        environment = {"PATH": os.environ["PATH"], "HOME": str(cwd), "LANG": "C.UTF-8", **(env or {})}
        self.process = subprocess.Popen(
            ["/bin/bash", "-c", redirect, "bash", *map(str, command)],
            stdin=subprocess.DEVNULL, stdout=writers[0], stderr=writers[1], pass_fds=[number],
            cwd=cwd, env=environment, start_new_session=True,
        )
        theirs.close()
        for writer in writers:
            os.close(writer)
        self.collected = {"stdout": b"", "stderr": b""}
        self.received = b""
        self.number = 0
        self.send(type="configure", env=environment, cwd=str(cwd), network=False, value_limit=value_limit)

    def send(self, **frame):
        body = json.dumps(frame, ensure_ascii=False).encode()
        self.send_body(body)

    def send_body(self, body):
        self.socket.sendall(struct.pack("<I", len(body)) + body)

    def take_frame(self):
        if len(self.received) < 4:
            return None
        (length,) = struct.unpack("<I", self.received[:4])
        if len(self.received) < 4 + length:
            return None
        body, self.received = self.received[4:4 + length], self.received[4 + length:]
        return json.loads(body.decode())

    def receive(self, timeout=20.0):
        """The next frame; whatever is printed meanwhile is collected."""
        deadline = time.monotonic() + timeout
        while True:
            frame = self.take_frame()
            if frame is not None:
                return frame
            left = deadline - time.monotonic()
            assert left > 0, f"no frame; output so far: {self.collected}"
            ready, _, _ = select.select([self.socket, *self.outputs.values()], [], [], left)
            self.collect()
            if self.socket in ready:
                chunk = self.socket.recv(1 << 20)
                if not chunk:
                    raise Ended
                self.received += chunk

    def collect(self):
        for name, fd in self.outputs.items():
            while True:
                try:
                    chunk = os.read(fd, 1 << 20)
                except BlockingIOError:
                    break
                if not chunk:
                    break
                self.collected[name] += chunk

    def take_output(self, name):
        self.collect()
        taken, self.collected[name] = self.collected[name], b""
        return taken

    def wait_output(self, name, expected, timeout=10.0):
        deadline = time.monotonic() + timeout
        while expected not in self.collected[name]:
            assert time.monotonic() < deadline, self.collected
            time.sleep(0.005)
            self.collect()

    def wait_for_program(self, words, timeout=10.0):
        """Until its process group has a program that was started with these words; its pid."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            for entry in filter(str.isdigit, os.listdir("/proc")):
                with contextlib.suppress(OSError):
                    line = Path("/proc", entry, "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ")
                    if line == words.encode() and os.getpgid(int(entry)) == self.process.pid:
                        return int(entry)
            time.sleep(0.01)
        raise AssertionError(f"no {words}")

    def start(self, code, file=None, stdin=None, input=False, **more):
        self.number += 1
        self.send(type="run", run=f"run_{self.number}", number=self.number, code=code, file=file, stdin=stdin,
                  input=input, checkpoint="off", **more)

    def finish(self, timeout=20.0):
        frames = []
        while not frames or frames[-1]["type"] != "done":
            frames.append(self.receive(timeout))
        assert frames[-1]["run"] == f"run_{self.number}"
        return Answer(frames, self.take_output("stdout"), self.take_output("stderr"))

    def run(self, code, timeout=20.0, **options):
        self.start(code, **options)
        return self.finish(timeout)

    def ask(self, **frame):
        self.send(**frame)
        return self.receive()

    def interrupt(self):
        """As the supervisor does it: a frame that says what is meant, and SIGINT for the whole process group."""
        self.send(type="interrupt", run=f"run_{self.number}")
        os.killpg(self.process.pid, signal.SIGINT)

    def start_before_late_signal(self, code, wait):
        """The next run comes between the frame that was to interrupt the last one and the signal. False: that was later
        than a runner waits for it (20 ms), because this machine is busy."""
        began = time.monotonic()
        self.send(type="interrupt", run=f"run_{self.number}")
        self.start(code)
        time.sleep(wait)
        os.kill(self.process.pid, signal.SIGINT)
        return time.monotonic() - began < 0.015

    @contextlib.contextmanager
    def stopped(self):
        """What is sent to it meanwhile is all there when it goes on."""
        os.kill(self.process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.process.pid, signal.SIGCONT)

    def close(self):
        self.socket.close()
        try:
            return self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            for fd in self.outputs.values():
                os.close(fd)
