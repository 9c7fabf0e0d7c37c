"""What sessions can do, in words. A server lists those of an open session (src/run/capability.cc)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Optional

_CELLS = ("completion", "display", "errors", "input", "interrupt", "reset", "state", "value")
# Before a session is open.
_BEFORE: dict[str, tuple[str, ...]] = {
    "sandbox": (*_CELLS, "calls", "checkpoints", "deps", "files", "jail"),
    "local": ("calls", "deps", "files"),
    "subprocess": (*_CELLS, "calls", "deps", "files"),
    "container": (*_CELLS, "calls"),
    "inprocess": (*_CELLS, "calls", "deps"),
}
_ISOLATION: dict[str, tuple[str, ...]] = {
    "sandbox": ("process_isolation", "filesystem_isolation", "memory_limit", "cpu_limit"),
    "local": ("process_isolation", "memory_limit", "cpu_limit"),
    "subprocess": ("process_isolation", "memory_limit", "cpu_limit"),
    "container": ("process_isolation", "filesystem_isolation", "memory_limit", "cpu_limit"),
}


def capabilities_of(
    executor: str, policy: Mapping[str, Any], description: Optional[Mapping[str, Any]] = None
) -> frozenset[str]:
    """Of a session that is open, if it has a description; else of one that will be."""
    if description is not None:
        return frozenset(description.get("capabilities", ()))
    words = {*_BEFORE.get(executor, ()), *_ISOLATION.get(executor, ()), "timeout"}
    jailed = executor == "sandbox" or (executor == "subprocess" and policy.get("jail") is True)
    if jailed:
        words |= {"jail", "filesystem_isolation"}
    if (jailed or executor == "container") and policy.get("network", "none") == "none":
        words.add("network_isolation")
    if "deps" in words and policy.get("allow_runtime_deps") is not False:
        words |= {"deps_install", "deps_uninstall"}
    return frozenset(words)


def inprocess_capabilities(policy: Mapping[str, Any]) -> list[str]:
    """Of the package's own executor, as a server lists those of its sessions."""
    return sorted(capabilities_of("inprocess", policy))
