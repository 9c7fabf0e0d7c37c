"""Executors: where code runs, and how it is confined. Each has a frozen configuration that is also a JSON document."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Callable, ClassVar, Optional, Union

from cella._config import Config, Duration, Environment, Mount, Size, requirements, settle

__all__ = [
    "Duration",
    "Environment",
    "Executor",
    "InProcessConfig",
    "InProcessExecutor",
    "LocalConfig",
    "LocalExecutor",
    "Mount",
    "SandboxConfig",
    "SandboxExecutor",
    "Size",
    "SubprocessConfig",
    "SubprocessExecutor",
    "check_executor",
]


@dataclass(frozen=True)
class SandboxConfig(Config):
    """A jail. What is not given is the server's default: 60 s, 1 GB, 128 processes, no network.

    Sizes are bytes or texts such as "512m"; durations are seconds or texts such as "500ms".
    """

    executor: ClassVar[str] = "sandbox"

    default_timeout: Optional[Duration] = None
    python_version: Optional[str] = None  # "3.12", or the path of an interpreter
    venv_dir: Optional[str] = None
    environment: Union[str, Environment, None] = None  # the name of one, or what it is made from
    memory_limit: Optional[Size] = None
    cpu_quota: Optional[float] = None  # cores
    cpu_time_limit: Optional[Duration] = None
    pids_limit: Optional[int] = None
    disk_limit: Optional[Size] = None
    output_limit: Optional[Size] = None
    open_files_limit: Optional[int] = None
    calls_limit: Optional[int] = None  # calls of tools and the like, of one run
    calls_at_once_limit: Optional[int] = None
    call_size_limit: Optional[Size] = None  # arguments of a call, and its result
    network_disabled: bool = True
    preload: tuple[str, ...] = ()
    deps: tuple[str, ...] = ()  # packages that session.deps.sync() installs
    deps_file: Optional[str] = None  # a requirements.txt with more of them
    allow_runtime_deps: Optional[bool] = None  # whether the session may add and remove packages
    env: dict[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    work_dir: Optional[str] = None
    rootfs: Optional[str] = None
    checkpoint: Optional[str] = None  # "auto", "always", "off"
    value_of: Optional[str] = None  # "last_expr", or "last_expr_or_assign": also what the last line assigns
    idle_timeout: Optional[Duration] = None
    max_lifetime: Optional[Duration] = None
    best_effort: bool = False

    def __post_init__(self) -> None:
        settle(self)

    def policy(self, local: bool) -> dict[str, Any]:
        document = super().policy(local)
        document["network"] = "none" if self.network_disabled else "host"
        return document


@dataclass(frozen=True)
class LocalConfig(Config):
    """No jail: the caller's files and network, with limits and a real kill. For code that is trusted."""

    executor: ClassVar[str] = "local"

    default_timeout: Optional[Duration] = None
    python_version: Optional[str] = None
    venv_dir: Optional[str] = None
    environment: Union[str, Environment, None] = None  # the name of one, or what it is made from
    deps: tuple[str, ...] = ()  # packages that session.deps.sync() installs
    deps_file: Optional[str] = None  # a requirements.txt with more of them
    allow_runtime_deps: Optional[bool] = None  # whether the session may add and remove packages
    memory_limit: Optional[Size] = None
    cpu_quota: Optional[float] = None
    cpu_time_limit: Optional[Duration] = None
    pids_limit: Optional[int] = None
    disk_limit: Optional[Size] = None
    output_limit: Optional[Size] = None
    open_files_limit: Optional[int] = None
    calls_limit: Optional[int] = None  # calls of tools and the like, of one run
    calls_at_once_limit: Optional[int] = None
    call_size_limit: Optional[Size] = None  # arguments of a call, and its result
    env: dict[str, str] = field(default_factory=dict)
    work_dir: Optional[str] = None
    idle_timeout: Optional[Duration] = None
    max_lifetime: Optional[Duration] = None
    best_effort: bool = False

    def __post_init__(self) -> None:
        settle(self)


