"""Cella runs the code that an AI agent wrote: safely, statefully and fast.

    async with cella.Session() as session:
        result = await session.run("6 * 7")

The synchronous twin is in `cella.sync`. Names are loaded when they are first used, so that a cold start is short.
"""

from __future__ import annotations

from cella._version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cella._async.batch import BatchItem, run_batch
    from cella._async.client import Client
    from cella._async.session import Session
    from cella._async.stream import Run, RunStream
    from cella.config import (
        Executor,
        LocalConfig,
        LocalExecutor,
        Mount,
        SandboxConfig,
        SandboxExecutor,
    )
    from cella.errors import (
        ApiError,
        AuthenticationError,
        CellaError,
        Conflict,
        ConnectionFailed,
        ForkedError,
        IncompatibleServer,
        InvalidRequest,
        NotAllowed,
        NotFound,
        ProgramNotFound,
        ProtocolError,
        ServerBusy,
        ServerDied,
        ServerStartError,
        SessionClosed,
        TooLarge,
    )
    from cella.result import Event, FileChange, Output, Result, RunError, Usage

_PLACES = {
    "cella._async.batch": ("BatchItem", "run_batch"),
    "cella._async.client": ("Client",),
    "cella._async.session": ("Session",),
    "cella._async.stream": ("Run", "RunStream"),
    "cella.config": ("Executor", "LocalConfig", "LocalExecutor", "Mount", "SandboxConfig", "SandboxExecutor"),
    "cella.errors": (
        "ApiError", "AuthenticationError", "CellaError", "Conflict", "ConnectionFailed", "ForkedError",
        "IncompatibleServer", "InvalidRequest", "NotAllowed", "NotFound", "ProgramNotFound", "ProtocolError",
        "ServerBusy", "ServerDied", "ServerStartError", "SessionClosed", "TooLarge",
    ),
    "cella.result": ("Event", "FileChange", "Output", "Result", "RunError", "Usage"),
}
_WHERE = {name: module for module, names in _PLACES.items() for name in names}

__all__ = [
    "ApiError", "AuthenticationError", "BatchItem", "CellaError", "Client", "Conflict", "ConnectionFailed", "Event",
    "Executor", "FileChange", "ForkedError", "IncompatibleServer", "InvalidRequest", "LocalConfig", "LocalExecutor",
    "Mount", "NotAllowed", "NotFound", "Output", "ProgramNotFound", "ProtocolError", "Result", "Run", "RunError",
    "RunStream", "SandboxConfig", "SandboxExecutor", "ServerBusy", "ServerDied", "ServerStartError", "Session",
    "SessionClosed", "TooLarge", "Usage", "__version__", "run_batch",
]


def __getattr__(name: str) -> object:
    module = _WHERE.get(name)
    if module is None:
        raise AttributeError(f"module 'cella' has no attribute {name!r}")
    value = getattr(__import__(module, fromlist=[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
