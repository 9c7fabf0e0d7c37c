# Made from _async/files.py by tools/make_sync.py: change that one.
"""The files of a session's workspace. Paths are relative to it."""

from __future__ import annotations

import contextlib
import os

from cella._transport.blocking import in_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO, Literal, Union

    from cella._sync.exchange import Answer
    from cella._sync.session import Session


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

    def upload(self, path: str, content: Union[bytes, str, os.PathLike[str]]) -> None:
        """Writes a file: bytes, a text (UTF-8), or a file of the caller (an os.PathLike)."""
        client, session = self._session.opened()
        if isinstance(content, os.PathLike):
            with in_thread(_open, content, "rb") as file:
                client.upload(session, path, file)
        else:
            client.upload(session, path, content.encode() if isinstance(content, str) else bytes(content))

    def download(self, path: str) -> bytes:
        client, session = self._session.opened()
        answer = client.download(session, path)
        try:
            return answer.read()
        finally:
            answer.release()

    def download_to(self, path: str, to: Union[str, os.PathLike[str]]) -> None:
        """Into a file of the caller, which appears when it is whole."""
        client, session = self._session.opened()
        _save(client.download(session, path), to)

    def list(self, path: str = "") -> list[FileEntry]:
        """The entries of a directory."""
        client, session = self._session.opened()
        entries: list[FileEntry] = []
        after = None
        while True:
            page = client.list_files(session, path, after)
            entries += [FileEntry(each) for each in page["files"]]
            after = page["next"]
            if after is None:
                return entries

    def delete(self, path: str, recursive: bool = False) -> None:
        """Removes a file; with `recursive` also a directory with all below it."""
        client, session = self._session.opened()
        client.delete_file(session, path, recursive)

    def download_archive(self, to: Union[str, os.PathLike[str]], path: str = "") -> None:
        """The workspace, or a directory of it, as a tar archive."""
        client, session = self._session.opened()
        _save(client.download_archive(session, path), to)

    def upload_archive(self, archive: Union[str, os.PathLike[str]], path: str = "") -> None:
        """Unpacks a tar archive of the caller into the workspace."""
        client, session = self._session.opened()
        with in_thread(_open, archive, "rb") as file:
            client.upload_archive(session, file, path)


def _open(path: Union[str, os.PathLike[str]], mode: Literal["rb", "xb"]) -> BinaryIO:
    return open(path, mode)


def _save(answer: Answer, to: Union[str, os.PathLike[str]]) -> None:
    where = os.fspath(to)
    part = f"{where}.{os.urandom(4).hex()}.part"
    try:
        with in_thread(_open, part, "xb") as file:
            for each in answer.parts():
                in_thread(file.write, each)
        os.replace(part, where)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
        raise
    finally:
        answer.release()
