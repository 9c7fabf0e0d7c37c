"""Functions that tests hand to executors. In a file of their own, since their source is what is sent."""

from __future__ import annotations

import functools
from typing import Any, Callable

from autogen_core.code_executor import Alias, FunctionWithRequirements, Import, ImportFromModule, with_requirements


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def no_words(x, *rest, key=None):  # type: ignore[no-untyped-def]
    return x


IMPORTS: list[Import] = ["json", Alias("math", "m"), ImportFromModule("os.path", ("join", Alias("sep", "slash")))]


@with_requirements(global_imports=IMPORTS)
def needs_imports(x: float) -> str:
    """Uses modules that its own file does not import."""
    return str(json.dumps([m.floor(x), join("a", "b"), slash]))  # type: ignore[name-defined]  # noqa: F821


def traced(label: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*words: Any) -> Any:
            return label, function(*words)

        return call

    return decorate


@traced(
    "over several lines",
)
@traced("and two of them")
def decorated(x: int) -> int:
    return x + 1


def make_nested() -> Callable[[int], int]:
    def nested(x: int) -> int:
        """Is indented where it is written."""
        return x * 2

    return nested


def broken_at_import(x: int = 1 // 1) -> int:
    return int(undefined_name)  # type: ignore[name-defined]  # noqa: F821


from_text = FunctionWithRequirements.from_str(
    """
def shout(text: str) -> str:
    \"\"\"Make it loud.\"\"\"
    return text.upper()
"""
)
from_callable = FunctionWithRequirements.from_callable(add)
fails_to_load = FunctionWithRequirements.from_str(
    "def f() -> None:\n    pass", global_imports=["a_module_that_nobody_has"]
)
