"""Python programs in processes of their own, for what happens to a whole process."""

import os
import signal
import subprocess
import sys
import textwrap
import threading

from support.descendants import Family
from support.running import wait_until

BOUND = 60.0


class Child:
    """A script that says something on each line of its output. Its descendants are known after `family`."""

    def __init__(self, script, *words, env=None, **options):
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script), *map(str, words)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **(env or {})}, **options,
        )
        self.pid = self.process.pid
        self.said, self.complained = [], []
        self._readers = [
            threading.Thread(target=self._read, args=(stream, into), daemon=True)
            for stream, into in ((self.process.stdout, self.said), (self.process.stderr, self.complained))
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _read(stream, into):
        for line in stream:
            into.append(line.rstrip("\n"))

    def wait_for(self, line):
        seen = wait_until(lambda: line in self.said or self.process.poll() is not None, BOUND)
        assert seen and line in self.said, self.describe()

    def answer(self, key):
        """The rest of the line that begins with the key."""
        assert wait_until(lambda: any(line.startswith(key + " ") for line in self.said), BOUND), self.describe()
        return next(line for line in self.said if line.startswith(key + " ")).partition(" ")[2]

    def tell(self, line=""):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def family(self):
        return Family(self.pid)

    def finish(self, seconds=BOUND):
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running: {self.describe()}") from None
        for reader in self._readers:
            reader.join(10)
            assert not reader.is_alive(), "another process still holds its output"
        return code

    def describe(self):
        return f"{self.process.poll()}: {self.said}, {self.complained}"

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        if self.process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
            self.process.wait()
        for reader in self._readers:
            reader.join(10)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()


def run_script(script, *words, **options):
    """The lines of a script that must end well."""
    with Child(script, *words, **options) as child:
        assert child.finish() == 0, child.describe()
        return child.said
