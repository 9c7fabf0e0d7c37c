"""Files of code in a directory that guests can write to: no link is followed, nothing is waited for, and a file that
several runs share goes away with the last of them."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ._blocks import NotInWorkspace

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
# A link, a file or a directory where none may be, or a name that no file can have.
_IN_THE_WAY = (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENOTEMPTY, errno.EEXIST, errno.ENAMETOOLONG)

# Files in use by runs of this process. Two runs of the same code share a file, since its name is made of the code: the
# first to end must not take it away from the other.
_in_use: Counter[str] = Counter()
_lock = threading.Lock()


class CodeFiles:
    """What one call writes below `root`, a real path."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._written: list[Path] = []

    @property
    def first(self) -> str | None:
        return str(self._root / self._written[0]) if self._written else None

    def write(self, relative: Path, content: bytes) -> Path:
        """Puts the content there, whatever is there. Raises NotInWorkspace when a guest has put a link in the way."""
        with _lock:
            try:
                with _opened_parent(self._root, relative, make=True) as parent:
                    _replace(parent, relative.name, content)
            except OSError as error:
                if error.errno in _IN_THE_WAY:
                    raise NotInWorkspace(str(relative)) from None
                raise
            _in_use[str(self._root / relative)] += 1
        self._written.append(relative)
        return self._root / relative

    def release(self, *, remove: bool) -> list[str]:
        """Ends the use of all files; returns what could not be removed, and why."""
        failures = []
        for relative in self._written:
            path = str(self._root / relative)
            with _lock:
                _in_use[path] -= 1
                if _in_use[path] > 0:
                    continue
                del _in_use[path]
                if remove:
                    try:
                        _remove(self._root, relative)
                    except OSError as error:
                        failures.append(f"{path}: {error}")
        return failures


@contextlib.contextmanager
def _opened_parent(root: Path, relative: Path, *, make: bool) -> Iterator[int]:
    """The directory that holds the file. Component by component: a path is checked in vain when a guest may swap a part
    of it for a link before it is used."""
    current = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in relative.parts[:-1]:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=current)
            below = os.open(part, _DIRECTORY, dir_fd=current)
            os.close(current)
            current = below
        yield current
    finally:
        os.close(current)


def _replace(parent: int, name: str, content: bytes) -> None:
    """Under a fresh name first, then renamed: a link or a pipe of that name is replaced, not written to, and another
    run of the same code never sees half of it."""
    fresh = f".cella_{secrets.token_hex(8)}"
    # The group and others by the caller's umask, as with any file that it writes.
    opened = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666, dir_fd=parent)
    try:
        with os.fdopen(opened, "wb") as file:
            file.write(content)
        os.rename(fresh, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(fresh, dir_fd=parent)
        raise


def _remove(root: Path, relative: Path) -> None:
    with contextlib.suppress(FileNotFoundError), _opened_parent(root, relative, make=False) as parent:
        os.unlink(relative.name, dir_fd=parent)
