"""The packages that a session adds to those of its Python, from the operator's index. The code gets no network."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

    from cella._async.packages import OnProgress
    from cella._async.session import Session

    Names = list[str]


class DepsChange:
    """What a change did."""

    __slots__ = ("added", "needs_restart", "removed")

    def __init__(self, document: dict[str, Any]) -> None:
        self.added: dict[str, str] = {each["name"]: each["version"] for each in document["added"]}
        self.removed: list[str] = list(document["removed"])
        # The session's Python had these in another version, and may have imported that one.
        self.needs_restart: list[str] = list(document["needs_restart"])

    def __repr__(self) -> str:
        return f"DepsChange(added={self.added}, removed={self.removed}, needs_restart={self.needs_restart})"


class Deps:
    """Add, list, remove, synchronise."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def add(self, *specs: str, on_progress: Optional[OnProgress] = None) -> DepsChange:
        """Installs packages, as `numpy>=2`. The next run can import them. Raises DepsError if it cannot be done.

        `on_progress(line)` is called with the lines of the installer.
        """
        client, session = await self._session.opened()
        return DepsChange(await client.add_deps(session, [*specs], on_progress))

    async def list(self) -> Names:
        """What was asked for, each name once."""
        client, session = await self._session.opened()
        return [str(each) for each in (await client.deps(session))["deps"]]

    async def installed(self) -> dict[str, str]:
        """The versions of what was installed for it."""
        client, session = await self._session.opened()
        return {each["name"]: each["version"] for each in (await client.deps(session))["installed"]}

    async def remove(self, name: str) -> bool:
        """Whether the package was there."""
        client, session = await self._session.opened()
        return await client.remove_dep(session, name)

    async def sync(self, on_progress: Optional[OnProgress] = None) -> DepsChange:
        """Installs what the session was configured with (`deps`, `deps_file`). `on_progress` as for `add`."""
        client, session = await self._session.opened()
        return DepsChange(await client.sync_deps(session, on_progress))
