"""The name `artifacts`: text, bytes and JSON values that outlive the session. Nothing is ever pickled.

What is large goes through a file of the workspace, in both directions; in parts where the host does not see the
workspace.
"""

import builtins
import os

from . import calls

SPACE = "artifacts"
_INLINE = 128 << 10  # escaped, this is less than a call may have
_PART = 512 << 10  # in base64 likewise
_MOST_TRIES = 5
_WORKSPACE = "/workspace"


class ArtifactError(calls.HostCallError):
    """An artifact could not be saved, loaded or deleted."""

    __module__ = "builtins"


class ArtifactNotFoundError(ArtifactError):
    """There is no artifact of that name."""

    __module__ = "builtins"


ERRORS = {kind.__name__: kind for kind in (ArtifactError, ArtifactNotFoundError)}
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
    "Figure": "save the bytes that savefig() wrote",
    "Image": "save the bytes that data.save() wrote",
}


def _call(operation, args=(), kwargs=None):
    # The host names what it was asked for in its own words.
    return calls.call(SPACE, operation, args, kwargs, ERRORS)


def _error(operation, message):
    return ArtifactError("artifacts.%s: %s" % (operation, message), SPACE, operation, "ArtifactError")


class Entry(dict):
    """`name`, `kind`, `size`, `description`, `metadata` and more, as keys and as attributes."""

    def __getattr__(self, key):
        try:
            return self[key]
        except KeyError:
            raise AttributeError(key) from None


def _check(data, depth=0):
    """Why a value would not be loaded as it was saved; None: it would."""
    kind = type(data)
    if data is None or kind in (str, bool, int):
        return None
    if kind is float:
        return None if data - data == 0 else "%r is no JSON number: save str(data), or None in its place" % data
    if depth > 100:
        return "it has more than 100 levels"
    if kind is list:
        for each in data:
            why = _check(each, depth + 1)
            if why:
                return why
        return None
    if kind is dict:
        for key, each in data.items():
            if type(key) is not str:
                return "the key %.50r is no text: save {str(key): value for key, value in data.items()}" % (key,)
            why = _check(each, depth + 1)
            if why:
                return why
        return None
    hint = _HINTS.get(kind.__name__, "convert it")
    return "%s is not text, bytes or a JSON value: %s" % (kind.__name__, hint)


