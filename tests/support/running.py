"""`cella run` for tests: with an environment that the machine does not choose, and checks that hold for every run."""

import contextlib
import os
import signal
import subprocess
import threading
import time

from support.cella import PYTHON, TIME_BOUND, Finished, run_bounded

IS_ROOT = os.geteuid() == 0
LONG = os.environ.get("CELLA_TESTS_LONG") == "1"  # `make test-long`: large numbers instead of their short form

# Started by root, a run has cgroups. An ordinary user's has none where nobody delegated any to it, and lives by
# rlimits and the watchdog of the jail's init.
HAS_CGROUPS = IS_ROOT


def small_disk(directory, size="1m"):
    """A command that starts its arguments with a file system of that size on `directory`: an ordinary user's in a user
    namespace, where its own id stays what it is."""
    script = f'mount -t tmpfs -o size={size},mode=755 none {directory} && exec "$@"'
    if IS_ROOT:
        return ["unshare", "-m", "/bin/sh", "-c", script, "sh"]
    return ["unshare", "-Urm", "/bin/sh", "-c", script, "sh"]


class Run:
    """The `run` command. `env` replaces the environment, `with_env` adds to it; other options go to run_bounded."""

    def __init__(self, cella, environment):
        self.binary = str(cella.binary)
        self.environment = environment

    def argv(self, *words):
        return [self.binary, "run", *map(str, words)]

    def _options(self, options):
        more = options.pop("with_env", {})
        return {"env": {**self.environment, **more}, **options}

    def __call__(self, *words, through=(), **options):
        """Plain output. `through` is a command that starts its arguments, to change what cella is born with."""
        return run_bounded([*through, *self.argv(*words)], **self._options(options))

    def json(self, *words, **options):
        """One Result; whatever happened, the exit code is the one that it tells, and stderr stays empty."""
        finished = self("--json", *words, **options)
        result = finished.result()
        assert result["exit_code"] == finished.exit_code, finished.describe()
        assert finished.stderr == b"", finished.describe()
        return result

    def python(self, code, *flags, args=(), **options):
        """The Result of Python code, run by the distribution's interpreter."""
        return self.json("-c", code, "--python", PYTHON, *flags, *(["--", *args] if args else []), **options)

    def shell(self, code, *flags, args=(), **options):
        return self.json("-c", code, "--lang", "sh", *flags, *(["--", *args] if args else []), **options)

    def rejected(self, *words, code=126, **options):
        """Runs what must be refused, and returns the sentence. The plain form says the same on stderr."""
        result = self.json(*words, **options)
        assert (result["status"], result["exit_code"]) == ("rejected", code), result
        assert result["signal"] is None and result["isolation"] is None, result
        assert result["stdout"] == result["stderr"] == "", result
        assert result["error"]["name"] == "Rejected", result
        plain = self(*words, **options)
        assert (plain.exit_code, plain.stdout) == (code, b""), plain.describe()
        assert plain.stderr.decode() == f"cella: {result['error']['message']}\n", plain.describe()
        return result["error"]["message"]

    @contextlib.contextmanager
    def started(self, *words, through=(), **options):
        with Started([*through, *self.argv(*words)], **self._options(options)) as process:
            yield process


class Started:
    """A command in a session of its own, to be signalled while it runs; its output is collected meanwhile."""

    def __init__(self, argv, *, env, cwd=None, stdin=subprocess.DEVNULL, collect=True):
        self.process = subprocess.Popen(
            argv, env=env, cwd=cwd, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        self.pid = self.process.pid
        self._seen = {"stdout": bytearray(), "stderr": bytearray()}
        self._readers = []
        if collect:
            self.collect()

    def collect(self):
        """Begins to read the output. Not before this when `collect` was false: nobody reads then."""
        for name in ("stdout", "stderr"):
            reader = threading.Thread(target=self._read, args=(name, getattr(self.process, name)), daemon=True)
            reader.start()
            self._readers.append(reader)

    def _read(self, name, stream):
        while chunk := os.read(stream.fileno(), 65536):
            self._seen[name] += chunk

    def wait_for(self, text, stream="stdout"):
        found = wait_until(lambda: text in self._seen[stream] or self.process.poll() is not None)
        assert found and text in self._seen[stream], f"no {text!r} in {bytes(self._seen[stream])!r}"

    def send(self, number):
        self.process.send_signal(number)

    def send_group(self, number):
        """As a terminal does on Ctrl-C: to every process of the group."""
        os.killpg(self.pid, number)

    def finish(self, timeout=TIME_BOUND):
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout} s; {bytes(self._seen['stderr'])!r}") from None
        for reader in self._readers:
            reader.join(timeout)
            assert not reader.is_alive(), "somebody still holds the output"
        return Finished(code if code >= 0 else 128 - code, bytes(self._seen["stdout"]), bytes(self._seen["stderr"]))

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        if self.process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
            self.process.wait()
        for reader in self._readers:
            reader.join(5)
        self.process.stdout.close()
        self.process.stderr.close()


def wait_until(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
