"""The executor `container` and its configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Optional, Union

from cella._config import Config, Duration, Mount, Size, settle
from cella.config import Executor

_MOST_CORES = 4096


@dataclass(frozen=True)
class ContainerConfig(Config):
    """A container of Docker or Podman with the image's own interpreters. It has no network and limits, unless told
    otherwise.

    It fails closed. `auth_token` is what the agent inside the container asks for before it does anything, and
    `auth_disabled=True` makes it ask for nothing; a configuration with neither is refused.
    """

    executor: ClassVar[str] = "container"

    timeout: Optional[Duration] = 60.0
    allow_runtime_deps: bool = False  # whether the session may add and remove packages
    deps: tuple[str, ...] = ()  # packages that session.deps.sync() installs
    deps_file: Optional[str] = None  # a requirements.txt with more of them
    auth_token: Optional[str] = field(default=None, repr=False)
    auth_disabled: bool = False
    network_disabled: bool = True
    memory_limit: Optional[Size] = "512m"
    cpu_quota: Optional[float] = None  # cores
    image: Optional[str] = None  # None: the server's, python:3-slim
    pull: Optional[str] = None  # "missing", "never"
    mode: Optional[str] = None  # "session", or "command": a process for each block
    fresh: Optional[str] = None  # "run": each run has a container of its own, and no variables or files stay
    container_name: Optional[str] = None
    engine: Optional[str] = None  # "unix:///PATH", "tcp://HOST:PORT"
    runtime: Optional[str] = None  # of the engine: "runsc", "kata"
    read_only: Optional[bool] = None  # False: the image's files can be written to
    work_dir: Optional[str] = None
    bind_dir: Optional[str] = None  # work_dir as the engine's machine names it
    user: Optional[Union[int, str]] = None  # "UID" or "UID:GID" inside; None: the caller
    extra_hosts: dict[str, str] = field(default_factory=dict)  # names of machines to addresses
    device_requests: tuple[dict[str, Any], ...] = ()  # of the Engine API: {"Count": -1, "Capabilities": [["gpu"]]}
    cap_add: tuple[str, ...] = ()  # capabilities, for user 0
    init_command: Optional[str] = None  # of sh: runs once, before any code; if it fails, so does the session
    auto_remove: Optional[bool] = None  # False: the container stays, stopped
    stop_container: Optional[bool] = None  # False: it stays, running and idle
    mounts: tuple[Mount, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    checkpoint: Optional[str] = None  # "auto", "always", "off"
    value_of: Optional[str] = None  # "last_expr", or "last_expr_or_assign": also what the last line assigns
    cpu_time_limit: Optional[Duration] = None
    pids_limit: Optional[int] = None
    disk_limit: Optional[Size] = None
    output_limit: Optional[Size] = None
    open_files_limit: Optional[int] = None
    calls_limit: Optional[int] = None  # calls of tools and the like, of one run
    calls_at_once_limit: Optional[int] = None
    call_size_limit: Optional[Size] = None  # arguments of a call, and its result
    idle_timeout: Optional[Duration] = None
    max_lifetime: Optional[Duration] = None
    best_effort: bool = False

    def __post_init__(self) -> None:
        settle(self)
        if self.auth_token and self.auth_disabled:
            raise ValueError("auth_token and auth_disabled=True contradict each other: give one of them")
        if not self.auth_token and not self.auth_disabled:
            raise ValueError(
                "a container needs auth_token, which its agent asks for, or auth_disabled=True, for development on "
                "your own machine"
            )
        if self.mode == "command" and (self.allow_runtime_deps or self.deps or self.deps_file is not None):
            raise ValueError('packages are for sessions that keep their state: leave mode="command" out, or deps')
        if self.cpu_quota is not None and self.cpu_quota > _MOST_CORES:
            raise ValueError(
                f"cpu_quota={self.cpu_quota} is too much for a number of cores. If it is Docker's quota of a period of "
                f"100000 microseconds, write {self.cpu_quota / 100_000:g}"
            )

    def policy(self, local: bool) -> dict[str, Any]:
        document = super().policy(local)
        if self.user is not None:
            document["container"]["user"] = str(self.user)
        document["network"] = "none" if self.network_disabled else "bridge"
        return document


class ContainerExecutor(Executor):
    """A container of Docker or Podman for each session."""

    _CONFIG = ContainerConfig
    config: ContainerConfig
