"""`cella serve` for tests that need a server of another kind than the private one."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading

from support.running import wait_until

TOKEN = "a-token-for-tests"


class Server:
    """On TCP with a token and on a Unix socket, with what `config` adds to its configuration."""

    def __init__(self, config=""):
        self.directory = tempfile.mkdtemp(prefix="cella-sdk-", dir="/tmp")
        self.socket = f"{self.directory}/s"
        tokens = f"{self.directory}/tokens"
        with open(os.open(tokens, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(f"tester:{TOKEN}\n")
        with open(f"{self.directory}/cella.toml", "w") as file:
            file.write('[server]\ndrain_grace = "200ms"\n' + config)
        self.process = subprocess.Popen(
            [
                os.environ["CELLA_BIN"], "serve", "--config", file.name, "--state-dir", f"{self.directory}/state",
                "--token-file", tokens, "--listen", f"unix:{self.socket}", "--listen", "127.0.0.1:0",
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        self.words = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        ready = wait_until(lambda: len(self._addresses()) == 2 or self.process.poll() is not None, 20)
        if not ready or self.process.poll() is not None:
            self.stop()
            raise AssertionError(self.words)
        self.url = next(f"http://{address}" for address in self._addresses() if address[0].isdigit())
        self.unix_url = f"unix:{self.socket}"

    def _read(self):
        for line in self.process.stderr:
            self.words.append(line)

    def _addresses(self):
        return [found[1] for line in self.words if (found := re.match(r"listening on (\S+)", line))]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)
        self._reader.join(10)
        self.process.stderr.close()
        shutil.rmtree(self.directory)


@contextlib.contextmanager
def serving(config=""):
    server = Server(config)
    try:
        yield server
    finally:
        server.stop()
