"""The routes of a session's files; a part of `Client`."""

from __future__ import annotations

import json

from cella._async.packages import session_path as _session_path
from cella._http import quote, target
from cella.errors import InvalidRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO, Optional, Union

    from cella._async.exchange import Answer

    Document = dict[str, Any]


def _file_path(session: str, path: str, recursive: bool = False) -> str:
    """Also as the code in a jail or container names it: /workspace/x; in a sandbox /tmp/x."""
    base = "/tmp" if path.startswith("/tmp/") else "/workspace"
    path = path.removeprefix(base + "/")
    if path.startswith("/"):
        words = f"path {path!r} is absolute, and below neither /workspace nor /tmp, whose files alone can be reached"
        raise InvalidRequest(400, "invalid", words)
    where = _session_path(session, "files") + "/" + quote(path)
    return target(where, {"recursive": "true" if recursive else None, "base": "/tmp" if base == "/tmp" else None})


class FileRoutes:
    if TYPE_CHECKING:

        async def _ask(self, method: str, where: str, document: Optional[object] = None) -> Any: ...

        async def _begin(self, method: str, where: str) -> Answer: ...

        async def _put(self, where: str, content: Union[bytes, BinaryIO]) -> bytes: ...

    async def list_files(
        self, session: str, path: str = "", after: Optional[str] = None, limit: Optional[int] = None
    ) -> Document:
        where = target(_session_path(session, "files"), {"path": path or None, "after": after, "limit": limit})
        answer: Document = await self._ask("GET", where)
        return answer

    async def upload(self, session: str, path: str, content: Union[bytes, BinaryIO]) -> None:
        await self._put(_file_path(session, path), content)

    async def download(self, session: str, path: str) -> Answer:
        """A file as it comes (`parts`). Release the answer."""
        return await self._begin("GET", _file_path(session, path))

    async def delete_file(self, session: str, path: str, recursive: bool = False) -> None:
        await self._ask("DELETE", _file_path(session, path, recursive))

    async def download_archive(self, session: str, path: str = "") -> Answer:
        """The workspace, or a directory of it, as a tar archive. Release the answer."""
        return await self._begin("GET", target(_session_path(session, "archive"), {"path": path or None}))

    async def upload_archive(self, session: str, content: Union[bytes, BinaryIO], path: str = "") -> Document:
        where = target(_session_path(session, "archive"), {"path": path or None})
        answer: Document = json.loads(await self._put(where, content))
        return answer
