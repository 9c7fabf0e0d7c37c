"""The server of this process: started on first use, on a Unix socket that only this user can reach.

A guest of a jail that this user started has the user's uid, so every request also needs a secret. The server reads it
from its standard input; it is in no file, argument or environment variable, and the server keeps only its hash.

It ends with the process, however that ends. A child made by fork has none until it uses one, which is then its own.
Imports are few: the server starts while the rest of the package is still being loaded.
"""

from __future__ import annotations

import atexit
import os
import select
import sys
from _thread import allocate_lock
from resource import RLIMIT_NOFILE, getrlimit

from cella._private_directory import PrivateDirectory, sweep
from cella._programs import find_program
from cella.errors import CellaError, ServerDied, ServerStartError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

_STOP_BOUND = 5.0
_LAST_WORDS = 4096
# Of one session in the server: 17, its connections, and two for each of a few named checkpoints.
_DESCRIPTORS = 24
_SIGTERM, _SIGKILL = 15, 9
_READY = "listening on "
# Set by the program that started this process; they are not meant for its server.
_NOT_INHERITED = ("NOTIFY_SOCKET", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")


def _quoted(text: str) -> str:
    """A TOML string."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ServerStartError(f"the path {text!r} is not UTF-8, which the configuration has to be") from None
    return '"' + "".join(c if c >= " " and c not in '"\\\x7f' else f"\\u{ord(c):04x}" for c in text) + '"'


def _default_python() -> dict[str, str]:
    """The caller's own interpreter, or its virtual environment, in the words of a policy."""
    if sys.prefix != sys.base_prefix:
        return {"venv": os.path.abspath(sys.prefix)}
    return {"python": os.path.realpath(sys.executable)} if sys.executable else {}


def _most_sessions() -> int:
    """As many as there are descriptors for; a server that runs out of them fails in worse ways than a refusal."""
    _, most = getrlimit(RLIMIT_NOFILE)
    return 8192 if most < 0 else max(8, min(8192, (most - 512) // _DESCRIPTORS))


def _configuration(directory: str, state: str) -> str:
    """Only its own user can reach this server: it allows what that user may do anyway."""
    policy = "\n".join(f"{key} = {_quoted(value)}" for key, value in _default_python().items())
    return f"""\
[server]
listen = [{_quoted(f"unix:{directory}/s")}]
state_dir = {_quoted(f"{state}/state")}
runtime_dir = {_quoted(f"{state}/run")}
max_body = "1g"
max_connections = 8192
drain_grace = "1ms"
[sessions]
max_sessions = {_most_sessions()}
max_queued_runs = 1024
idle_timeout = "365d"
max_lifetime = "365d"
[policy]
{policy}
[allow]
executors = ["sandbox", "local", "subprocess", "container", "inprocess"]
network_host = true
whole_machine = true
[maxima]
memory = "1024t"
pids = 4194304
disk = "1024t"
timeout = "365d"
cpu_time = "365d"
output = "1g"
open_files = 1048576
calls = 1000000000
idle_timeout = "365d"
max_lifetime = "365d"
[log]
level = "error"
format = "text"
"""


def _inheritable() -> list[int]:
    """Descriptors that an exec would pass on. A server must not keep pipes of other programs open."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) > 2 and os.get_inheritable(int(name)):
                found.append(int(name))
        except OSError:
            pass  # the list's own, or closed by another thread
    return found


def _pipe_with(content: bytes) -> int:
    """A pipe to read this from, and then its end."""
    reading, writing = os.pipe()
    try:
        os.write(writing, content)  # fewer bytes than every pipe has room for
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return reading


class PrivateServer:
    """A server process, known by a pidfd. Safe to use from any thread."""

    def __init__(self) -> None:
        program = find_program()
        self.owner = os.getpid()
        self.ready = False
        self._words = b""
        self._end: Optional[str] = None
        self._lock = allocate_lock()
        self.token = os.urandom(32).hex()
        self._directory = PrivateDirectory()
        try:
            self._state = PrivateDirectory(is_state=True)
        except BaseException:
            self._directory.remove()
            raise
        self.socket = self._directory / "s"
        try:
            config = self._directory.write("cella.toml", _configuration(self._directory.path, self._state.path))
            self._stderr, self._pid = self._spawn(program, config)
            try:
                self._pidfd = os.pidfd_open(self._pid)
            except OSError:
                os.close(self._stderr)
                raise
        except OSError as error:
            self._remove()
            raise ServerStartError(f"the private server cannot be started with {program}: {error}") from error
        except BaseException:
            self._remove()
            raise

    def _remove(self) -> None:
        self._directory.remove()
        self._state.remove()

    def _spawn(self, program: str, config: str) -> tuple[int, int]:
        reading, writing = os.pipe()
        tokens = -1
        try:
            # Output without a reader is dropped; it must never block the server.
            os.set_blocking(reading, False)
            os.set_blocking(writing, False)
            tokens = _pipe_with(f"local:{self.token}\n".encode())
            actions: list[tuple[object, ...]] = [
                (os.POSIX_SPAWN_DUP2, tokens, 0),
                (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
                (os.POSIX_SPAWN_DUP2, writing, 2),
                *((os.POSIX_SPAWN_CLOSE, descriptor) for descriptor in _inheritable()),
            ]
            environment = {key: value for key, value in os.environ.items() if key not in _NOT_INHERITED}
            words = [program, "serve", "--config", config, "--exit-with", str(os.getpid()), "--token-fd", "0"]
            # A session of its own: a terminal's Ctrl-C is for its user's code.
            pid = os.posix_spawn(
                program, words, environment, file_actions=actions, setsid=True, setsigmask=()
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
            if tokens >= 0:
                os.close(tokens)
        return reading, pid

    def descriptors(self) -> tuple[int, int]:
        """Readable when it says something, or has ended."""
        return self._stderr, self._pidfd

    def listen(self) -> None:
        """Takes what it has said since. Knows afterwards whether it is ready."""
        with self._lock:
            while self._stderr >= 0:
                try:
                    said = os.read(self._stderr, 65536)
                except OSError:
                    return
                if not said:
                    return
                if not self.ready and _READY.encode() in self._words[-64:] + said:
                    for parent in {os.path.dirname(each.path) for each in (self._directory, self._state)}:
                        sweep(parent)
                    self.ready = True
                self._words = (self._words + said)[-_LAST_WORDS:]

    def died(self, patience: float = 0.0) -> Optional[str]:
        """How it ended, with its last words; nothing while it lives. One that is about to end has so many seconds."""
        if self._end is None and self._has_ended(patience):
            self.listen()
            with self._lock:
                self._end = self._end or self._how_it_ended()
        return self._end

    def _has_ended(self, seconds: float) -> bool:
        if self._pidfd < 0:
            return True
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def _how_it_ended(self) -> str:
        lines = self._words.decode("utf-8", "replace").splitlines()
        words = "\n".join(line for line in lines if line and not line.startswith(_READY))
        how = "ended"
        try:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
                how = f"was killed by signal {signal}" if signal else f"ended with {os.WEXITSTATUS(status)}"
        except ChildProcessError:
            pass  # other code has waited for every child of this process
        return f"the private server {how}" + (f"; its last words: {words}" if words else "")

    def error(self, patience: float = 0.0) -> Optional[CellaError]:
        """What to raise when it is gone. The next caller that needs a server starts a new one."""
        end = self.died(patience)
        if end is None:
            return None
        forget(self)
        return ServerDied(f"{end}. Its sessions are lost; a new session starts a new one") if self.ready else (
            ServerStartError(end)
        )

    def stop(self) -> None:
        """Ends it, with all that it runs, within a bound; removes its directory."""
        if self.died() is None:
            self._signal(_SIGTERM)
            if not self._has_ended(_STOP_BOUND):
                self._signal(_SIGKILL)
                self._has_ended(_STOP_BOUND)
            self.died()
        self._close()
        self._remove()

    def _signal(self, number: int) -> None:
        from signal import pidfd_send_signal

        try:
            pidfd_send_signal(self._pidfd, number)
        except ProcessLookupError:
            pass

    def _close(self) -> None:
        with self._lock:
            for descriptor in (self._stderr, self._pidfd):
                if descriptor >= 0:
                    os.close(descriptor)
            self._stderr = self._pidfd = -1

    def disown(self) -> None:
        """In a child made by fork: everything of it is the parent's."""
        self._lock = allocate_lock()
        self._end = "the private server belongs to the parent process"
        self.token = ""
        self._close()
        self._directory.disown()
        self._state.disown()


_current: Optional[PrivateServer] = None
_lock = allocate_lock()


def private_server() -> PrivateServer:
    """The server of this process, started now if there is none. It may not be ready yet."""
    global _current
    with _lock:
        if _current is not None and _current.died() is not None:
            _current.stop()
            _current = None
        if _current is None:
            _current = PrivateServer()
        return _current


def forget(server: PrivateServer) -> None:
    """Removes what is left of one that died."""
    global _current
    with _lock:
        if _current is server:
            _current = None
            server.stop()


def stop() -> None:
    """Ends the server of this process, if there is one, with all that runs on it. A later use starts another."""
    global _current
    with _lock:
        server, _current = _current, None
        if server is not None:
            server.stop()


def _forget_in_child() -> None:
    # Another thread may have held the lock at the fork, and no thread would ever release it here.
    global _current, _lock
    _lock = allocate_lock()
    server, _current = _current, None
    if server is not None:
        server.disown()


atexit.register(stop)
os.register_at_fork(after_in_child=_forget_in_child)
