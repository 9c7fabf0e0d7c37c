"""Finds the `cella` program: where CELLA_BIN says, carried in the package, or on PATH."""

from __future__ import annotations

import os
import sys

from cella.errors import ProgramNotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

_CARRIED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_bin", "bin", "cella")


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _is_binary(path: str) -> bool:
    """The command of this package is also called `cella`, and would only look for the program again."""
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def _on_path() -> Optional[str]:
    for directory in os.get_exec_path():
        if not os.path.isabs(directory):
            continue  # below the current directory, where a guest may have left a program
        path = os.path.join(directory, "cella")
        if _is_program(path) and _is_binary(path):
            return os.path.abspath(path)
    return None


def check_platform() -> None:
    """Raises ProgramNotFound where there are no programs, before anything is imported that only Linux has."""
    if sys.platform != "linux":
        raise ProgramNotFound(
            f"the cella program runs on Linux, not on {sys.platform}: give Session the url= of a server on Linux, "
            "or use InProcessExecutor for code that you trust"
        )


def find_program() -> str:
    """The absolute path of the program."""
    check_platform()
    named = os.environ.get("CELLA_BIN")
    if named:
        if _is_program(named):
            return os.path.abspath(named)
        raise ProgramNotFound(f"CELLA_BIN names {named!r}, which is no program: correct it, or unset it")
    if _is_program(_CARRIED):
        return _CARRIED
    found = _on_path()
    if found:
        return found
    machine = os.uname().machine
    raise ProgramNotFound(
        f"there is no cella program for this {machine} machine: install a wheel that carries it (x86-64, arm64), put "
        "cella on PATH, or name it in CELLA_BIN"
    )
