"""What sessions can do, in words. A server lists those of a session; isolation follows from what it enforces."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Optional

_CELLS = ("completion", "display", "errors", "input", "interrupt", "reset", "state", "value")
# Before a session is open.
_BEFORE: dict[str, tuple[str, ...]] = {
    "sandbox": (*_CELLS, "calls", "checkpoints", "deps", "files", "jail"),
    "local": ("calls", "files"),
    "subprocess": (*_CELLS, "calls", "deps", "files"),
    "container": (*_CELLS, "calls"),
    "inprocess": (*_CELLS, "calls"),
}
_ISOLATION: dict[str, tuple[str, ...]] = {
    "sandbox": ("process_isolation", "filesystem_isolation", "memory_limit", "cpu_limit"),
    "local": ("process_isolation", "memory_limit", "cpu_limit"),
    "subprocess": ("process_isolation", "memory_limit", "cpu_limit"),
    "container": ("process_isolation", "filesystem_isolation", "memory_limit", "cpu_limit"),
}
_LIMITS = {"memory": "memory_limit", "cpus": "cpu_limit", "cpu_time": "cpu_limit"}


def capabilities_of(
    executor: str, policy: Mapping[str, Any], description: Optional[Mapping[str, Any]] = None
) -> frozenset[str]:
    """Of a session that is open, if it has a description; else of one that will be."""
    if description is None:
        words = {*_BEFORE.get(executor, ()), *_ISOLATION.get(executor, ())}
        jailed = executor == "sandbox" or (executor == "subprocess" and policy.get("jail") is True)
        if jailed:
            words |= {"jail", "filesystem_isolation"}
        isolated_network = (jailed or executor == "container") and policy.get("network", "none") == "none"
    else:
        words = set(description.get("capabilities", ()))
        isolation = description.get("isolation") or {}
        namespaces = isolation.get("namespaces") or ()
        if executor != "inprocess" or "files" in words:  # one that a server runs is a process
            words.add("process_isolation")
        if "mount" in namespaces or "mnt" in namespaces:
            words.add("filesystem_isolation")
        words.update(word for limit, word in _LIMITS.items() if limit in (isolation.get("limits") or {}))
        isolated_network = isolation.get("network") == "none"
    if isolated_network:
        words.add("network_isolation")
    if "deps" in words:
        words |= {"deps_install", "deps_uninstall"}
    return frozenset({*words, "timeout"})


def inprocess_capabilities() -> list[str]:
    """Of the package's own executor, as a server would list them."""
    return sorted(_BEFORE["inprocess"])
