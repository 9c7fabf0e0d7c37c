"""Executors: where code runs, and how it is confined. Each has a frozen configuration that is also a JSON document."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Callable, ClassVar, Optional, Union

Size = Union[int, str]
Duration = Union[int, float, str]


@dataclass(frozen=True)
class Mount:
    """A directory or file of the host that the guest sees at `target`; read-only unless `read_only` is False."""

    source: str
    target: str
    read_only: bool = True

    def document(self, local: bool) -> dict[str, str]:
        mode = "ro" if self.read_only else "rw"
        return {"source": _host_path(self.source, local), "target": self.target, "mode": mode}


@dataclass(frozen=True)
class Environment:
    """A Python environment for sessions: packages from the operator's index, as `numpy>=2`, and modules that sessions
    find imported. Made when the first session asks for it, and shared, read-only, by all that ask for the same."""

    packages: tuple[str, ...] = ()
    python: Optional[str] = None  # "3.12", or the path of an interpreter
    preload: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _settle(self)
        if isinstance(self.python, os.PathLike):
            object.__setattr__(self, "python", os.fspath(self.python))

    def document(self, local: bool) -> dict[str, Any]:
        document: dict[str, Any] = {"packages": list(self.packages)}
        if self.python is not None:
            path = local and os.path.isabs(self.python)
            document["python"] = os.path.realpath(self.python) if path else self.python
        if self.preload:
            document["preload"] = list(self.preload)
        return document


def _host_path(path: str, local: bool) -> str:
    """On this machine: where links lead. The server follows none, since guests may have made them."""
    return os.path.realpath(os.path.expanduser(path)) if local else path


def _interpreter(path: str) -> dict[str, str]:
    """On this machine: that of a virtual environment means the environment, which its link alone would not tell."""
    environment = os.path.dirname(os.path.dirname(os.path.abspath(path)))
    if os.path.exists(os.path.join(environment, "pyvenv.cfg")):
        return {"venv": os.path.realpath(environment)}
    return {"python": os.path.realpath(path)}


class _Config:
    """What all configurations share: they become JSON and a policy of the server."""

    executor: ClassVar[str]
    # The server's words for our fields: a name, or a name below "limits".
    _WORDS: ClassVar[dict[str, str]] = {
        "default_timeout": "limits.timeout",
        "timeout": "limits.timeout",
        "memory_limit": "limits.memory",
        "cpu_quota": "limits.cpus",
        "pids_limit": "limits.pids",
        "disk_limit": "limits.disk",
        "output_limit": "limits.output",
        "cpu_time_limit": "limits.cpu_time",
        "open_files_limit": "limits.open_files",
        "calls_limit": "limits.calls",
        "calls_at_once_limit": "limits.calls_at_once",
        "call_size_limit": "limits.call_size",
        "python_version": "python",
        "venv_dir": "venv",
        "work_dir": "workdir",
        "image": "container.image",
        "pull": "container.pull",
        "mode": "container.mode",
        "fresh": "container.fresh",
        "container_name": "container.name",
        "runtime": "container.runtime",
        "engine": "container.engine",
        "auth_token": "container.auth_token",
        "auth_disabled": "container.auth_disabled",
        "read_only": "container.read_only",
        "bind_dir": "container.bind_dir",
        "user": "container.user",
        "extra_hosts": "container.extra_hosts",
        "device_requests": "container.device_requests",
        "cap_add": "container.cap_add",
        "init_command": "container.init_command",
        "auto_remove": "container.auto_remove",
        "stop_container": "container.stop_container",
    }
    _PATHS: ClassVar[frozenset[str]] = frozenset({"venv_dir", "work_dir", "rootfs"})

    def to_dict(self) -> dict[str, Any]:
        """Every field, as JSON has it."""
        document: dict[str, Any] = json.loads(json.dumps(asdict(self)))  # type: ignore[call-overload]
        return document

    def to_json(self) -> str:
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Any:
        """The other way. Unknown keys are refused."""
        known = {each.name for each in fields(cls)}  # type: ignore[arg-type]
        unknown = sorted(set(document) - known)
        if unknown:
            raise ValueError(f"{cls.__name__} has no {', '.join(unknown)}; it has {', '.join(sorted(known))}")
        values = dict(document)
        if values.get("mounts") is not None:
            values["mounts"] = tuple(each if isinstance(each, Mount) else Mount(**each) for each in values["mounts"])
        if isinstance(values.get("environment"), dict):
            values["environment"] = Environment(**values["environment"])
        for name in ("preload", "deps", "device_requests", "cap_add"):
            if values.get(name) is not None:
                values[name] = tuple(values[name])
        return cls(**values)

    @classmethod
    def from_json(cls, text: str) -> Any:
        return cls.from_dict(json.loads(text))

    def policy(self, local: bool) -> dict[str, Any]:
        """The policy document of the server. `local`: it is on this machine, and knows this process's paths."""
        document: dict[str, Any] = {"executor": self.executor}
        for each in fields(self):  # type: ignore[arg-type]
            value = getattr(self, each.name)
            if value is None or value in ((), {}) or each.name == "network_disabled":
                continue
            if each.name in self._PATHS:
                value = _host_path(value, local)
            if isinstance(value, Environment):
                value = value.document(local)
            if each.name == "mounts":
                value = [mount.document(local) for mount in value]
            *above, word = self._WORDS.get(each.name, each.name).split(".")
            group = document.setdefault(above[0], {}) if above else document
            group[word] = list(value) if isinstance(value, tuple) else value
        if local and os.path.isabs(document.get("python", "")):
            document.update(self._named(document.pop("python")))
        if (file := document.pop("deps_file", None)) is not None:
            document["deps"] = [*document.get("deps", []), *_requirements(file)]
        return document

    @staticmethod
    def _named(python: str) -> dict[str, str]:
        """The server's words for an interpreter by its path."""
        return _interpreter(python)


