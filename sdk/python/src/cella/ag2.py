"""Code executors for AutoGen 0.2 and AG2, on this machine or in a container. Needs neither package: an agent takes them
as `code_execution_config={"executor": DockerCommandLineCodeExecutor(work_dir="coding")}`."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union

from cella._container import ContainerExecutor
from cella.config import Executor, LocalExecutor
from cella.errors import CellaError
from cella.result import Result
from cella.sync import Session

__all__ = [
    "CodeBlock", "CommandLineCodeResult", "DockerCommandLineCodeExecutor", "LocalCommandLineCodeExecutor",
    "MarkdownCodeExtractor", "executor_from_code_execution_config",
]

_BLOCK = re.compile(r"```[ \t]*(\w+)?[ \t]*\r?\n(.*?)\r?\n[ \t]*```", re.DOTALL)
_LANGUAGES = {"shell": "sh", "py": "python", "pwsh": "powershell", "ps1": "powershell"}
_DEFAULT_IMAGE = "python:3-slim"
_TIMEOUT = 124
_MOST_VARIABLES, _MOST_BYTES = 250, 60_000  # of a policy
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass
class CodeBlock:
    """Code and its language, as in a message."""

    code: str
    language: str


@dataclass
class CommandLineCodeResult:
    """Of all blocks. `code_file` is the file of the first one."""

    exit_code: int
    output: str
    code_file: Optional[str] = None


class MarkdownCodeExtractor:
    """Finds the code blocks of a message."""

    def extract_code_blocks(self, message: Any) -> list[CodeBlock]:
        """`message` is a text, or a list of parts with texts."""
        if isinstance(message, list):
            message = "\n".join(part.get("text", "") for part in message if part.get("type") == "text")
        return [
            CodeBlock(code=code, language=(language or _infer_language(code)).strip())
            for language, code in _BLOCK.findall(message or "")
        ]


class _CommandLineCodeExecutor:
    """Blocks run in order, each as a process of its own, up to the first that fails. Nothing starts before the first
    block."""

    def __init__(self, timeout: float, work_dir: Union[Path, str]) -> None:
        if timeout < 1:
            raise ValueError("Timeout must be greater than or equal to 1.")
        self._timeout = timeout
        self._work_dir = Path(work_dir)
        self._work_dir.mkdir(exist_ok=True, parents=True)
        self._session: Optional[Session] = None

    @property
    def timeout(self) -> float:
        """Seconds that one block may take."""
        return self._timeout

    @property
    def work_dir(self) -> Path:
        """Where code and its files are."""
        return self._work_dir

    @property
    def code_extractor(self) -> MarkdownCodeExtractor:
        """What finds the code blocks of a message."""
        return MarkdownCodeExtractor()

    def _executor(self) -> Executor:
        raise NotImplementedError

    def _opened(self) -> Session:
        if self._session is None:
            session = Session(executor=self._executor())
            session.open()
            self._session = session
        return self._session

    def execute_code_blocks(self, code_blocks: Sequence[Any]) -> CommandLineCodeResult:
        """Of objects with `code` and `language`."""
        if not code_blocks:
            raise ValueError("No code blocks to execute.")
        output, exit_code = "", 0
        for block in code_blocks:
            language = block.language.lower()
            try:
                result = self._opened().run(
                    block.code, language=_LANGUAGES.get(language, language), timeout=self._timeout
                )
            except CellaError as error:
                raise RuntimeError(str(error)) from error
            exit_code, text = _ending(result)
            output += text
            if exit_code != 0:
                break
        return CommandLineCodeResult(exit_code, output)

    def restart(self) -> None:
        """Ends what runs; files stay."""
        self.stop()

    def stop(self) -> None:
        """Ends everything that was started."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.stop()


class LocalCommandLineCodeExecutor(_CommandLineCodeExecutor):
    """On this machine, without a jail: for code that is trusted."""

    def __init__(self, timeout: float = 60, work_dir: Union[Path, str] = Path(".")) -> None:
        super().__init__(timeout, work_dir)

    def _executor(self) -> Executor:
        return LocalExecutor(
            work_dir=str(self._work_dir.resolve()),
            env=_environment(),
            memory_limit="1024t",
            pids_limit=4_000_000,
            disk_limit="1024t",
            cpu_time_limit="365d",
            output_limit="64m",
            best_effort=True,
            idle_timeout="365d",
            max_lifetime="365d",
        )


