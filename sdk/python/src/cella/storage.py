"""What outlives sessions: artifacts and workflows, as plain files of one directory.

    async with cella.Session(storage=cella.FileStorage("./data")) as session:
        await session.run("artifacts.save('greeting.txt', 'hello')")
"""

from __future__ import annotations

import json
import os
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional, Union

    JsonValue = Union[None, bool, int, float, str, list[Any], dict[str, Any]]
    Value = Union[str, bytes, JsonValue]

_HINTS = {
    "DataFrame": "save data.to_csv() or data.to_json()",
    "Series": "save data.to_csv() or data.to_json()",
    "ndarray": "save data.tolist(), or data.tobytes() with its shape as metadata",
    "set": "save sorted(data)",
    "frozenset": "save sorted(data)",
    "tuple": "save list(data)",
    "datetime": "save data.isoformat()",
    "date": "save data.isoformat()",
    "Decimal": "save str(data)",
    "Path": "save data.read_bytes()",
    "PosixPath": "save data.read_bytes()",
}
_MOST_LEVELS = 100


class FileStorage:
    """A directory of artifacts and workflows. It is made when a session first uses it; several may use it at once."""

    __slots__ = ("_path",)

    def __init__(self, base_path: Union[str, os.PathLike[str]]) -> None:
        text = os.fspath(base_path)
        if not isinstance(text, str) or not text or "\0" in text:
            raise ValueError(f"base_path={base_path!r}: must be the path of a directory")
        self._path = os.path.abspath(os.path.expanduser(text))

    @property
    def base_path(self) -> Path:
        return Path(self._path)

    def __fspath__(self) -> str:
        return self._path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FileStorage) and self._path == other._path

    def __hash__(self) -> int:
        return hash(self._path)

    def __repr__(self) -> str:
        return f"FileStorage({self._path!r})"


class Entry(dict[str, "Any"]):
    """What is known of an artifact or workflow, as keys and as attributes."""

    def __getattr__(self, key: str) -> Any:
        try:
            return self[key]
        except KeyError:
            raise AttributeError(key) from None


def storage_key(storage: Union[FileStorage, str, os.PathLike[str]], is_local: bool) -> str:
    """For the Policy document: a path here, a name on a server."""
    if is_local:
        if isinstance(storage, str):
            raise TypeError(
                f"storage={storage!r}: must be a FileStorage, such as FileStorage({storage!r}); an executor is given "
                "as executor=SandboxExecutor()"
            )
        return os.fspath(storage if isinstance(storage, FileStorage) else FileStorage(storage))
    if isinstance(storage, str):
        return storage
    raise ValueError(f"storage={storage!r}: on a server, a storage is a name: storage='NAME'")


def requirements_of(storage: FileStorage) -> bool:
    return os.path.exists(os.path.join(storage, "requirements.txt"))


def _why_not(data: object, level: int = 0) -> Optional[str]:
    """Why a value would not be loaded as it was saved."""
    kind = type(data)
    if data is None or kind in (str, bool, int):
        return None
    if isinstance(data, float) and kind is float:
        return None if data - data == 0 else f"{data!r} is no JSON number: save str(data), or None in its place"
    if level > _MOST_LEVELS:
        return f"it has more than {_MOST_LEVELS} levels"
    if isinstance(data, list) and kind is list:
        return next(filter(None, (_why_not(each, level + 1) for each in data)), None)
    if isinstance(data, dict) and kind is dict:
        for key, each in data.items():
            if type(key) is not str:
                return f"the key {key!r:.50} is no text: save {{str(key): value for key, value in data.items()}}"
            why = _why_not(each, level + 1)
            if why:
                return why
        return None
    hint = _HINTS.get(kind.__name__, "convert it")
    return f"{kind.__name__} is not text, bytes or a JSON value: {hint}"


def encode(data: object) -> tuple[str, bytes]:
    """Kind and content. Raises ValueError, with a way to convert what is none of them."""
    if type(data) is str:
        return "text", data.encode("utf-8")
    if isinstance(data, (bytes, bytearray, memoryview)):
        return "bytes", bytes(data)
    why = _why_not(data)
    if why:
        raise ValueError(why)
    return "json", json.dumps(data, ensure_ascii=False, allow_nan=False).encode("utf-8")


def decode(kind: str, content: bytes) -> Any:
    if kind == "bytes":
        return content
    text = content.decode("utf-8")
    return text if kind == "text" else json.loads(text)
