"""Names of type hints, looked up when a framework asks for them: `typing` would cost milliseconds of each start."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any as _Any
    from typing import Callable as _Callable


class Hint:
    """Stands for what `make` returns; `Hint[...]` is that."""

    def __init__(self, make: _Callable[[], _Any]) -> None:
        self._make = make

    def __getitem__(self, item: object) -> _Any:
        return self._make()[_resolved(item)]

    def __call__(self, *words: _Any) -> _Any:
        return self._make()(*words)

    def __repr__(self) -> str:
        return repr(self._make())

    @property
    def made(self) -> _Any:
        return self._make()


def _resolved(item: object) -> object:
    if isinstance(item, Hint):
        return item.made
    if isinstance(item, (tuple, list)):
        return type(item)(_resolved(each) for each in item)
    return item


def _typing(name: str) -> Hint:
    def make() -> _Any:
        import typing

        return getattr(typing, name)

    return Hint(make)


class _NotForModels:
    """In Annotated: frameworks that make a JSON schema of a method's hints with pydantic leave the parameter out."""

    def __get_pydantic_json_schema__(self, schema: object, handler: object) -> dict[str, _Any]:
        from pydantic_core import PydanticOmit

        raise PydanticOmit


def not_for_models(make: _Callable[[], _Any]) -> Hint:
    """A hint of callbacks, which no model can give."""

    def made() -> _Any:
        import typing

        return typing.Annotated[make(), _NotForModels()]

    return Hint(made)


def member(module: str, name: str) -> Hint:
    return Hint(lambda: getattr(__import__(module, fromlist=[name]), name))


Any, Callable, Optional, Union = map(_typing, ("Any", "Callable", "Optional", "Union"))
