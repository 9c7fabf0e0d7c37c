"""What all configurations of executors share: paths, packages, and how fields become a policy of the server."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, fields
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
        return {"source": host_path(self.source, local), "target": self.target, "mode": mode}


@dataclass(frozen=True)
class Environment:
    """A Python environment for sessions: packages from the operator's index, as `numpy>=2`, and modules that sessions
    find imported. Made when the first session asks for it, and shared, read-only, by all that ask for the same."""

    packages: tuple[str, ...] = ()
    python: Optional[str] = None  # "3.12", or the path of an interpreter
    preload: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        settle(self)
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


def host_path(path: str, local: bool) -> str:
    """On this machine: where links lead. The server follows none, since guests may have made them."""
    return os.path.realpath(os.path.expanduser(path)) if local else path


def interpreter(path: str) -> dict[str, str]:
    """On this machine: that of a virtual environment means the environment, which its link alone would not tell."""
    environment = os.path.dirname(os.path.dirname(os.path.abspath(path)))
    if os.path.exists(os.path.join(environment, "pyvenv.cfg")):
        return {"venv": os.path.realpath(environment)}
    return {"python": os.path.realpath(path)}


class Config:
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
                value = host_path(value, local)
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
            document["deps"] = [*document.get("deps", []), *requirements(file)]
        return document

    @staticmethod
    def _named(python: str) -> dict[str, str]:
        """The server's words for an interpreter by its path."""
        return interpreter(python)


def requirements(path: str) -> list[str]:
    """The requirements of a file, without comments. What is none is refused by the server."""
    with open(path, encoding="utf-8") as file:
        lines = (re.sub(r"(^|\s)#.*", "", line).strip() for line in file)
        return [line for line in lines if line]


def settle(config: Any) -> None:
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
