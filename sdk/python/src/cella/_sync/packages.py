# Made from _async/packages.py by tools/make_sync.py: change that one.
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

    def _ask(self, method: str, where: str, document: Any = None) -> Any:
        raise NotImplementedError

    def deps(self, session: str) -> Document:
        answer: Document = self._ask("GET", session_path(session, "deps"))
        return answer

    def add_deps(self, session: str, packages: list[str]) -> Document:
        answer: Document = self._ask("POST", session_path(session, "deps"), {"packages": packages})
        return answer

    def sync_deps(self, session: str) -> Document:
        answer: Document = self._ask("POST", session_path(session, "deps", "sync"))
        return answer

    def remove_dep(self, session: str, name: str) -> bool:
        answer = self._ask("DELETE", session_path(session, "deps", name))
        return bool(answer["removed"])
