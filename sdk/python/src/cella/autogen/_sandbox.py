"""The same executor in a jail."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Mapping, Sequence

from autogen_core import Component
from pydantic import BaseModel
from typing_extensions import Self

from ._environment import passed_on, pip_needs, virtual_env_at, virtual_env_dir
from ._executor import CommandLineExecutor, _Call
from ._functions import UserFunction

_WORKSPACE = "/workspace"
_PACKAGES = "/packages"
_OUTPUT_LIMIT = "64m"


class SandboxCommandLineCodeExecutorConfig(BaseModel):
    """What a SandboxCommandLineCodeExecutor is made of."""

    timeout: int = 60
    work_dir: str | None = None
    functions_module: str = "functions"
    cleanup_temp_files: bool = True
    virtual_env_dir: str | None = None
    env: dict[str, str] = {}
    mounts: list[dict[str, str]] = []
    network_disabled: bool = True
    memory_limit: int | str | None = None
    cpu_quota: float | None = None
    pids_limit: int | None = None
    disk_limit: int | str | None = None


class SandboxCommandLineCodeExecutor(CommandLineExecutor, Component[SandboxCommandLineCodeExecutorConfig]):
    """Runs code blocks in a jail: for code that a model wrote. Takes the options of LocalCommandLineCodeExecutor.

    Each call has a jail of its own, which shows it the working directory (as /workspace), the interpreter and the system's
    programs; no network, no other file, process or variable of the host. The files that it makes appear in `work_dir`.

    Args:
        timeout: seconds that one block may take; at least 1.
        work_dir: where code and its files are; a temporary directory by default.
        functions: functions that the code can import. Their packages are installed for this executor alone.
        functions_module: the module that it imports them from.
        cleanup_temp_files: remove the files of the code after each call.
        virtual_env_context: what `venv.EnvBuilder.ensure_directories` returned; the code can read it only.
        env: variables for the code.
        mounts: directories of the host for the code, as `{"source": …, "target": …, "mode": "ro"}`.
        network_disabled: False gives the code the host's network.
        memory_limit: of all processes together, in bytes or as "512m"; 1 GiB by default.
        cpu_quota: processors; all by default.
        pids_limit: processes and threads; 128 by default.
        disk_limit: size of a file, and of all that is written outside of `work_dir`; 1 GiB by default.
    """

    component_config_schema = SandboxCommandLineCodeExecutorConfig
    component_provider_override = "cella.autogen.SandboxCommandLineCodeExecutor"

    def __init__(
        self,
        timeout: int = 60,
        work_dir: Path | str | None = None,
        functions: Sequence[UserFunction] = (),
        functions_module: str = "functions",
        cleanup_temp_files: bool = True,
        virtual_env_context: SimpleNamespace | None = None,
        *,
        env: Mapping[str, str] | None = None,
        mounts: Sequence[Mapping[str, str]] = (),
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
            mounts=[dict(each) for each in mounts],
            network_disabled=network_disabled,
            memory_limit=memory_limit,
            cpu_quota=cpu_quota,
            pids_limit=pids_limit,
            disk_limit=disk_limit,
        )
        self._packages: tempfile.TemporaryDirectory[str] | None = None

    async def restart(self) -> None:
        """Nothing is left to do: every call starts in a fresh jail."""

    def _forget_temporary(self) -> None:
        super()._forget_temporary()
        if self._packages is not None:
            self._packages.cleanup()
            self._packages = None
            self._functions_are_ready = False

    def _policy(self, root: Path) -> dict[str, Any]:
        wanted = self._options
        limits = {
            "memory": wanted.memory_limit,
            "cpus": wanted.cpu_quota,
            "pids": wanted.pids_limit,
            "disk": wanted.disk_limit,
            "output": _OUTPUT_LIMIT,
            # The time-out is the limit that was asked for; it must not be met earlier by using more than one processor.
            "cpu_time": max(60, wanted.timeout * (os.cpu_count() or 1)),
        }
        policy: dict[str, Any] = {
            "executor": "sandbox",
            "workdir": str(root),
            "env": dict(wanted.env),
            "mounts": [dict(each) for each in wanted.mounts],
            "network": "none" if wanted.network_disabled else "host",
            "limits": {name: value for name, value in limits.items() if value is not None},
        }
        if self._virtual_env_context is not None:
            policy["venv"] = self._virtual_env_root()
        for program in ("pwsh", "powershell"):
            found = shutil.which(program)
            if found and not os.path.realpath(found).startswith("/usr/"):
                home = os.path.dirname(os.path.realpath(found))
                policy["mounts"].append({"source": home, "target": home})
        if self._packages is not None:
            policy["mounts"].append({"source": os.path.realpath(self._packages.name), "target": _PACKAGES})
            policy["env"]["PYTHONPATH"] = ":".join(filter(None, [wanted.env.get("PYTHONPATH"), _PACKAGES]))
        return policy

    def _virtual_env_root(self) -> str:
        # The server follows no links in paths where guests may have written.
        return os.path.realpath(virtual_env_dir(self._virtual_env_context) or "")

    def _python(self) -> str:
        """By its real path: the jail has the interpreter's own directory, and perhaps not what leads there."""
        if self._virtual_env_context is not None:
            name = os.path.basename(self._virtual_env_context.env_exe)
            return os.path.join(self._virtual_env_root(), "bin", name)
        return sys.executable if sys.prefix != sys.base_prefix else os.path.realpath(sys.executable)

    def _seen(self, root: Path, relative: Path | None = None) -> str:
        return _WORKSPACE if relative is None else f"{_WORKSPACE}/{relative}"

    async def _install(self, packages: Sequence[str], root: Path, call: _Call) -> None:
        """Into a directory of this executor: the interpreter's own is read-only for guests. The packages were named by
        whoever wrote the functions, not by the code, so that pip has the network; it runs in a jail all the same, since
        packages may run code when they are installed."""
        try:
            # Where all of them are there already, pip needs neither the network nor a place.
            await self._pip(["install", "--quiet", "--dry-run", "--no-index", *packages], root, self._policy(root), call)
            return
        except ValueError:
            if call.cancelled.is_set():
                raise
        target = tempfile.TemporaryDirectory(prefix="cella-packages-")
        try:
            policy = self._policy(root)
            env, mounts = pip_needs()
            policy["env"].update(env)
            policy["network"] = "host"
            policy["mounts"] += [
                *mounts, {"source": os.path.realpath(target.name), "target": _PACKAGES, "mode": "rw"}
            ]
            await self._pip(["install", "--quiet", "--target", _PACKAGES, *packages], root, policy, call)
        except BaseException:
            target.cleanup()
            raise
        self._packages = target

    def _to_config(self) -> SandboxCommandLineCodeExecutorConfig:
        return self._options.model_copy(deep=True)

    @classmethod
    def _from_config(cls, config: SandboxCommandLineCodeExecutorConfig) -> Self:
        options = config.model_dump(exclude={"virtual_env_dir"})
        return cls(**options, virtual_env_context=virtual_env_at(config.virtual_env_dir))
