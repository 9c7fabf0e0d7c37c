"""Executors: where code runs, and how it is confined. Each has a frozen configuration that is also a JSON document."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Optional, Union

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
    """What both configurations share: they become JSON and a policy of the server."""

    executor: ClassVar[str]
    # The server's words for our fields: a name, or a name below "limits".
    _WORDS: ClassVar[dict[str, str]] = {
        "default_timeout": "limits.timeout",
        "memory_limit": "limits.memory",
        "cpu_quota": "limits.cpus",
        "pids_limit": "limits.pids",
        "disk_limit": "limits.disk",
        "output_limit": "limits.output",
        "cpu_time_limit": "limits.cpu_time",
        "open_files_limit": "limits.open_files",
        "python_version": "python",
        "venv_dir": "venv",
        "work_dir": "workdir",
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
        if values.get("preload") is not None:
            values["preload"] = tuple(values["preload"])
        return cls(**values)

    @classmethod
    def from_json(cls, text: str) -> Any:
        return cls.from_dict(json.loads(text))

    def policy(self, local: bool) -> dict[str, Any]:
        """The policy document of the server. `local`: it is on this machine, and knows this process's paths."""
        document: dict[str, Any] = {"executor": self.executor}
        limits: dict[str, Any] = {}
        for each in fields(self):  # type: ignore[arg-type]
            value = getattr(self, each.name)
            if value is None or value in ((), {}) or each.name == "network_disabled":
                continue
            if each.name in self._PATHS:
                value = _host_path(value, local)
            word = self._WORDS.get(each.name, each.name)
            if word.startswith("limits."):
                limits[word[len("limits.") :]] = value
            elif each.name == "mounts":
                document[word] = [mount.document(local) for mount in value]
            else:
                document[word] = list(value) if isinstance(value, tuple) else value
        if limits:
            document["limits"] = limits
        if local and os.path.isabs(document.get("python", "")):
            document.update(_interpreter(document.pop("python")))
        return document


@dataclass(frozen=True)
class SandboxConfig(_Config):
    """A jail. What is not given is the server's default: 60 s, 1 GB, 128 processes, no network.

    Sizes are bytes or texts such as "512m"; durations are seconds or texts such as "500ms".
    """

    executor: ClassVar[str] = "sandbox"

    default_timeout: Optional[Duration] = None
    python_version: Optional[str] = None  # "3.12", or the path of an interpreter
    venv_dir: Optional[str] = None
    memory_limit: Optional[Size] = None
    cpu_quota: Optional[float] = None  # cores
    cpu_time_limit: Optional[Duration] = None
    pids_limit: Optional[int] = None
    disk_limit: Optional[Size] = None
    output_limit: Optional[Size] = None
    open_files_limit: Optional[int] = None
    network_disabled: bool = True
    preload: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    work_dir: Optional[str] = None
    rootfs: Optional[str] = None
    checkpoint: Optional[str] = None  # "auto", "always", "off"
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
    memory_limit: Optional[Size] = None
    cpu_quota: Optional[float] = None
    cpu_time_limit: Optional[Duration] = None
    pids_limit: Optional[int] = None
    disk_limit: Optional[Size] = None
    output_limit: Optional[Size] = None
    open_files_limit: Optional[int] = None
    env: dict[str, str] = field(default_factory=dict)
    work_dir: Optional[str] = None
    idle_timeout: Optional[Duration] = None
    max_lifetime: Optional[Duration] = None
    best_effort: bool = False

    def __post_init__(self) -> None:
        _settle(self)


def _settle(config: Any) -> None:
    """Paths may be given as os.PathLike, and lists where tuples are kept."""
    for name in ("venv_dir", "work_dir", "rootfs", "python_version"):
        value = getattr(config, name, None)
        if isinstance(value, os.PathLike):
            object.__setattr__(config, name, os.fspath(value))
    for name in ("preload", "mounts"):
        value = getattr(config, name, None)
        if isinstance(value, str):
            raise TypeError(f"{name} is a sequence, not a text")
        if value is not None and not isinstance(value, tuple):
            object.__setattr__(config, name, tuple(value))


class Executor:
    """Where code runs: `SandboxExecutor(SandboxConfig(...))`, or its fields: `SandboxExecutor(pids_limit=9)`."""

    _CONFIG: ClassVar[type]
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
