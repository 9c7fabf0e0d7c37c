# Made from _async/parts.py by tools/make_sync.py: change that one.
"""What belongs to a session besides its runs: files, packages, artifacts, workflows."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Optional, Union

    from cella._sync.deps import Deps
    from cella._sync.files import Files
    from cella._sync.session import Session
    from cella._sync.storage import Artifacts, Workflows
else:
    # Frameworks read the hints of methods that they offer to a model as tools.
    from cella._hints import Any, Optional, Union, member

    Files = member("cella._sync.files", "Files")


class Parts:
    """The base of `Session`."""

    @property
    def deps(self: Any) -> Deps:
        """The packages that this session adds to those of its Python."""
        from cella._sync.deps import Deps

        return Deps(self)

    @property
    def artifacts(self: Any) -> Artifacts:
        """What code keeps with `artifacts.save(...)`. Needs a storage."""
        from cella._sync.storage import Artifacts

        return Artifacts(self)

    @property
    def workflows(self: Any) -> Workflows:
        """What code keeps with `workflows.create(...)`. Needs a storage."""
        from cella._sync.storage import Workflows

        return Workflows(self)

    @property
    def files(self: Any) -> Files:
        """The workspace."""
        from cella._sync.files import Files

        return Files(self)

    def upload(self: Any, path: str, content: Union[bytes, str, os.PathLike[str]]) -> None:
        """Writes a file: bytes, a text, or a file of the caller (an os.PathLike)."""
        self.files.upload(path, content)

    def download(self: Any, path: str) -> bytes:
        """The content of a file."""
        content: bytes = self.files.download(path)
        return content

    @classmethod
    def from_base(
        cls,
        path: Union[str, os.PathLike[str]],
        *,
        timeout: Union[float, str, None] = 30,
        extra_deps: Optional[Sequence[str]] = None,
        allow_runtime_deps: bool = True,
        sync_deps_on_start: bool = False,
    ) -> Session:
        """A session in a jail whose storage is a directory: artifacts/, workflows/ and requirements.txt of it."""
        from cella.config import SandboxConfig, SandboxExecutor
        from cella.storage import FileStorage

        config: dict[str, Any] = {"deps": list(extra_deps or ()), "allow_runtime_deps": allow_runtime_deps}
        if timeout is not None:
            config["default_timeout"] = timeout
        made: Any = cls
        session: Session = made(
            FileStorage(path), SandboxExecutor(SandboxConfig(**config)), sync_deps_on_start=sync_deps_on_start
        )
        return session
