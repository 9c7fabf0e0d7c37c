"""Pictures among the outputs of a run."""

from __future__ import annotations

import binascii
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Union

    from cella.result import Output, Result

# One file for each output, in the best of these forms that it has.
_KINDS = {
    "image/png": "png",
    "image/svg+xml": "svg",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "application/pdf": "pdf",
}
# Those that come as text; all others are base64.
_TEXTS = ("image/svg+xml",)


def decoded(mime: str, content: str) -> bytes:
    """The bytes of one form of an output. Base64 that is none is a guest's doing: its text is what there is."""
    if mime.startswith("text/") or mime in _TEXTS or mime.endswith(("json", "javascript")):
        return content.encode("utf-8", "surrogatepass")
    try:
        return binascii.a2b_base64(content)
    except ValueError:
        return content.encode("utf-8", "surrogatepass")


def _picture(output: Output) -> Union[tuple[str, bytes], None]:
    for mime, extension in _KINDS.items():
        data = output.data(mime)
        if data is not None:
            return extension, data
    return None


def name_of_picture(output: Output) -> str:
    """`[image/png 640x480]`; nothing if it is no picture."""
    mime = next((mime for mime in _KINDS if mime in output.mime), None)
    if mime is None:
        return ""
    try:
        data = binascii.a2b_base64(output.mime[mime][:64]) if mime not in _TEXTS else b""
    except ValueError:
        data = b""
    size = ""
    if mime == "image/png" and data[:4] == b"\x89PNG" and len(data) >= 24:
        size = f" {int.from_bytes(data[16:20], 'big')}x{int.from_bytes(data[20:24], 'big')}"
    elif mime == "image/gif" and data[:3] == b"GIF" and len(data) >= 10:
        size = f" {int.from_bytes(data[6:8], 'little')}x{int.from_bytes(data[8:10], 'little')}"
    return f"[{mime}{size}]"


def save_images(result: Result, directory: Union[str, os.PathLike[str]]) -> list[str]:
    """Names are ours alone (run and number), never the guest's."""
    os.makedirs(directory, exist_ok=True)
    run = "".join(c for c in result.id if c.isalnum() or c == "_") or "run"
    pictures = [found for found in map(_picture, result.outputs) if found is not None]
    paths = []
    for number, (extension, data) in enumerate(pictures, 1):
        path = os.path.join(os.fspath(directory), f"{run}-{number}.{extension}")
        with open(path, "wb") as file:
            file.write(data)
        paths.append(path)
    return paths
