"""Functions of the caller that code in a session may call: their schema, from type hints and docstring, and the check
and conversion of what the code passes. The standard library alone."""

from __future__ import annotations

import collections.abc
import contextvars
import dataclasses
import enum
import inspect
import json
import os
import pathlib
import re
import types
import typing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any, Callable, Optional

    Entries = list[dict[str, Any]]

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}\Z")
_RESERVED = ("list", "search", "call_sync", "call_async")
_MOST_MESSAGE = 1500
_MOST_FOUND = 100
MOST_QUERY = 256
MOST_BYTES = 1 << 20
_PLAIN: dict[Any, tuple[str, tuple[type, ...]]] = {
    str: ("string", (str,)),
    int: ("integer", (int,)),
    float: ("number", (int, float)),
    bool: ("boolean", (bool,)),
    type(None): ("null", (type(None),)),
}
_LISTS = (list, tuple, set, frozenset, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Set)
_DICTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_UNIONS = (typing.Union, getattr(types, "UnionType", typing.Union))


# The sessions whose calls are being served here. A run in one of them would wait for itself.
SERVED: contextvars.ContextVar[frozenset[str]] = contextvars.ContextVar("cella_served", default=frozenset())


def refuse_own_session(session: str) -> None:
    if session in SERVED.get():
        from cella.errors import CellaError

        raise CellaError(
            "a tool cannot run code in the session that calls it, which would wait for itself: open another session"
        )


class BadArgument(Exception):
    """What the code has passed does not fit the function."""


class Tool:
    """One function with what the code is told about it."""

    def __init__(
        self, function: Callable[..., Any], name: Optional[str], description: Optional[str], timeout: Optional[float]
    ) -> None:
        self.name = getattr(function, "__name__", "") if name is None else name
        if not NAME.match(self.name) or self.name in _RESERVED:
            raise ValueError(
                f"a tool cannot be called {self.name!r}: letters, digits and '_', and none of {', '.join(_RESERVED)}"
                " (name= chooses another one)"
            )
        self.function = function
        self.timeout = timeout
        self._signature = inspect.signature(function)
        try:
            self._hints = typing.get_type_hints(function)
        except Exception:  # a name that is only there for checkers
            self._hints = {}
        text, arguments = _read_docstring(inspect.getdoc(function) or "")
        self.description = text if description is None else description
        self.schema = self._make_schema(arguments)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself."""
        return self.function(*args, **kwargs)

    def entry(self) -> dict[str, Any]:
        return {"name": self.name, "description": self.description, "schema": self.schema}

    def describe(self) -> dict[str, Any]:
        return self.entry()

    def _make_schema(self, descriptions: Mapping[str, str]) -> dict[str, Any]:
        properties: dict[str, Any] = {}
        required = []
        more: Any = False
        for name, parameter in self._signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                more = schema_of(self._hints.get(name, typing.Any)) or True
                continue
            one = schema_of(self._hints.get(name, typing.Any))
            if parameter.kind is parameter.VAR_POSITIONAL:
                one = {"type": "array", "items": one}
            elif parameter.default is parameter.empty:
                required.append(name)
            elif _is_json(parameter.default):
                one = {**one, "default": parameter.default}
            if name in descriptions:
                one = {**one, "description": descriptions[name]}
            properties[name] = one
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": more}

    def bind(self, arguments: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and named arguments, checked and converted, of a call's JSON text."""
        document = json.loads(arguments)
        try:
            bound = self._signature.bind(*document.get("args", ()), **dict(document.get("kwargs", ())))
        except TypeError as error:
            raise BadArgument(f"TypeError: {self.name}(): {error}") from None
        for name, value in bound.arguments.items():
            kind, hint = self._signature.parameters[name].kind, self._hints.get(name, typing.Any)
            where = f"{self.name}(): {name}"
            if kind is inspect.Parameter.VAR_POSITIONAL:
                bound.arguments[name] = tuple(convert(each, hint, where) for each in value)
            elif kind is inspect.Parameter.VAR_KEYWORD:
                bound.arguments[name] = {key: convert(each, hint, f"{where}[{key!r}]") for key, each in value.items()}
            else:
                bound.arguments[name] = convert(value, hint, where)
        return bound.args, bound.kwargs

    def encode(self, value: Any) -> str:
        """The JSON text of a result."""
        try:
            text = json.dumps(value, allow_nan=False, default=_plain_value)
        except (TypeError, ValueError, RecursionError) as error:
            raise BadArgument(
                f"TypeError: {self.name}() returned what is no JSON value: {error}: return text, numbers, True, False,"
                " None, lists, dicts or dataclasses"
            ) from None
        if len(text) > MOST_BYTES:
            raise BadArgument(
                f"ValueError: {self.name}() returned {len(text)} bytes, and {MOST_BYTES} are the most: write a file, "
                "and return its name"
            )
        return text


