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
    from cella._container import ContainerConfig, ContainerExecutor
    from cella.config import (
        Environment,
        Executor,
        InProcessConfig,
        InProcessExecutor,
        LocalConfig,
        LocalExecutor,
        Mount,
        SandboxConfig,
        SandboxExecutor,
        SubprocessConfig,
        SubprocessExecutor,
    )
    from cella.errors import (
        ApiError,
        ArtifactError,
        ArtifactNotFoundError,
        AuthenticationError,
        CellaError,
        Conflict,
        ConnectionFailed,
        DepsDisabledError,
        DepsError,
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
        Unsupported,
        WorkflowError,
    )
    from cella.result import Event, FileChange, Output, Result, RunError, Text, Usage
    from cella.storage import FileStorage

_PLACES = {
    "cella._async.batch": ("BatchItem", "run_batch"),
    "cella._container": ("ContainerConfig", "ContainerExecutor"),
    "cella._async.client": ("Client",),
    "cella._async.session": ("Session",),
    "cella._async.stream": ("Run", "RunStream"),
    "cella.config": (
        "Environment", "Executor", "InProcessConfig", "InProcessExecutor", "LocalConfig", "LocalExecutor", "Mount",
        "SandboxConfig", "SandboxExecutor", "SubprocessConfig", "SubprocessExecutor",
    ),
    "cella.errors": (
        "ApiError", "ArtifactError", "ArtifactNotFoundError", "AuthenticationError", "CellaError", "Conflict",
        "ConnectionFailed", "DepsDisabledError", "DepsError", "ForkedError", "IncompatibleServer", "InvalidRequest",
        "NotAllowed", "NotFound", "ProgramNotFound", "ProtocolError", "ServerBusy", "ServerDied", "ServerStartError",
        "SessionClosed", "TooLarge", "Unsupported", "WorkflowError",
    ),
    "cella.result": ("Event", "FileChange", "Output", "Result", "RunError", "Text", "Usage"),
    "cella.storage": ("FileStorage",),
}
_WHERE = {name: module for module, names in _PLACES.items() for name in names}

__all__ = [
    "ApiError", "ArtifactError", "ArtifactNotFoundError", "AuthenticationError", "BatchItem", "CellaError", "Client",
    "Conflict", "ConnectionFailed", "ContainerConfig", "ContainerExecutor", "DepsDisabledError", "DepsError",
    "Environment", "Event", "Executor", "FileChange", "FileStorage", "ForkedError", "InProcessConfig",
    "InProcessExecutor", "IncompatibleServer", "InvalidRequest", "LocalConfig", "LocalExecutor", "Mount",
    "NotAllowed", "NotFound", "Output", "ProgramNotFound", "ProtocolError", "Result", "Run", "RunError", "RunStream",
    "SandboxConfig", "SandboxExecutor", "ServerBusy", "ServerDied", "ServerStartError", "Session", "SessionClosed",
    "SubprocessConfig", "SubprocessExecutor", "Text", "TooLarge", "Unsupported", "Usage", "WorkflowError",
    "__version__", "run_batch",
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
