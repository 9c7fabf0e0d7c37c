"""Requests about the packages of a session."""

from __future__ import annotations

from cella._http import quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Document = dict[str, Any]


def session_path(session: str, *rest: str) -> str:
    return "/".join(["/v1/sessions", quote(session), *map(quote, rest)])


class PackageRequests:
    """A part of Client."""

    async def _ask(self, method: str, where: str, document: Any = None) -> Any:
        raise NotImplementedError

    async def deps(self, session: str) -> Document:
        answer: Document = await self._ask("GET", session_path(session, "deps"))
        return answer

    async def add_deps(self, session: str, packages: list[str]) -> Document:
        answer: Document = await self._ask("POST", session_path(session, "deps"), {"packages": packages})
        return answer

    async def sync_deps(self, session: str) -> Document:
        answer: Document = await self._ask("POST", session_path(session, "deps", "sync"))
        return answer

    async def remove_dep(self, session: str, name: str) -> bool:
        answer = await self._ask("DELETE", session_path(session, "deps", name))
        return bool(answer["removed"])
