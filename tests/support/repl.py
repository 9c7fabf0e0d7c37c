"""A session through `cella repl --json`: one process, one conversation of a JSON document a line."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading

from support.cella import PYTHON
from support.descendants import Family
from support.leftovers import cgroups_of, scratch_of
from support.running import wait_until

ANSWER_BOUND = 90.0  # environments are made meanwhile, from the index


class Gone(AssertionError):
    """cella ended, or does not answer."""


class Repl:
    """Requests may be sent without waiting for answers; these are kept by the id of their request."""

    def __init__(self, binary, *flags, env, cwd=None, python=PYTHON):
        words = ["--python", python] if python else []
        self.process = subprocess.Popen(
            [str(binary), "repl", "--json", *map(str, words), *map(str, flags)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, cwd=cwd,
            start_new_session=True,
        )
        self.pid = self.process.pid
        self.temporary = env.get("TMPDIR", "/tmp")
        self.stderr = bytearray()
        self._lines = queue.Queue()
        self._kept = []
        self._last_id = 0
        self._readers = [
            threading.Thread(target=self._read_lines, daemon=True),
            threading.Thread(target=self._read_stderr, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _read_lines(self):
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _read_stderr(self):
        while chunk := os.read(self.process.stderr.fileno(), 65536):
            self.stderr += chunk

    def send(self, **request):
        """Returns the id that the answers will have."""
        self._last_id += 1
        line = json.dumps({"id": self._last_id, **request}).encode() + b"\n"
        try:
            self.process.stdin.write(line)
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Gone(self.describe_end()) from None
        return self._last_id

    def next_answer(self, timeout=ANSWER_BOUND):
        """The next line that cella writes, whatever it answers."""
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            raise Gone(f"no answer within {timeout} s; {self.describe()}") from None
        if line is None:
            self._lines.put(None)
            raise Gone(self.describe_end())
        return json.loads(line)

    def answer(self, number, timeout=ANSWER_BOUND):
        """The next line for that request; those for others wait for whoever asks for them."""
        for index, answer in enumerate(self._kept):
            if answer.get("id") == number:
                return self._kept.pop(index)
        while (answer := self.next_answer(timeout)).get("id") != number:
            self._kept.append(answer)
        return answer

    def ask(self, **request):
        return self.answer(self.send(**request))

    def run(self, code, **more):
        """The Result; more are keys of the request."""
        answer = self.ask(code=code, **more)
        assert "result" in answer, answer
        return answer["result"]

    def value(self, code, **more):
        """The value of code that must succeed."""
        result = self.run(code, **more)
        assert result["status"] == "ok", result
        return result["value"]

    def family(self):
        """Everybody that has been started for the session and is alive now."""
        return Family(self.pid)

    def end_input(self):
        self.process.stdin.close()

    def finish(self, timeout=10.0):
        """Waits for the end that the test brought about. Returns the exit code as a shell would show it."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise Gone(f"still alive after {timeout} s; {self.describe()}") from None
        for reader in self._readers:
            reader.join(timeout)
            assert not reader.is_alive(), "somebody still holds the output"
        return code if code >= 0 else 128 - code

    def describe(self):
        return f"cella: {self.process.poll()}, stderr: {self.stderr.decode(errors='replace')}"

    def describe_end(self):
        """Of a cella that closed its end: with its exit code and all of its stderr, which may still be on their way."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        self._readers[1].join(5)
        return self.describe()

    def close(self):
        """Ends the session as its user does, and checks that nothing of it stays."""
        family = self.family()
        self.end_input()
        code = self.finish()
        assert code == 0, self.describe()
        assert self.stderr == b"", self.describe()
        family.assert_gone()
        assert cgroups_of([self.pid]) == []
        assert scratch_of([self.pid], self.temporary) == []

    def release(self):
        """Whatever happened: no process and no descriptor stays."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self.process.wait()
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        wait_until(lambda: not any(reader.is_alive() for reader in self._readers), 5)
        self.process.stdout.close()
        self.process.stderr.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        try:
            if kind is None and self.process.poll() is None:
                self.close()
        finally:
            self.release()