def registering(
    tools: dict[str, Tool], name: Optional[str], description: Optional[str], timeout: Optional[float]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that adds a function to the tools."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        made = Tool(function, name, description, timeout)
        tools[made.name] = made
        return function

    return register


class Tools:
    """The functions that a session lends to its code, with the words that the code has for them."""

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self._tools = tools

    def __getattr__(self, name: str) -> Tool:
        try:
            return self._tools[name]
        except KeyError:
            raise AttributeError(f"there is no tool {name!r}: there are {', '.join(self) or 'none'}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._tools))

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def list(self) -> Entries:
        """Entries with `name`, `description` and `schema`, by name."""
        return [self._tools[name].entry() for name in self]

    def search(self, query: str, limit: int = 10) -> Entries:
        """Entries that fit the words of the query, the best first."""
        if len(query.encode()) > MOST_QUERY:
            raise ValueError(f"a search takes at most {MOST_QUERY} bytes, not {len(query.encode())}")
        wanted = re.findall(r"[a-z0-9\u0080-\U0010ffff]+", query.lower())
        scored = []
        for entry in self.list():
            name, described = entry["name"].lower(), entry["description"].lower()
            score = sum(3 * (word in name) + (word in described) for word in wanted)
            if score > 0:
                scored.append((-score, entry["name"]))
        return [self._tools[name].entry() for _, name in sorted(scored)[: max(0, min(limit, _MOST_FOUND))]]

    def __repr__(self) -> str:
        return f"<tools: {', '.join(self) or 'none'}>"


def message_of(error: BaseException) -> str:
    """Type and text, without a frame of this process."""
    text = str(error) if isinstance(error, BadArgument) else f"{type(error).__name__}: {error}"
    return text[:_MOST_MESSAGE]


def _plain_value(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"{type(value).__name__} is not one")


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def schema_of(hint: Any) -> dict[str, Any]:
    """The JSON schema of a type hint; nothing for one that is not known."""
    origin, words = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, type) and hint in _PLAIN:
        return {"type": _PLAIN[hint][0]}
    if origin in _UNIONS:
        return {"anyOf": [schema_of(each) for each in words]}
    if origin is typing.Literal:
        return {"enum": list(words)}
    if hasattr(typing, "Annotated") and origin is typing.Annotated:
        return schema_of(words[0])
    kind = origin or hint
    if kind in _LISTS:
        items = [each for each in words if each is not Ellipsis]
        return {"type": "array", "items": schema_of(items[0])} if len(items) == 1 else {"type": "array"}
    if kind in _DICTS:
        return {"type": "object", "additionalProperties": schema_of(words[1]) or True} if words else {"type": "object"}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [each.value for each in hint]}
    if isinstance(hint, type) and issubclass(hint, (pathlib.PurePath, os.PathLike)):
        return {"type": "string"}
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        fields = {field.name: schema_of(kind) for field, kind in _fields_of(hint)}
        return {"type": "object", "properties": fields}
    return {}


def _fields_of(hint: Any) -> list[tuple[dataclasses.Field[Any], Any]]:
    hints = typing.get_type_hints(hint)
    return [(field, hints.get(field.name, typing.Any)) for field in dataclasses.fields(hint)]


