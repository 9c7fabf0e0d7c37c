"""The files of a session's workspace. Paths are relative to it."""

from __future__ import annotations

import contextlib
import os

from cella._transport.aio import in_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO, Literal, Union

    from cella._async.exchange import Answer
    from cella._async.session import Session


class FileEntry:
    """A file or directory in a list."""

    __slots__ = ("media_type", "name", "size", "type")

    def __init__(self, document: dict[str, Any]) -> None:
        self.name: str = document["name"]
        self.type: str = document["type"]
        self.size: int = document["size"]
        self.media_type: str = document.get("media_type", "")

    def __repr__(self) -> str:
        return f"FileEntry({self.name!r}, {self.type}, {self.size} bytes)"


class Files:
    """Up, down, lists and removal."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def upload(self, path: str, content: Union[bytes, str, os.PathLike[str]]) -> None:
        """Writes a file: bytes, a text (UTF-8), or a file of the caller (an os.PathLike)."""
        client, session = await self._session.opened()
        if isinstance(content, os.PathLike):
            with await in_thread(_open, content, "rb") as file:
                await client.upload(session, path, file)
        else:
            await client.upload(session, path, content.encode() if isinstance(content, str) else bytes(content))

    async def download(self, path: str) -> bytes:
        client, session = await self._session.opened()
        answer = await client.download(session, path)
        try:
            return await answer.read()
        finally:
            answer.release()

    async def download_to(self, path: str, to: Union[str, os.PathLike[str]]) -> None:
        """Into a file of the caller, which appears when it is whole."""
        client, session = await self._session.opened()
        await _save(await client.download(session, path), to)

    async def list(self, path: str = "") -> list[FileEntry]:
        """The entries of a directory."""
        client, session = await self._session.opened()
        entries: list[FileEntry] = []
        after = None
        while True:
            page = await client.list_files(session, path, after)
            entries += [FileEntry(each) for each in page["files"]]
            after = page["next"]
            if after is None:
                return entries

    async def delete(self, path: str, recursive: bool = False) -> None:
        """Removes a file; with `recursive` also a directory with all below it."""
        client, session = await self._session.opened()
        await client.delete_file(session, path, recursive)

    async def download_archive(self, to: Union[str, os.PathLike[str]], path: str = "") -> None:
        """The workspace, or a directory of it, as a tar archive."""
        client, session = await self._session.opened()
        await _save(await client.download_archive(session, path), to)

    async def upload_archive(self, archive: Union[str, os.PathLike[str]], path: str = "") -> None:
        """Unpacks a tar archive of the caller into the workspace."""
        client, session = await self._session.opened()
        with await in_thread(_open, archive, "rb") as file:
            await client.upload_archive(session, file, path)


def _open(path: Union[str, os.PathLike[str]], mode: Literal["rb", "xb"]) -> BinaryIO:
    return open(path, mode)


async def _save(answer: Answer, to: Union[str, os.PathLike[str]]) -> None:
    where = os.fspath(to)
    part = f"{where}.{os.urandom(4).hex()}.part"
    try:
        with await in_thread(_open, part, "xb") as file:
            async for each in answer.parts():
                await in_thread(file.write, each)
        os.replace(part, where)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
        raise
    finally:
        answer.release()
