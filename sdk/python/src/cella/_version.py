"""The version of the package, which is that of the programs it talks to."""

from __future__ import annotations

__version__ = "0.1.0"


def compatible(version: str) -> bool:
    """Whether a server of this version speaks as we do: the same major version, below 1.0 also the same minor."""
    ours, theirs = __version__.split("."), version.split(".")
    return ours[: 2 if ours[0] == "0" else 1] == theirs[: 2 if ours[0] == "0" else 1]
