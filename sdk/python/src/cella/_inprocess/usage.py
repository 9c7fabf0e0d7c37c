"""What a session in this process uses now, as far as the kernel's files tell (Linux)."""

from __future__ import annotations

import os
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Optional


def measure(alive: bool, threads: Iterable[threading.Thread]) -> dict[str, Any]:
    """Memory is that of the whole process, which the session shares; processor time is that of its living threads."""
    return {"alive": alive, "memory": _memory(), "cpu_ms": _cpu_ms(threads), "processes": 1 if alive else 0}


def _memory() -> Optional[int]:
    try:
        with open("/proc/self/statm", "rb") as file:
            _, resident, shared = map(int, file.read().split()[:3])
    except (OSError, ValueError):
        return None
    return (resident - shared) * os.sysconf("SC_PAGESIZE")


def _cpu_ms(threads: Iterable[threading.Thread]) -> Optional[float]:
    total = 0
    for thread in threads:
        try:
            with open(f"/proc/self/task/{thread.native_id}/schedstat", "rb") as file:
                total += int(file.read().split()[0])
        except FileNotFoundError:
            continue  # it has ended
        except (OSError, ValueError, IndexError):
            return None
    return round(total / 1e6, 3)
