"""The synchronous twin of `cella`: the same names without await. It does not import asyncio.

    with cella.sync.Session() as session:
        result = session.run("6 * 7")
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cella._sync.batch import BatchItem, run_batch
    from cella._sync.client import Client
    from cella._sync.session import Session
    from cella._sync.stream import Run, RunStream

_WHERE = {
    "BatchItem": "cella._sync.batch",
    "Client": "cella._sync.client",
    "Run": "cella._sync.stream",
    "RunStream": "cella._sync.stream",
    "Session": "cella._sync.session",
    "run_batch": "cella._sync.batch",
}

__all__ = ["BatchItem", "Client", "Run", "RunStream", "Session", "run_batch"]


def __getattr__(name: str) -> object:
    module = _WHERE.get(name)
    if module is None:
        raise AttributeError(f"module 'cella.sync' has no attribute {name!r}")
    value = getattr(__import__(module, fromlist=[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
