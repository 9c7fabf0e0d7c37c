"""Executors and their configurations: where a session's code runs.

    from cella.execution import InProcessConfig, InProcessExecutor
"""

from __future__ import annotations

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

__all__ = [
    "ContainerConfig", "ContainerExecutor", "Environment", "Executor", "InProcessConfig", "InProcessExecutor",
    "LocalConfig", "LocalExecutor", "Mount", "SandboxConfig", "SandboxExecutor", "SubprocessConfig",
    "SubprocessExecutor",
]
