"""AutoGen's DockerCommandLineCodeExecutor: the same blocks in a container, with ends that are real and limits."""

from __future__ import annotations

import logging
import os
import shlex
import uuid
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from autogen_core import CancellationToken, Component
from autogen_core.code_executor import CodeBlock, CodeExecutor
from pydantic import BaseModel
from typing_extensions import Self

from cella._transport.aio import Turn
from cella.errors import CellaError
from cella.result import Result

from ._blocks import POWERSHELL, SUPPORTED_LANGUAGES, NotInWorkspace, quiet_pip, to_bytes, work_file
from ._cancellation import Cancelled
from ._code_files import CodeFiles
from ._functions import PROMPT_TEMPLATE, UserFunction, module_text, name_of, packages_of, prompt
from ._places import Place
from ._results import TIMEOUT, CommandLineCodeResult
from ._temporary import TemporaryDirectory

_logger = logging.getLogger(__name__)
_WORKSPACE = "/workspace"
_NO_ENGINE = "Failed to connect to Docker. Please ensure Docker is installed and running."
_NOT_RUNNING = "Container is not running. Must first be started with either start or a context manager."
_CANCELLED = "Code execution was cancelled."
_PYTHONS = ("python", "py")
# One stream, in the order of writing. Distributions name their interpreter python3 alone.
_MERGED = 'p=$1; shift; [ "$p" = python ] && p=$(command -v python || echo python3); exec "$p" "$@" 2>&1'


class DockerCommandLineCodeExecutorConfig(BaseModel):
    """What a DockerCommandLineCodeExecutor is made of."""

    image: str = "python:3-slim"
    container_name: str | None = None
    timeout: int | float = 60
    work_dir: str | None = None
    bind_dir: str | None = None
    auto_remove: bool = True
    stop_container: bool = True
    functions_module: str = "functions"
    extra_volumes: dict[str, dict[str, str]] = {}
    extra_hosts: dict[str, str] = {}
    init_command: str | None = None
    delete_tmp_files: bool = False
    network_disabled: bool = False
    memory_limit: int | str | None = None
    cpu_quota: float | None = None
    pids_limit: int | None = None