@dataclass(frozen=True)
class SandboxConfig(_Config):
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
        _settle(self)

    def policy(self, local: bool) -> dict[str, Any]:
        document = super().policy(local)
        document["network"] = "none" if self.network_disabled else "host"
        return document


@dataclass(frozen=True)
class LocalConfig(_Config):
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
        _settle(self)


@dataclass(frozen=True)
class SubprocessConfig(_Config):
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
        _settle(self)

    @staticmethod
    def _named(python: str) -> dict[str, str]:
        """Also of a virtual environment: it chooses the interpreter, and not the packages."""
        return {"python": os.path.abspath(python)}


@dataclass(frozen=True)
class InProcessConfig(_Config):
    """The caller's own process and interpreter: fastest, and no isolation. For code that is trusted."""

    executor: ClassVar[str] = "inprocess"

    default_timeout: Optional[Duration] = 30.0
    allow_runtime_deps: bool = True  # whether the session may add and remove packages
    deps: tuple[str, ...] = ()  # packages that session.deps.sync() installs
    deps_file: Optional[str] = None  # a requirements.txt with more of them
    value_of: Optional[Callable[[Any], str]] = None  # the text of a value; None: its repr()

    def __post_init__(self) -> None:
        _settle(self)

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
        deps = [*self.deps, *(_requirements(self.deps_file) if self.deps_file is not None else ())]
        if deps:
            document["deps"] = deps
        if not self.allow_runtime_deps:
            document["allow_runtime_deps"] = False
        return document


def _requirements(path: str) -> list[str]:
    """The requirements of a file, without comments. What is none is refused by the server."""
    with open(path, encoding="utf-8") as file:
        lines = (re.sub(r"(^|\s)#.*", "", line).strip() for line in file)
        return [line for line in lines if line]


def _settle(config: Any) -> None:
    """Paths may be given as os.PathLike, and lists where tuples are kept."""
    for name in ("venv_dir", "work_dir", "bind_dir", "rootfs", "python_version", "deps_file"):
        value = getattr(config, name, None)
        if isinstance(value, os.PathLike):
            object.__setattr__(config, name, os.fspath(value))
    for name in ("preload", "mounts", "deps", "packages", "device_requests", "cap_add"):
        value = getattr(config, name, None)
        if isinstance(value, str):
            raise TypeError(f"{name} is a sequence, not a text")
        if value is not None and not isinstance(value, tuple):
            object.__setattr__(config, name, tuple(value))


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
