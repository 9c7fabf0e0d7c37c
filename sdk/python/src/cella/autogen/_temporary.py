"""Temporary directories that guests have written to. The process that made one removes it; a child made by fork does
not, and nothing that a guest left in it leads elsewhere or keeps it there."""

from __future__ import annotations

import atexit
import contextlib
import os
import tempfile
import weakref

from cella import _private_server

_NO_LINK = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# With the process that made each.
_live: dict[str, int] = {}


class TemporaryDirectory:
    """Lives until `remove`, or as long as this object, or the process."""

    def __init__(self, prefix: str) -> None:
        self.path = tempfile.mkdtemp(prefix=prefix)
        _live[self.path] = os.getpid()
        self.remove = weakref.finalize(self, _remove, self.path)
        self.remove.atexit = False


def _remove(path: str) -> None:
    if _live.pop(path, None) == os.getpid():
        with contextlib.suppress(FileNotFoundError):
            _empty(path)
            os.rmdir(path)


def _remove_all() -> None:
    if os.getpid() in _live.values():
        # Guests that are still on would go on writing.
        _private_server.stop()
    for path in list(_live):
        with contextlib.suppress(OSError):
            _remove(path)


atexit.register(_remove_all)


def _empty(path: str) -> None:
    """Directories below are first moved up, so that no depth is too deep; no link is followed."""
    root = os.open(path, os.O_RDONLY | _NO_LINK)
    try:
        while names := os.listdir(root):
            for name in names:
                # A call that ends just now removes files of its own.
                with contextlib.suppress(FileNotFoundError):
                    _remove_entry(name, root)
    finally:
        os.close(root)


def _remove_entry(name: str, root: int) -> None:
    """What is in a directory is moved up or removed with it."""
    below = _opened(name, root)
    if below is None:
        os.unlink(name, dir_fd=root)
        return
    try:
        for each in os.listdir(below):
            # Opened for its permissions: a directory that cannot be written to cannot be moved.
            moved = _opened(each, below)
            if moved is None:
                os.unlink(each, dir_fd=below)
                continue
            os.close(moved)
            os.rename(each, f".{os.urandom(16).hex()}", src_dir_fd=below, dst_dir_fd=root)
    finally:
        os.close(below)
    os.rmdir(name, dir_fd=root)


def _opened(name: str, parent: int) -> int | None:
    """A directory, with the permissions that its guest may have taken away; nothing if it is none."""
    try:
        found = os.open(name, os.O_PATH | _NO_LINK, dir_fd=parent)
    except NotADirectoryError:  # also of a link
        return None
    try:
        # By this name, since chmod itself would follow a link.
        os.chmod(f"/proc/self/fd/{found}", 0o700)
        return os.open(".", os.O_RDONLY | _NO_LINK, dir_fd=found)
    finally:
        os.close(found)
