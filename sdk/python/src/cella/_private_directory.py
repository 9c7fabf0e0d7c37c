"""The directories of a private server, which only its user can look into: one for its socket and configuration, and one
for its state and what runs have written, which may need more room than /dev/shm has (64 MB in a container).

They are removed with the server. One whose process was killed is found by its lock, which the kernel released, and
removed by the next server of the same user.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time

from cella.errors import ServerStartError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Callable

# Of sockaddr_un, with the end of the text.
_MAX_SOCKET_PATH = 107
_SETTLED_AFTER = 60.0
_LOCK = "lock"


def _prefix() -> str:
    return f"cella-py-{os.geteuid()}-"


def _candidates(is_state: bool) -> Iterator[str]:
    """Where sockets belong first, then where temporary files do; for the state the other way round."""
    runtime, files = (os.environ.get("XDG_RUNTIME_DIR"), "/dev/shm"), (os.environ.get("TMPDIR"), "/tmp", "/var/tmp")
    for path in (*files, *runtime) if is_state else (*runtime, *files):
        if path and os.path.isabs(path):
            yield os.path.normpath(path)


def remove_tree(path: str) -> None:
    """Removes what is there; what vanishes meanwhile or belongs to another is passed over."""
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    remove_tree(entry.path)
                else:
                    _quietly(os.unlink, entry.path)
    except OSError:
        pass
    _quietly(os.rmdir, path)


def _quietly(work: Callable[[str], None], path: str) -> None:
    try:
        work(path)
    except OSError:
        pass


class PrivateDirectory:
    """Made at birth, 0700; unless it is for the state, with a name that fits into the address of a socket."""

    def __init__(self, is_state: bool = False) -> None:
        self.path = self._make(is_state)
        self._lock = os.open(os.path.join(self.path, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def __truediv__(self, name: str) -> str:
        return f"{self.path}/{name}"

    @staticmethod
    def _make(is_state: bool) -> str:
        refused = []
        for parent in _candidates(is_state):
            name = f"{parent}/{_prefix()}{os.urandom(5).hex()}"
            if not is_state and len(os.fsencode(name)) + len("/s") > _MAX_SOCKET_PATH:
                refused.append(f"{parent}: too long for the address of a socket")
                continue
            try:
                os.mkdir(name, 0o700)
            except OSError as error:
                refused.append(f"{parent}: {error.strerror}")
                continue
            return name
        raise ServerStartError(
            "no directory for the private server: " + "; ".join(refused) + ". Set TMPDIR to one that you can write to"
        )

    def write(self, name: str, text: str) -> str:
        path = self / name
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
        return path

    def remove(self) -> None:
        remove_tree(self.path)
        self.disown()

    def disown(self) -> None:
        """In a child made by fork: it stays the parent's."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def sweep(parent: str) -> None:
    """Removes the directories of processes that were killed."""
    try:
        with os.scandir(parent) as entries:
            found = [entry.path for entry in entries if entry.name.startswith(_prefix())]
    except OSError:
        return
    for path in found:
        _quietly(_remove_if_abandoned, path)


def _remove_if_abandoned(path: str) -> None:
    info = os.lstat(path)
    # A young one may not have got its lock yet.
    young = time.time() - info.st_ctime < _SETTLED_AFTER
    if young or not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid():
        return
    lock = os.open(os.path.join(path, _LOCK), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove_tree(path)
    finally:
        os.close(lock)
