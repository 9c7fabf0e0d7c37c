"""Drop-in code executors for AutoGen 0.4.7 and later: the same classes and options, with ends that are real and a jail.

Needs autogen-core: `pip install cella[autogen]`.
"""

from __future__ import annotations

try:
    import autogen_core as _autogen_core  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "autogen_core":
        raise
    raise ModuleNotFoundError(
        "cella.autogen needs autogen-core, for Python 3.10 or later: pip install 'cella[autogen]'", name="autogen_core"
    ) from None

from ._docker import DockerCommandLineCodeExecutor, DockerCommandLineCodeExecutorConfig
from ._jupyter import JupyterCodeExecutor, JupyterCodeExecutorConfig, JupyterCodeResult
from ._local import LocalCommandLineCodeExecutor, LocalCommandLineCodeExecutorConfig
from ._results import CommandLineCodeResult
from ._sandbox import SandboxCommandLineCodeExecutor, SandboxCommandLineCodeExecutorConfig
from ._tool import CodeExecutionInput, CodeExecutionResult, PythonCodeExecutionTool, PythonCodeExecutionToolConfig

__all__ = [
    "CodeExecutionInput",
    "CodeExecutionResult",
    "CommandLineCodeResult",
    "DockerCommandLineCodeExecutor",
    "DockerCommandLineCodeExecutorConfig",
    "JupyterCodeExecutor",
    "JupyterCodeExecutorConfig",
    "JupyterCodeResult",
    "LocalCommandLineCodeExecutor",
    "LocalCommandLineCodeExecutorConfig",
    "PythonCodeExecutionTool",
    "PythonCodeExecutionToolConfig",
    "SandboxCommandLineCodeExecutor",
    "SandboxCommandLineCodeExecutorConfig",
]
