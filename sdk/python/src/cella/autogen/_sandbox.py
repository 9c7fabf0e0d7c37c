"""The same executor in a jail."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from autogen_core import Component
from pydantic import BaseModel
from typing_extensions import Self

from cella.config import Mount, SandboxConfig

from ._blocks import POWERSHELL
from ._environment import passed_on, pip_needs, virtual_env_at, virtual_env_dir
from ._executor import CommandLineExecutor, _Call
from ._functions import UserFunction
from ._temporary import TemporaryDirectory

_WORKSPACE = "/workspace"
_PACKAGES = "/packages"
_OUTPUT_LIMIT = "64m"
# "pandas[excel]>=2; python_version > '3.9'", and neither a path nor a URL.
_OF_THE_INDEX = re.compile(r"[A-Za-z0-9][\w.-]*\s*(\[[^\]]*\])?\s*([(<>=!~;][^@/]*)?$")


class SandboxCommandLineCodeExecutorConfig(BaseModel):
    """What a SandboxCommandLineCodeExecutor is made of."""

    timeout: int | float = 60
    work_dir: str | None = None
    functions_module: str = "functions"
    cleanup_temp_files: bool = True
    virtual_env_dir: str | None = None
    env: dict[str, str] = {}
    mounts: list[dict[str, Any]] = []
    network_disabled: bool = True
    memory_limit: int | str | None = None
    cpu_quota: float | None = None
    pids_limit: int | None = None
    disk_limit: int | str | None = None


class SandboxCommandLineCodeExecutor(CommandLineExecutor, Component[SandboxCommandLineCodeExecutorConfig]):
    """Runs code blocks in a jail: for code that a model wrote. Takes the options of LocalCommandLineCodeExecutor.

    The jail shows the code its working directory (as /workspace), the interpreter and the system's programs, read-only:
    no network, no other file, process or variable of the host. What it leaves elsewhere, files in /tmp and processes,
    is there until stop(). Calls at the same time have a jail each.

    Args:
        timeout: seconds that one block may take; at least 1.
        work_dir: where code and its files are; a temporary directory by default.
        functions: functions that the code can import. Their packages are installed for this executor alone.
        functions_module: the module that it imports them from.
        cleanup_temp_files: remove the files of the code after each call.
        virtual_env_context: what `venv.EnvBuilder.ensure_directories` returned; the code can read it only.
        env: variables for the code.
        mounts: directories of the host for the code (`cella.Mount`).
        network_disabled: False gives the code the host's network.
        memory_limit: of all processes together, in bytes or as "512m"; 1 GiB by default.
        cpu_quota: processors; all by default.
        pids_limit: processes and threads; 128 by default.
        disk_limit: size of a file, and of all that is written outside of `work_dir`; 1 GiB by default.
    """

    component_config_schema = SandboxCommandLineCodeExecutorConfig
    component_provider_override = "cella.autogen.SandboxCommandLineCodeExecutor"
    _PIP_FLAGS = ("-I",)  # the interpreter's own pip, not the one that guests have

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
        mounts: Sequence[Mount] = (),
        network_disabled: bool = True,
        memory_limit: int | str | None = None,
        cpu_quota: float | None = None,
        pids_limit: int | None = None,
        disk_limit: int | str | None = None,
    ) -> None:
        super().__init__(timeout, work_dir, functions, functions_module, cleanup_temp_files, virtual_env_context)
        self._options = SandboxCommandLineCodeExecutorConfig(
            timeout=timeout,
            work_dir=None if self._work_dir is None else str(self._work_dir),
            functions_module=functions_module,
            cleanup_temp_files=cleanup_temp_files,
            virtual_env_dir=virtual_env_dir(virtual_env_context),
            env=passed_on(env or {}),
            mounts=[asdict(each) for each in mounts],
            network_disabled=network_disabled,
            memory_limit=memory_limit,
            cpu_quota=cpu_quota,
            pids_limit=pids_limit,
            disk_limit=disk_limit,
        )
        self._packages: TemporaryDirectory | None = None

    async def restart(self) -> None:
        """Ends calls that are on, and the jail with all that earlier calls left in it. Files in `work_dir` stay."""
        await self._end_calls()

    def _forget_temporary(self) -> None:
        super()._forget_temporary()
        if self._packages is not None:
            self._packages.remove()
            self._packages = None
        self._places.forget_required()
        self._functions_are_ready = not self._functions

    def _policy(self, root: Path) -> dict[str, Any]:
        mounts, env = self._mounts(), dict(self._options.env)
        if self._packages is not None:
            mounts.append(Mount(self._packages.path, _PACKAGES))
            env["PYTHONPATH"] = ":".join(filter(None, [env.get("PYTHONPATH"), _PACKAGES]))
        return self._config(root, mounts, env).policy(local=True)

    def _policy_of_pip(self, root: Path, target: str) -> dict[str, Any]:
        env, mounts = pip_needs()
        config = self._config(root, [*self._mounts(), *mounts, Mount(target, _PACKAGES, read_only=False)], env)
        return replace(config, network_disabled=False).policy(local=True)

    def _config(self, root: Path, mounts: Sequence[Mount], env: dict[str, str]) -> SandboxConfig:
        options = self._options
        return SandboxConfig(
            work_dir=str(root),
            venv_dir=options.virtual_env_dir,
            env=env,
            mounts=tuple(mounts),
            network_disabled=options.network_disabled,
            memory_limit=options.memory_limit,
            cpu_quota=options.cpu_quota,
            pids_limit=options.pids_limit,
            disk_limit=options.disk_limit,
            output_limit=_OUTPUT_LIMIT,
            # The time-out is the limit that was asked for: it must not be met earlier by using several processors.
            cpu_time_limit=max(60, options.timeout * (os.cpu_count() or 1)),
            checkpoint="off",
        )

    def _mounts(self) -> list[Mount]:
        mounts = [Mount(**each) for each in self._options.mounts]
        with contextlib.suppress(ValueError):
            # It usually lives in /opt, which a jail does not show.
            home = os.path.dirname(self._command("pwsh")[0])
            if not home.startswith("/usr/"):
                mounts.append(Mount(home, home))
        return mounts

    def _command(self, language: str) -> list[str]:
        command = super()._command(language)
        return [os.path.realpath(command[0]), *command[1:]] if language in POWERSHELL else command

    def _python(self) -> str:
        """By its real path: the jail has the interpreter's own directory, and perhaps not what leads there."""
        if self._virtual_env_context is not None:
            name = os.path.basename(self._virtual_env_context.env_exe)
            return os.path.join(os.path.realpath(self._virtual_env_context.env_dir), "bin", name)
        return os.path.abspath(sys.executable) if sys.prefix != sys.base_prefix else os.path.realpath(sys.executable)

    def _seen(self, root: Path, relative: Path | None = None) -> str:
        return _WORKSPACE if relative is None else f"{_WORKSPACE}/{relative}"

    async def _install(self, packages: Sequence[str], root: Path, call: _Call) -> None:
        """For this executor: the interpreter's own directory is read-only for guests. Packages of the index are added
        to its sessions. Paths and URLs, which the author of the functions chose, need pip with the network; it runs
        in a jail all the same, since packages may run code when they are installed."""
        # Where all of them are there already, neither the network nor a place is needed.
        known = await self._pip(["install", "--dry-run", "--no-index", *packages], root, self._policy(root), call)
        if known.ok and "Would install" not in known.stdout:
            return
        named = [each for each in packages if _OF_THE_INDEX.match(each)]
        others = [each for each in packages if each not in named]
        if others:
            await self._install_paths(others, root, call)
        if named:
            await self._places.require(named, self._policy(root), self._timeout, call.cancelled)

    async def _install_paths(self, packages: Sequence[str], root: Path, call: _Call) -> None:
        target = TemporaryDirectory("cella-packages-")
        try:
            # Where the jail's user is not the caller (who is root), a read-only mount is seen as by any other user.
            os.chmod(target.path, 0o755)
            words = ["--target", _PACKAGES, *packages]
            await self._pip_install(words, root, self._policy_of_pip(root, target.path), call)
        except BaseException:
            target.remove()
            raise
        self._packages = target

    def _to_config(self) -> SandboxCommandLineCodeExecutorConfig:
        return self._options.model_copy(deep=True)

    @classmethod
    def _from_config(cls, config: SandboxCommandLineCodeExecutorConfig) -> Self:
        options = config.model_dump(exclude={"virtual_env_dir"})
        options["mounts"] = [Mount(**each) for each in config.mounts]
        return cls(**options, virtual_env_context=virtual_env_at(config.virtual_env_dir))
