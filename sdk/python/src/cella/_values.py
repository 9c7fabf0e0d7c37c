"""Values that become variables of a session's code: text, bytes and JSON values, and nothing that would be pickled."""

from __future__ import annotations

import base64
import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def encode(name: str, value: object) -> tuple[str, bytes]:
    """The kind (text, bytes or json) and the data."""
    if isinstance(value, str):
        return "text", value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "bytes", bytes(value)
    try:
        # As the other ways to a session write it: code in Bash sees the text.
        return "json", json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(
            f"{name}: {error}: a variable takes text, bytes and JSON values (numbers, True, False, None, lists, dicts):"
            " convert the value, or write it to a file"
        ) from None


def encode_all(variables: Mapping[str, object]) -> dict[str, Any]:
    """As a run request has them."""
    encoded: dict[str, Any] = {}
    for name, value in variables.items():
        kind, data = encode(name, value)
        if kind == "text":
            encoded[name] = value
        elif kind == "bytes":
            encoded[name] = {"$bytes": base64.b64encode(data).decode()}
        else:
            encoded[name] = {"$json": data.decode()}
    return encoded


def decode_all(encoded: Mapping[str, Any]) -> dict[str, Any]:
    """For code in this process: the values are its own, whatever becomes of the caller's."""
    values: dict[str, Any] = {}
    for name, value in encoded.items():
        wrapped = value if isinstance(value, dict) and len(value) == 1 else {}
        if isinstance(wrapped.get("$bytes"), str):
            values[name] = base64.b64decode(wrapped["$bytes"])
        elif isinstance(wrapped.get("$json"), str):
            values[name] = json.loads(wrapped["$json"])
        else:
            values[name] = value
    return values
