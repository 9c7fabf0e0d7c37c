"""AutoGen's LocalCommandLineCodeExecutor: the same blocks on the same machine, with ends that are real."""

from __future__ import annotations

import os
import resource
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from autogen_core import Component
from pydantic import BaseModel
from typing_extensions import Self

from cella.config import LocalConfig

from ._environment import fits, usable, virtual_env_at, virtual_env_dir
from ._executor import CommandLineExecutor, _Call
from ._functions import UserFunction

# The code is trusted and may use what its user may use: AutoGen's has no limits either. Its output is kept in memory.
_NO_LIMITS = LocalConfig(
    memory_limit="1024t",
    pids_limit=4_000_000,
    disk_limit="1024t",
    cpu_time_limit="365d",
    output_limit="64m",
    best_effort=True,
    allow_runtime_deps=False,  # its pip is the environment's own, as with AutoGen
)


class LocalCommandLineCodeExecutorConfig(BaseModel):
    """What a LocalCommandLineCodeExecutor is made of."""

    timeout: int | float = 60
    work_dir: str | None = None
    functions_module: str = "functions"
    cleanup_temp_files: bool = True
    virtual_env_dir: str | None = None
    env: dict[str, str] | None = None


class LocalCommandLineCodeExecutor(CommandLineExecutor, Component[LocalCommandLineCodeExecutorConfig]):
    """Runs code blocks on this machine, without a jail: for code that you trust. A drop-in for AutoGen's executor of
    the same name.

    A time-out or a cancelled token ends the whole process tree, and the output so far is kept. What a block leaves
    running ends with it.

    Args:
        timeout: seconds that one block may take; at least 1.
        work_dir: where code and its files are; a temporary directory by default.
        functions: functions that the code can import.
        functions_module: the module that it imports them from.
        cleanup_temp_files: remove the files of the code after each call.
        virtual_env_context: what `venv.EnvBuilder.ensure_directories` returned.
        env: the whole environment of the code; that of this process by default, as with AutoGen.
    """

    component_config_schema = LocalCommandLineCodeExecutorConfig
    component_provider_override = "cella.autogen.LocalCommandLineCodeExecutor"

    def __init__(
        self,
        timeout: float = 60,
        work_dir: Path | str | None = None,
        functions: Sequence[UserFunction] = (),
        functions_module: str = "functions",
        cleanup_temp_files: bool = True,
        virtual_env_context: SimpleNamespace | None = None,
        *,
        env: Mapping[str, str] | None = None,
    ) -> None:
        warnings.warn(
            "Using LocalCommandLineCodeExecutor may execute code on the local machine which can be unsafe. "
            "For security, it is recommended to use SandboxCommandLineCodeExecutor instead: it takes the same options.",
            UserWarning,
            stacklevel=2,
        )
        super().__init__(timeout, work_dir, functions, functions_module, cleanup_temp_files, virtual_env_context)
        self._env = None if env is None else dict(env)

    async def restart(self) -> None:
        """Does nothing: no process outlives a call."""
        warnings.warn(
            "Restarting local command line code executor is not supported. No action is taken.", stacklevel=2
        )

    def _environment(self) -> dict[str, str]:
        variables = usable(os.environ if self._env is None else self._env)
        variables["PATH"] = self._search_path()
        # What was printed before a kill must not be lost in the interpreter's buffer.
        variables.setdefault("PYTHONUNBUFFERED", "1")
        return variables

    def _exports(self) -> dict[str, str]:
        variables = self._environment()
        return {} if fits(variables) else variables

    def _search_path(self) -> str:
        path = (os.environ if self._env is None else self._env).get("PATH", os.defpath)
        if self._virtual_env_context is None:
            return path
        return f"{os.path.abspath(self._virtual_env_context.bin_path)}{os.pathsep}{path}"

    def _policy(self, root: Path) -> dict[str, Any]:
        # Without a working directory of ours the session has one of its own, so that nothing of it is seen in ours.
        variables = self._environment()
        # Too many for a policy are set by the script that starts a program.
        env = variables if fits(variables) else {"PATH": variables["PATH"]}
        config = replace(_NO_LIMITS, open_files_limit=_open_files(), env=env)
        return config.policy(local=True)

    def _python(self) -> str:
        if self._virtual_env_context is not None:
            return os.path.abspath(str(self._virtual_env_context.env_exe))
        return sys.executable

    def _seen(self, root: Path, relative: Path | None = None) -> str:
        return str(root if relative is None else root / relative)

    async def _install(self, packages: Sequence[str], root: Path, call: _Call) -> None:
        await self._pip_install(packages, root, self._policy(root), call)

    def _to_config(self) -> LocalCommandLineCodeExecutorConfig:
        return LocalCommandLineCodeExecutorConfig(
            timeout=self._timeout,
            work_dir=None if self._work_dir is None else str(self._work_dir),
            functions_module=self._functions_module,
            cleanup_temp_files=self._cleanup_temp_files,
            virtual_env_dir=virtual_env_dir(self._virtual_env_context),
            env=self._env,
        )

    @classmethod
    def _from_config(cls, config: LocalCommandLineCodeExecutorConfig) -> Self:
        return cls(
            timeout=config.timeout,
            work_dir=config.work_dir,
            functions_module=config.functions_module,
            cleanup_temp_files=config.cleanup_temp_files,
            virtual_env_context=virtual_env_at(config.virtual_env_dir),
            env=config.env,
        )


def _open_files() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 1_048_576
    return most if soft == resource.RLIM_INFINITY else max(64, min(soft, most))