def convert(value: Any, hint: Any, where: str) -> Any:
    """A JSON value as the type that the hint names. A hint that is not known takes everything."""
    origin, words = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, type) and hint in _PLAIN:
        name, kinds = _PLAIN[hint]
        # bool is an int in Python, and no number in JSON.
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise _unfit(where, name, value)
        return float(typing.cast(float, value)) if hint is float else value
    if origin in _UNIONS:
        return _convert_union(value, words, where)
    if origin is typing.Literal:
        if not any(value == each and type(value) is type(each) for each in words):
            raise _unfit(where, " or ".join(map(repr, words)), value)
        return value
    if hasattr(typing, "Annotated") and origin is typing.Annotated:
        return convert(value, words[0], where)
    kind = origin or hint
    if kind in _LISTS:
        return _convert_list(value, kind, words, where)
    if kind in _DICTS:
        if not isinstance(value, dict):
            raise _unfit(where, "object", value)
        item = words[1] if words else typing.Any
        return {key: convert(each, item, f"{where}[{key!r}]") for key, each in value.items()}
    return _convert_class(value, hint, where) if isinstance(hint, type) else value


def _convert_class(value: Any, hint: Any, where: str) -> Any:
    kind = hint
    if issubclass(hint, enum.Enum):
        return _made(hint, value, where, " or ".join(repr(each.value) for each in hint))
    if issubclass(hint, pathlib.PurePath):
        if not isinstance(value, str):
            raise _unfit(where, "string", value)
        return _made(hint, value, where, "path")
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, dict):
            raise _unfit(where, "object", value)
        known = {field.name: kind for field, kind in _fields_of(hint)}
        unknown = [key for key in value if key not in known]
        if unknown:
            raise BadArgument(f"TypeError: {where}: unknown key {unknown[0]!r}: there are {', '.join(known)}")
        made = {key: convert(each, known[key], f"{where}.{key}") for key, each in value.items()}
        try:
            return kind(**made)
        except TypeError as error:
            raise BadArgument(f"TypeError: {where}: {error}") from None
    return value


def _convert_union(value: Any, hints: Sequence[Any], where: str) -> Any:
    # The plain ones first, which take a value as it is.
    for hint in sorted(hints, key=lambda each: not isinstance(each, type) or each not in _PLAIN or each is float):
        try:
            return convert(value, hint, where)
        except BadArgument:
            continue
    names = " or ".join(str(schema_of(each).get("type", each)) for each in hints)
    raise _unfit(where, names, value)


def _convert_list(value: Any, kind: Any, words: Sequence[Any], where: str) -> Any:
    if not isinstance(value, list):
        raise _unfit(where, "array", value)
    if kind is tuple and words and Ellipsis not in words:
        if len(value) != len(words):
            raise _unfit(where, f"array of {len(words)}", value)
        return tuple(convert(each, hint, f"{where}[{n}]") for n, (each, hint) in enumerate(zip(value, words)))
    hint = words[0] if words else typing.Any
    made = [convert(each, hint, f"{where}[{n}]") for n, each in enumerate(value)]
    return kind(made) if kind in (tuple, set, frozenset) else made


def _made(hint: Any, value: Any, where: str, wanted: str) -> Any:
    try:
        return hint(value)
    except (TypeError, ValueError):
        raise _unfit(where, wanted, value) from None


def _unfit(where: str, wanted: str, value: Any) -> BadArgument:
    text = json.dumps(value)
    shown = text if len(text) <= 60 else text[:57] + "..."
    return BadArgument(f"TypeError: {where}: must be {wanted}, not {shown}")


_SECTION = re.compile(r"(args|arguments|parameters|returns?|raises|yields|examples?|notes?):?\s*\Z", re.IGNORECASE)
_GOOGLE = re.compile(r"\s+\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)")
_REST = re.compile(r":param\s+(?:[^:]*\s)?(\w+):\s*(.*)")


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The text before the first section, and what it says of the arguments (Google's form, or `:param name:`)."""
    before: list[str] = []
    arguments: dict[str, str] = {}
    section = ""
    for line in text.splitlines():
        rest = _REST.match(line.strip())
        if rest:
            arguments[rest[1]] = rest[2].strip()
            section = "rest"
            continue
        heading = _SECTION.match(line) if line[:1].strip() else None
        if heading:
            section = heading[1].lower()
        elif section in ("args", "arguments", "parameters"):
            found = _GOOGLE.match(line)
            if found:
                arguments[found[1]] = found[2].strip()
        elif not section and not line.strip().startswith(":"):
            before.append(line)
    return "\n".join(before).strip(), arguments
