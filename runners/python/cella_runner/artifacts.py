"""The name `artifacts`: text, bytes and JSON values that outlive the session. Nothing is ever pickled.

What is large goes through a file of the workspace, in both directions.
"""

import builtins
import os

from . import calls

SPACE = "artifacts"
_INLINE = 128 << 10  # escaped, this is less than a call may have
_WORKSPACE = "/workspace"


class ArtifactError(calls.HostCallError):
    """An artifact could not be saved, loaded or deleted."""

    __module__ = "builtins"


class ArtifactNotFoundError(ArtifactError):
    """There is no artifact of that name."""

    __module__ = "builtins"


_ERRORS = {kind.__name__: kind for kind in (ArtifactError, ArtifactNotFoundError)}
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
    return calls.call(SPACE, operation, args, kwargs, _ERRORS)


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


class Artifacts:
    """What outlives the session: `save`, `load`, `list`, `get`, `exists`, `delete`, `path`."""

    def save(self, name, data, description="", metadata=None):
        """Keep text, bytes or a JSON value under a name such as "reports/june.json"."""
        kind, content = _encode(data)
        details = {"description": description, "metadata": metadata}
        if len(content) <= _INLINE:
            return Entry(_call("save", (name, kind), dict(details, data=_inline(kind, content))))
        part = _part_name()
        path = os.path.join(_workspace(), part)
        try:
            with open(path, "wb") as file:
                file.write(content)
            return Entry(_call("save", (name, kind), dict(details, file=part)))
        except OSError as error:
            raise _error("save", "the workspace takes no file of %d bytes: %s" % (len(content), error)) from None
        finally:
            try:
                os.unlink(path)
            except OSError:
                pass

    def load(self, name):
        """The value as it was saved."""
        answer = _call("load", (name,))
        if "data" in answer:
            data = answer["data"]
            if answer["kind"] == "bytes":
                import base64

                return base64.b64decode(data)
            return _decode(answer["kind"], data.encode("utf-8"))
        path = os.path.join(_workspace(), answer["file"])
        try:
            with open(path, "rb") as file:
                content = file.read()
        except OSError as error:
            raise _error("load", "the workspace lost the content: %s" % error) from None
        finally:
            try:
                os.unlink(path)
            except OSError:
                pass
        return _decode(answer["kind"], content)

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
        return answer["path"] if "path" in answer else os.path.join(_workspace(), answer["file"])

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
    for name, kind in _ERRORS.items():
        setattr(builtins, name, kind)