class DockerCommandLineCodeExecutor(CodeExecutor, Component[DockerCommandLineCodeExecutorConfig]):
    """Runs code blocks in one container of Docker or Podman, from start() to stop(). A drop-in for AutoGen's executor
    of the same name, which needs neither the docker package nor the docker program.

    Differences: a time-out or a cancelled token ends all processes of the block and keeps its output; files belong to
    the caller; the container ends with this process, however that ends; a container of another program that has the
    name is not removed. Calls at the same time run one after the other.

    Args:
        image: fetched if it is not there.
        container_name: of the container; a name of its own by default.
        timeout: seconds that one block may take; at least 1.
        work_dir: where code and its files are, /workspace inside; a temporary directory by default.
        bind_dir: work_dir as the engine's machine names it, if this program runs in a container itself.
        auto_remove: False keeps the container after stop(), stopped. The log names it.
        stop_container: False keeps it after stop(), running and idle.
        device_requests: as docker.types.DeviceRequest, or dictionaries of the Engine API. Not part of the component.
        extra_hosts: names of machines to addresses.
        functions, functions_module: functions that the code can import.
        extra_volumes: as {"/host": {"bind": "/inside", "mode": "ro"}}; paths only.
        init_command: a shell command that runs once, in start().
        delete_tmp_files: remove the files of the code after each call.
        network_disabled: True takes the network away.
        memory_limit, cpu_quota, pids_limit: 1 GiB, all processors, 128 by default.
    """

    component_config_schema = DockerCommandLineCodeExecutorConfig
    component_provider_override = "cella.autogen.DockerCommandLineCodeExecutor"
    SUPPORTED_LANGUAGES: ClassVar[list[str]] = SUPPORTED_LANGUAGES
    FUNCTION_PROMPT_TEMPLATE: ClassVar[str] = PROMPT_TEMPLATE

    def __init__(
        self,
        image: str = "python:3-slim",
        container_name: str | None = None,
        *,
        timeout: float = 60,
        work_dir: Path | str | None = None,
        bind_dir: Path | str | None = None,
        auto_remove: bool = True,
        stop_container: bool = True,
        device_requests: Sequence[Any] | None = None,
        functions: Sequence[UserFunction] = (),
        functions_module: str = "functions",
        extra_volumes: Mapping[str, Mapping[str, str]] | None = None,
        extra_hosts: Mapping[str, str] | None = None,
        init_command: str | None = None,
        delete_tmp_files: bool = False,
        network_disabled: bool = False,
        memory_limit: int | str | None = None,
        cpu_quota: float | None = None,
        pids_limit: int | None = None,
    ) -> None:
        if timeout < 1:
            raise ValueError("Timeout must be greater than or equal to 1.")
        if not functions_module.isidentifier():
            raise ValueError("Module name must be a valid Python identifier")
        self._work_dir = None if work_dir is None else Path(work_dir)
        if self._work_dir is not None:
            if self._work_dir.resolve() == Path.cwd().resolve():
                warnings.warn(
                    "Using the current directory as work_dir is deprecated.", DeprecationWarning, stacklevel=2
                )
            self._work_dir.mkdir(exist_ok=True, parents=True)
        self.container_name = container_name or f"autogen-code-exec-{uuid.uuid4()}"
        self._given_bind_dir = None if bind_dir is None else Path(bind_dir)
        self._device_requests = [dict(each) for each in device_requests or ()]
        self._functions = list(functions)
        self._functions_are_ready = not self._functions
        self._options = DockerCommandLineCodeExecutorConfig(
            image=image,
            container_name=container_name,
            timeout=timeout,
            work_dir=None if self._work_dir is None else str(self._work_dir),
            bind_dir=None if bind_dir is None else str(bind_dir),
            auto_remove=auto_remove,
            stop_container=stop_container,
            extra_hosts=dict(extra_hosts or {}),
            functions_module=functions_module,
            extra_volumes={str(source): dict(value) for source, value in (extra_volumes or {}).items()},
            init_command=init_command,
            delete_tmp_files=delete_tmp_files,
            network_disabled=network_disabled,
            memory_limit=memory_limit,
            cpu_quota=cpu_quota,
            pids_limit=pids_limit,
        )
        self._temp_dir: TemporaryDirectory | None = None
        self._place: Place | None = None
        self._turn = Turn()

    @property
    def timeout(self) -> float:
        """Seconds that one block may take."""
        return self._options.timeout

    @property
    def work_dir(self) -> Path:
        """Where code and its files are. Without one of the caller's it is temporary, from start() to stop()."""
        if self._work_dir is not None:
            return self._work_dir
        if self._temp_dir is None:
            raise RuntimeError("Working directory not properly initialized")
        return Path(self._temp_dir.path)

    @property
    def bind_dir(self) -> Path:
        """The working directory as the engine's machine names it."""
        return self.work_dir if self._given_bind_dir is None else self._given_bind_dir

    @property
    def functions(self) -> list[str]:
        """The names of the user's functions."""
        return [name_of(each) for each in self._functions]

    @property
    def functions_module(self) -> str:
        """The module that the user's functions are imported from."""
        return self._options.functions_module

    def format_functions_for_prompt(self, prompt_template: str = PROMPT_TEMPLATE) -> str:
        """The user's functions for a model; the template has `$module_name` and `$functions`."""
        return prompt(self._functions, self.functions_module, prompt_template)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *ignored: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Makes the container, and runs init_command in it."""
        if self._place is not None:
            return
        if self._work_dir is None and self._temp_dir is None:
            self._temp_dir = TemporaryDirectory("cella-")
        try:
            self._place = await Place.open(self._policy())
        except CellaError as error:
            self._forget_temporary()
            no_engine = "start Docker or Podman" in str(error)
            raise RuntimeError(f"{_NO_ENGINE} {error}" if no_engine else str(error)) from error
        if self._place.kept is not None:
            _logger.warning("the container %s stays after stop(): %s", self.container_name, self._place.kept)

    async def stop(self) -> None:
        """Ends the container and everything in it, and removes what is temporary."""
        place, self._place = self._place, None
        if place is not None:
            await place.close()
        self._forget_temporary()

    async def restart(self) -> None:
        """A new container; files of the working directory stay."""
        if self._place is None:
            raise ValueError(_NOT_RUNNING)
        place, self._place = self._place, None
        await place.close()
        await self.start()

    def _forget_temporary(self) -> None:
        if self._temp_dir is not None:
            self._temp_dir.remove()
            self._temp_dir = None
            self._functions_are_ready = not self._functions

    def _policy(self) -> dict[str, Any]:
        options = self._options
        limits = {
            "memory": options.memory_limit,
            "cpus": options.cpu_quota,
            "pids": options.pids_limit,
            "output": "64m",
            "timeout": "365d",
            "cpu_time": "365d",
        }
        container: dict[str, Any] = {
            # As of now: the private server may be older.
            "engine": os.environ.get("DOCKER_HOST") or None,
            "image": options.image,
            "mode": "command",
            "name": self.container_name,
            # As with AutoGen: code installs packages.
            "read_only": False,
            "init_command": options.init_command or None,
            "extra_hosts": options.extra_hosts or None,
            "device_requests": self._device_requests or None,
            "auto_remove": options.auto_remove,
            "stop_container": options.stop_container,
        }
        if self._given_bind_dir is not None:
            container["bind_dir"] = str(self._given_bind_dir.resolve())
        return {
            "executor": "container",
            "container": {name: value for name, value in container.items() if value is not None},
            "network": "none" if options.network_disabled else "bridge",
            "workdir": str(self.work_dir.resolve()),
            "mounts": [
                {"source": str(Path(source).resolve()), "target": value["bind"], "mode": value.get("mode", "rw")}
                for source, value in options.extra_volumes.items()
            ],
            "env": {"PYTHONUNBUFFERED": "1"},
            "limits": {name: value for name, value in limits.items() if value is not None},
            "idle_timeout": "365d",
            "max_lifetime": "365d",
        }

    async def _run(self, command: Sequence[str], cancelled: Cancelled) -> Result:
        place = self._place
        if place is None:
            raise ValueError(_NOT_RUNNING)
        merged = ["sh", "-c", _MERGED, "sh", *command]
        return await place.run(merged, _WORKSPACE, self.timeout, cancelled, {})

    async def execute_code_blocks(
        self, code_blocks: list[CodeBlock], cancellation_token: CancellationToken
    ) -> CommandLineCodeResult:
        """Runs the blocks in order, up to the first that fails."""
        cancelled = Cancelled(cancellation_token)
        async with self._turn:
            if not self._functions_are_ready:
                await self._set_up_functions(cancelled)
            return await self._execute(code_blocks, cancelled)

    async def _execute(self, blocks: Sequence[CodeBlock], cancelled: Cancelled) -> CommandLineCodeResult:
        if self._place is None:
            raise ValueError(_NOT_RUNNING)
        if not blocks:
            raise ValueError("No code blocks to execute.")
        root = self.work_dir.resolve()
        files = CodeFiles(root)
        output, exit_code = "", 0
        try:
            for block in blocks:
                language = block.language.lower()
                code = quiet_pip(block.code, language)
                try:
                    relative = work_file(code, root, language)
                    files.write(relative, to_bytes(code))
                except NotInWorkspace:
                    output, exit_code = output + "Filename is not in the workspace", 1
                    break
                if cancelled.is_set():
                    output, exit_code = output + _CANCELLED, 1
                    break
                result = await self._run([_program(language), str(relative)], cancelled)
                output, exit_code = output + _text_of(result), _exit_code_of(result)
                if exit_code != 0:
                    break
            return CommandLineCodeResult(exit_code, output, files.first)
        finally:
            for failure in files.release(remove=self._options.delete_tmp_files):
                _logger.error("a temporary file could not be removed: %s", failure)

    async def _set_up_functions(self, cancelled: Cancelled) -> None:
        text = module_text(self._functions)
        module = CodeFiles(self.work_dir.resolve())
        module.write(Path(f"{self.functions_module}.py"), to_bytes(text))
        module.release(remove=False)
        packages = packages_of(self._functions)
        if packages:
            pip = CodeBlock(code=f"python -m pip install {shlex.join(packages)}", language="sh")
            installed = await self._execute([pip], cancelled)
            if installed.exit_code != 0:
                raise ValueError(f"Pip install failed. {installed.output}, {installed.output}")
        loaded = await self._execute([CodeBlock(code=text, language="python")], cancelled)
        if loaded.exit_code != 0:
            raise ValueError(f"Functions failed to load: {loaded.output}")
        self._functions_are_ready = True

    def _to_config(self) -> DockerCommandLineCodeExecutorConfig:
        return self._options.model_copy(deep=True)

    @classmethod
    def _from_config(cls, config: DockerCommandLineCodeExecutorConfig) -> Self:
        return cls(**config.model_dump())


def _program(language: str) -> str:
    """Of the image, by AutoGen's rules."""
    if language in _PYTHONS:
        return "python"
    if language.startswith("python") or language in ("bash", "sh"):
        return language
    if language == "shell":
        return "sh"
    if language in POWERSHELL:
        return "pwsh"
    raise ValueError(f"Unsupported language: {language}")


def _exit_code_of(result: Result) -> int:
    if result.status == "timeout":
        return TIMEOUT
    return 1 if result.status == "cancelled" else result.exit_code


def _text_of(result: Result) -> str:
    written = result.stdout + result.stderr
    if result.status == "timeout":
        return written + "\n Timeout"
    if result.status == "cancelled":
        return written + _CANCELLED
    if result.status in ("oom", "limit", "rejected") and result.error is not None:
        return f"{written}\n{result.error.message}"
    return written