class DockerCommandLineCodeExecutor(_CommandLineCodeExecutor):
    """In one container of Docker or Podman, from the first block to stop()."""

    def __init__(
        self,
        image: str = _DEFAULT_IMAGE,
        container_name: Optional[str] = None,
        timeout: float = 60,
        work_dir: Union[Path, str] = Path("."),
        bind_dir: Optional[Union[Path, str]] = None,
        auto_remove: bool = True,
        stop_container: bool = True,
        *,
        network_disabled: bool = False,
        memory_limit: Union[int, str, None] = None,
    ) -> None:
        super().__init__(timeout, work_dir)
        self._auto_remove = auto_remove
        self._stop_container = stop_container
        self._network_disabled = network_disabled
        self._memory_limit = memory_limit
        self._image = image
        self._container_name = container_name
        self._bind_dir = Path(work_dir if bind_dir is None else bind_dir)

    @property
    def bind_dir(self) -> Path:
        """The working directory as the engine's machine names it."""
        return self._bind_dir

    def _executor(self) -> Executor:
        return ContainerExecutor(
            auth_token=secrets.token_hex(16),
            image=self._image,
            engine=os.environ.get("DOCKER_HOST") or None,  # as of now: the private server may be older
            mode="command",
            container_name=self._container_name,
            work_dir=str(self._work_dir.resolve()),
            bind_dir=None if self._bind_dir == self._work_dir else str(self._bind_dir.resolve()),
            network_disabled=self._network_disabled,
            read_only=False,
            auto_remove=self._auto_remove,
            stop_container=self._stop_container,
            memory_limit=self._memory_limit,
            cpu_time_limit="365d",
            output_limit="64m",
            env={"PYTHONUNBUFFERED": "1"},
            idle_timeout="365d",
            max_lifetime="365d",
        )


def executor_from_code_execution_config(config: dict[str, Any]) -> Any:
    """What `code_execution_config` of AutoGen 0.2 asks for: {"use_docker": False | True | IMAGE | [IMAGES], "work_dir",
    "timeout"}, and of ours "network_disabled" and "memory_limit" of the container. Without use_docker: the variable
    AUTOGEN_USE_DOCKER, else a container. RuntimeError: no engine."""
    timeout, work_dir = config.get("timeout", 60), config.get("work_dir", "extensions")
    use_docker = config.get("use_docker", _use_docker_by_default())
    if use_docker is False or use_docker is None:
        return LocalCommandLineCodeExecutor(timeout=timeout, work_dir=work_dir)
    images = [_DEFAULT_IMAGE] if use_docker is True else [use_docker] if isinstance(use_docker, str) else use_docker
    failure: Optional[Exception] = None
    for image in images:
        executor = DockerCommandLineCodeExecutor(
            image=image,
            timeout=timeout,
            work_dir=work_dir,
            network_disabled=config.get("network_disabled", False),
            memory_limit=config.get("memory_limit"),
        )
        try:
            executor._opened()
            return executor
        except CellaError as error:
            failure = error
    raise RuntimeError(
        f"Code execution is set to be run in docker (default behaviour) but no container can be started: {failure}. "
        'Start Docker or Podman, or set "use_docker": False to run code on this machine.'
    ) from failure


def _use_docker_by_default() -> Optional[bool]:
    value = os.environ.get("AUTOGEN_USE_DOCKER", "true").lower()
    if value in ("1", "true", "yes", "on"):
        return True
    if value in ("0", "false", "no", "off"):
        return False
    if value == "none":
        return None
    raise ValueError(f"AUTOGEN_USE_DOCKER is {value!r}: use true or false")


def _environment() -> dict[str, str]:
    """The variables of this process; too many for a policy are left out, but for those that programs are found by."""
    known = {name: value for name, value in os.environ.items() if _NAME.match(name) and value.isprintable()}
    size = sum(len(os.fsencode(name + value)) + 2 for name, value in known.items())
    if len(known) > _MOST_VARIABLES or size > _MOST_BYTES:
        known = {name: known[name] for name in ("PATH", "HOME", "LANG", "VIRTUAL_ENV") if name in known}
    return {**known, "PYTHONUNBUFFERED": "1"}


def _infer_language(code: str) -> str:
    if code.startswith(("python ", "pip", "python3 ")):
        return "sh"
    try:
        compile(code, "test", "exec")
        return "python"
    except (SyntaxError, ValueError):
        return "unknown"


def _ending(result: Result) -> tuple[int, str]:
    written = result.stderr + result.stdout
    if result.status == "timeout":
        return _TIMEOUT, written + "\nTimeout"
    if result.status in ("oom", "limit", "rejected") and result.error is not None:
        return result.exit_code or 1, f"{written}\n{result.error.message}"
    return result.exit_code, written
