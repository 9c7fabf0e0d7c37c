"""Rich representations: from the methods that objects define for notebooks to a bundle of MIME types and texts."""

import binascii
import sys

from .errors import summary_of
from .texts import bounded, text_of, type_name

METHODS = {
    "_repr_html_": "text/html",
    "_repr_markdown_": "text/markdown",
    "_repr_svg_": "image/svg+xml",
    "_repr_png_": "image/png",
    "_repr_jpeg_": "image/jpeg",
    "_repr_latex_": "text/latex",
    "_repr_json_": "application/json",
    "_repr_javascript_": "application/javascript",
    "_repr_pdf_": "application/pdf",
}
_NAMES = frozenset(METHODS)
_PLAIN_TYPES = frozenset((int, float, complex, bool, str, bytes, bytearray, list, tuple, dict, set, frozenset, range))


def is_plain(value) -> bool:
    """Has no representation but its repr()."""
    try:
        return type(value) in _PLAIN_TYPES or issubclass(type(value), type)
    except TypeError:  # a metaclass may make classes unhashable
        return False


def _call(value, name: str, *arguments):
    """A method's (data, metadata), or (None, {}) where it declines or fails."""
    try:
        data = getattr(value, name)(*arguments)
    except NotImplementedError:
        return None, {}
    except Exception as error:
        print("%s of %s failed: %s" % (name, type_name(value), summary_of(error)), file=sys.stderr)
        return None, {}
    if isinstance(data, tuple) and len(data) == 2:
        return data[0], data[1] if isinstance(data[1], dict) else {}
    return data, {}


def as_text(kind: str, data, limit: int) -> str:
    if isinstance(data, (bytes, bytearray, memoryview)):
        return binascii.b2a_base64(data, newline=False).decode("ascii")
    if not isinstance(data, str):
        import json

        return json.dumps(data, default=str)
    return bounded(data, limit) if kind == "text/plain" else data


def defined(value) -> set:
    """Names that the object's class really has; asking the object would wake every __getattr__."""
    names = set()
    for base in type.__getattribute__(type(value), "__mro__"):
        names.update(base.__dict__)
    return names


def bundle(value, limit: int):
    """(mime, metadata) of any object; text/plain is always there."""
    mime, metadata = {}, {}
    if not is_plain(value):
        names = defined(value)
        if "_repr_mimebundle_" in names:
            data, extra = _call(value, "_repr_mimebundle_")
            if isinstance(data, dict):
                _merge(mime, metadata, data, extra, limit)
        for name in _NAMES & names:
            kind = METHODS[name]
            if kind not in mime:
                data, extra = _call(value, name)
                if data is not None:
                    _merge(mime, metadata, {kind: data}, {kind: extra} if extra else {}, limit)
    if "text/plain" not in mime:
        mime["text/plain"] = text_of(value, limit)
    return mime, metadata


def raw(data, limit: int):
    """A bundle that the guest made itself."""
    mime = {}
    if isinstance(data, dict):
        _merge(mime, {}, data, {}, limit)
    return mime


def _merge(mime: dict, metadata: dict, data: dict, extra: dict, limit: int):
    for kind, content in data.items():
        if content is None:
            continue
        try:
            mime[str(kind)] = as_text(kind, content, limit)
        except Exception as error:
            print("a representation as %s failed: %s" % (kind, summary_of(error)), file=sys.stderr)
    metadata.update(clean_metadata(extra))


def count_nodes(value, bound: int) -> int:
    """Values within a value, itself included; counting ends beyond the bound."""
    count, waiting = 0, [value]
    while waiting and count <= bound:
        part = waiting.pop()
        count += 1
        if isinstance(part, (dict, list)):
            waiting.extend(part.values() if isinstance(part, dict) else part)
    return count


def clean_metadata(metadata) -> dict:
    try:
        if not metadata:
            return {}
        import json

        return json.loads(json.dumps(metadata, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return {}