def _encode(data):
    """Kind and content."""
    if type(data) is str:
        try:
            return "text", data.encode("utf-8")
        except UnicodeEncodeError as error:
            raise _error("save", "the text cannot be encoded (%s): save bytes" % error.reason) from None
    if isinstance(data, (bytes, bytearray, memoryview)):
        return "bytes", bytes(data)
    why = _check(data)
    if why:
        raise _error("save", why)
    import json

    try:
        return "json", json.dumps(data, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except (UnicodeEncodeError, ValueError, RecursionError) as error:
        raise _error("save", "%s: save text or bytes" % error) from None


def _decode(kind, content):
    if kind == "bytes":
        return content
    text = content.decode("utf-8")
    if kind == "text":
        return text
    import json

    return json.loads(text)


def _workspace():
    return _WORKSPACE if os.path.isdir(_WORKSPACE) else _start


def _part_name():
    # A name that the lists of the workspace leave out.
    return ".cella-part-" + os.urandom(8).hex()


def _inline(kind, content):
    if kind != "bytes":
        return content.decode("utf-8")
    import base64

    return base64.b64encode(content).decode("ascii")


def _in_parts(name, answer):
    """Kind and bytes of a content that is too large for one answer, and may be replaced meanwhile."""
    import base64

    for _ in range(_MOST_TRIES):
        parts, size, version = [], 0, answer["version"]
        while True:
            part = _call("part", (name, size, version))
            if part["version"] != version:
                break
            data = base64.b64decode(part["data"])
            parts.append(data)
            size += len(data)
            if len(data) < _PART:
                return answer["kind"], b"".join(parts)
        answer = _call("load", (name,))
        if "version" not in answer:
            return _content(name, answer)
    raise _error("load", "'%s' is replaced again and again while it is loaded" % name)


def _content(name, answer):
    """Kind and bytes of what the host answered."""
    kind = answer["kind"]
    if "data" in answer:
        if kind != "bytes":
            return kind, answer["data"].encode("utf-8")
        import base64

        return kind, base64.b64decode(answer["data"])
    if "file" not in answer:
        return _in_parts(name, answer)
    path = os.path.join(_workspace(), answer["file"])
    try:
        with open(path, "rb") as file:
            return kind, file.read()
    except OSError as error:
        raise _error("load", "the workspace lost the content: %s" % error) from None
    finally:
        _remove(path)


def _remove(path):
    try:
        os.unlink(path)
    except OSError:
        pass


def _save_file(name, kind, content, details):
    part = _part_name()
    path = os.path.join(_workspace(), part)
    try:
        with open(path, "wb") as file:
            file.write(content)
        return _call("save", (name, kind), dict(details, file=part))
    except OSError as error:
        raise _error("save", "the workspace takes no file of %d bytes: %s" % (len(content), error)) from None
    finally:
        _remove(path)


def _save_parts(name, kind, content, details, upload):
    import base64

    for offset in range(0, len(content), _PART):
        _call("append", (upload, base64.b64encode(content[offset : offset + _PART]).decode("ascii")))
    return _call("save", (name, kind), dict(details, upload=upload))


def _write_copy(name, content):
    path = os.path.join(_workspace(), ".artifacts", *name.split("/"))
    part = os.path.join(_workspace(), _part_name())
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(part, "wb") as file:
            file.write(content)
        os.replace(part, path)
    except OSError as error:
        _remove(part)
        raise _error("path", "the workspace takes no copy: %s" % error) from None
    return path


class Artifacts:
    """What outlives the session: `save`, `load`, `list`, `get`, `exists`, `delete`, `path`."""

    def save(self, name, data, description="", metadata=None):
        """Keep text, bytes or a JSON value under a name such as "reports/june.json"."""
        kind, content = _encode(data)
        details = {"description": description, "metadata": metadata}
        if len(content) <= _INLINE:
            return Entry(_call("save", (name, kind), dict(details, data=_inline(kind, content))))
        way = _call("begin", (name,))
        if "upload" in way:
            return Entry(_save_parts(name, kind, content, details, way["upload"]))
        return Entry(_save_file(name, kind, content, details))

    def load(self, name):
        """The value as it was saved."""
        return _decode(*_content(name, _call("load", (name,))))

    def list(self):
        """Entries of all artifacts, by name."""
        entries, after = [], ""
        while after is not None:
            page = _call("list", (after,))
            entries += map(Entry, page["artifacts"])
            after = page["next"]
        return entries

    def get(self, name):
        """What is known of an artifact, without its content; None: there is none."""
        answer = _call("get", (name,))
        return None if answer is None else Entry(answer)

    def exists(self, name):
        return _call("exists", (name,))

    def delete(self, name):
        """False: there was none."""
        return _call("delete", (name,))

    def path(self, name):
        """A file with the content: the artifact itself, or a copy in the workspace where code cannot see it."""
        answer = _call("path", (name,))
        if "path" in answer:
            return answer["path"]
        if "file" in answer:
            return os.path.join(_workspace(), answer["file"])
        return _write_copy(name, _content(name, answer)[1])

    def __repr__(self):
        return "<artifacts: save, load, list, get, exists, delete, path>"


_start = os.getcwd()


def install():
    global _start
    try:
        _start = os.getcwd()
    except OSError:
        pass
    builtins.artifacts = Artifacts()
    builtins.HostCallError = calls.HostCallError
    for name, kind in ERRORS.items():
        setattr(builtins, name, kind)