@dataclass(frozen=True)
class SubprocessConfig(Config):
    """A Jupyter kernel of its own for each session, with limits and a real kill: ipykernel in a fresh virtual
    environment of the named Python, else of the caller's, or any installed kernel by its name. It has the caller's
    files and network unless `jail` is set."""

    executor: ClassVar[str] = "subprocess"

    python_version: Optional[str] = None  # "3.12", or the path of an interpreter
    default_timeout: Optional[Duration] = 120.0
    deps: tuple[str, ...] = ()  # packages that session.deps.sync() installs
    deps_file: Optional[str] = None  # a requirements.txt with more of them
    allow_runtime_deps: Optional[bool] = None  # whether packages may be added to the session or to venv_dir
    venv_dir: Optional[str] = None  # a virtual environment that is kept; made with ipykernel when it is missing
    environment: Union[str, Environment, None] = None  # the name of one, or what it is made from
    startup_timeout: Optional[Duration] = 30.0
    kernel: Optional[str] = None
    jail: bool = False
    system_packages: bool = False  # the fresh environment shows the packages that the Python has
    value_of: Optional[str] = None  # "last_expr", or "last_expr_or_assign": also what the last line assigns
    memory_limit: Optional[Size] = None
    cpu_quota: Optional[float] = None
    cpu_time_limit: Optional[Duration] = None
    pids_limit: Optional[int] = None
    disk_limit: Optional[Size] = None
    output_limit: Optional[Size] = None
    open_files_limit: Optional[int] = None
    calls_limit: Optional[int] = None  # calls of tools and the like, of one run
    calls_at_once_limit: Optional[int] = None
    call_size_limit: Optional[Size] = None  # arguments of a call, and its result
    env: dict[str, str] = field(default_factory=dict)
    work_dir: Optional[str] = None
    idle_timeout: Optional[Duration] = None
    max_lifetime: Optional[Duration] = None
    best_effort: bool = False

    def __post_init__(self) -> None:
        settle(self)

    @staticmethod
    def _named(python: str) -> dict[str, str]:
        """Also of a virtual environment: it chooses the interpreter, and not the packages."""
        return {"python": os.path.abspath(python)}


@dataclass(frozen=True)
class InProcessConfig(Config):
    """The caller's own process and interpreter: fastest, and no isolation. For code that is trusted."""

    executor: ClassVar[str] = "inprocess"

    default_timeout: Optional[Duration] = 30.0
    allow_runtime_deps: bool = True  # whether the session may add and remove packages
    deps: tuple[str, ...] = ()  # packages that session.deps.sync() installs
    deps_file: Optional[str] = None  # a requirements.txt with more of them
    value_of: Optional[Callable[[Any], str]] = None  # the text of a value; None: its repr()

    def __post_init__(self) -> None:
        settle(self)

    def to_dict(self) -> dict[str, Any]:
        if self.value_of is not None:
            raise TypeError("an InProcessConfig with value_of is no document: it holds a function")
        return super().to_dict()

    def policy(self, local: bool) -> dict[str, Any]:
        """For a server that allows it."""
        document: dict[str, Any] = {"executor": self.executor, **self._packages()}
        if self.default_timeout is not None:
            document["limits"] = {"timeout": self.default_timeout}
        return document

    def packages_policy(self, storage: Optional[str]) -> dict[str, Any]:
        """Of the private server's session that installs packages for this process, whose interpreter is its default."""
        document: dict[str, Any] = {"executor": self.executor, **self._packages()}
        if storage is not None:
            document["storage"] = storage
        return document

    def _packages(self) -> dict[str, Any]:
        document: dict[str, Any] = {}
        deps = [*self.deps, *(requirements(self.deps_file) if self.deps_file is not None else ())]
        if deps:
            document["deps"] = deps
        if not self.allow_runtime_deps:
            document["allow_runtime_deps"] = False
        return document


class Executor:
    """Where code runs: `SandboxExecutor(SandboxConfig(...))`, or its fields: `SandboxExecutor(pids_limit=9)`."""

    _CONFIG: ClassVar[type]
    is_inprocess: ClassVar[bool] = False
    config: Any

    def __init__(self, config: Any = None, **fields: Any) -> None:
        if config is not None and fields:
            raise TypeError("either a configuration or its fields, not both")
        if config is not None and not isinstance(config, self._CONFIG):
            raise TypeError(f"{type(self).__name__} takes a {self._CONFIG.__name__}")
        self.config = config if config is not None else self._CONFIG(**fields)

    def policy(self, local: bool) -> dict[str, Any]:
        document: dict[str, Any] = self.config.policy(local)
        return document

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.config == other.config

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config!r})"


class SandboxExecutor(Executor):
    """A jail of its own for each session."""

    _CONFIG = SandboxConfig
    config: SandboxConfig


class LocalExecutor(Executor):
    """The caller's own machine, without a jail."""

    _CONFIG = LocalConfig
    config: LocalConfig


class SubprocessExecutor(Executor):
    """A Jupyter kernel for each session."""

    _CONFIG = SubprocessConfig
    config: SubprocessConfig


class InProcessExecutor(Executor):
    """The caller's own process: a thread for each session."""

    _CONFIG = InProcessConfig
    is_inprocess = True
    config: InProcessConfig


def check_executor(executor: object) -> None:
    """Raises TypeError for what is no executor."""
    if not isinstance(executor, Executor):
        found = f"the class {executor.__name__}" if isinstance(executor, type) else repr(executor)
        raise TypeError(f"executor={found}: must be an executor, such as SandboxExecutor() or LocalExecutor()")
