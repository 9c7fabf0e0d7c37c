"""The routes of artifacts and workflows; a part of `Client`."""

from __future__ import annotations

import json

from cella._http import quote, target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, BinaryIO, Optional, Union

    from cella._async.exchange import Answer

    Document = dict[str, Any]
    Query = Mapping[str, Union[str, int, None]]


def _path(session: str, what: str, name: Optional[str]) -> str:
    where = f"/v1/sessions/{quote(session)}/{what}"
    return where if name is None else f"{where}/{quote(name)}"


class StorageRoutes:
    if TYPE_CHECKING:

        async def _ask(self, method: str, where: str, document: Optional[object] = None) -> Any: ...

        async def _begin(self, method: str, where: str) -> Answer: ...

        async def _put(self, where: str, content: Union[bytes, BinaryIO]) -> bytes: ...

    async def storage(
        self, session: str, method: str, what: str, name: Optional[str] = None, query: Optional[Query] = None,
        document: Optional[Document] = None,
    ) -> Any:
        """`what` is artifacts or workflows."""
        return await self._ask(method, target(_path(session, what, name), dict(query or {})), document)

    async def put_artifact(self, session: str, name: str, content: bytes, query: Query) -> Document:
        where = target(_path(session, "artifacts", name), dict(query))
        answer: Document = json.loads(await self._put(where, content))
        return answer

    async def get_artifact(self, session: str, name: str) -> tuple[str, bytes]:
        """Kind and content."""
        answer = await self._begin("GET", _path(session, "artifacts", name))
        try:
            return answer.response.headers.get("x-cella-kind", "bytes"), await answer.read()
        finally:
            answer.release()
