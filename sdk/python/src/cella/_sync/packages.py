# Made from _async/packages.py by tools/make_sync.py: change that one.
"""Requests about the packages of a session."""

from __future__ import annotations

from cella._http import header_line, quote
from cella._transport.blocking import call
from cella.errors import ProtocolError, api_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional

    from cella._sync.exchange import Answer

    OnProgress = Callable[[str], Optional[None]]
    Document = dict[str, Any]

_NDJSON = header_line("Accept", "application/x-ndjson")


def session_path(session: str, *rest: str) -> str:
    return "/".join(["/v1/sessions", quote(session), *map(quote, rest)])


class PackageRequests:
    """A part of Client."""

    def _ask(self, method: str, where: str, document: Any = None) -> Any:
        raise NotImplementedError

    def _begin(self, method: str, where: str, document: Any = None, extra: bytes = b"") -> Answer:
        raise NotImplementedError

    def deps(self, session: str) -> Document:
        answer: Document = self._ask("GET", session_path(session, "deps"))
        return answer

    def add_deps(
        self, session: str, packages: list[str], on_progress: Optional[OnProgress] = None
    ) -> Document:
        return self._change_deps(session_path(session, "deps"), {"packages": packages}, on_progress)

    def sync_deps(self, session: str, on_progress: Optional[OnProgress] = None) -> Document:
        return self._change_deps(session_path(session, "deps", "sync"), None, on_progress)

    def _change_deps(self, where: str, document: Any, on_progress: Optional[OnProgress]) -> Document:
        if on_progress is None:
            plain: Document = self._ask("POST", where, document)
            return plain
        answer = self._begin("POST", where, document, _NDJSON)
        try:
            for line in answer.lines():
                if line["type"] == "progress":
                    call(on_progress, line["text"])
                elif "error" in line:
                    error = line["error"]
                    raise api_error(error["status"], error["code"], error["message"], error["hint"])
                else:
                    change: Document = line
                    return change
        finally:
            answer.release()
        raise ProtocolError("the answer ended before the change of the packages")

    def remove_dep(self, session: str, name: str) -> bool:
        answer = self._ask("DELETE", session_path(session, "deps", name))
        return bool(answer["removed"])
