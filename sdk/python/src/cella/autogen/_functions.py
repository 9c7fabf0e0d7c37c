"""Functions of the user that code can import: as the text of a module, as stubs for a prompt, and what they need."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Sequence
from string import Template
from textwrap import dedent, indent
from typing import Any, Callable, Union

from autogen_core.code_executor import (
    Alias,
    FunctionWithRequirements,
    FunctionWithRequirementsStr,
    Import,
)

UserFunction = Union[FunctionWithRequirements[Any, Any], FunctionWithRequirementsStr, Callable[..., Any]]

PROMPT_TEMPLATE = """You have access to the following user defined functions. They can be accessed from the module called `$module_name` by their function names.

For example, if there was a function called `foo` you could import it by writing `from $module_name import foo`

$functions"""  # noqa: E501


def packages_of(functions: Sequence[UserFunction]) -> list[str]:
    """What pip must install for them, in order and once each."""
    wanted: dict[str, None] = {}
    for function in functions:
        if isinstance(function, (FunctionWithRequirements, FunctionWithRequirementsStr)):
            wanted.update(dict.fromkeys(function.python_packages))
    return list(wanted)


def module_text(functions: Sequence[UserFunction]) -> str:
    imports: dict[str, None] = {}
    for function in functions:
        if isinstance(function, (FunctionWithRequirements, FunctionWithRequirementsStr)):
            imports.update(dict.fromkeys(_import_line(each) for each in function.global_imports))
    return "\n".join(imports) + "\n\n" + "".join(_source(function) + "\n\n" for function in functions)


def prompt(functions: Sequence[UserFunction], module_name: str, template: str) -> str:
    stubs = "\n\n".join(_stub(_plain(function)) for function in functions)
    return Template(template).substitute(module_name=module_name, functions=stubs)


def name_of(function: UserFunction) -> str:
    return str(_plain(function).__name__)


def _plain(function: UserFunction) -> Callable[..., Any]:
    if isinstance(function, FunctionWithRequirementsStr):
        return function.compiled_func
    if isinstance(function, FunctionWithRequirements):
        plain: Callable[..., Any] = function.func
        return plain
    return function


def _source(function: UserFunction) -> str:
    """Without decorators, which belong to the program that the function comes from."""
    if isinstance(function, FunctionWithRequirementsStr):
        return function.func
    try:
        text = dedent(inspect.getsource(_plain(function)))
    except OSError:
        raise ValueError(
            f"the source of function '{name_of(function)}' is not at hand: define it in a file, "
            "or give its text to FunctionWithRequirements.from_str"
        ) from None
    parsed = ast.parse(text).body[0]
    if isinstance(parsed, (ast.FunctionDef, ast.AsyncFunctionDef)) and parsed.decorator_list:
        return "".join(text.splitlines(keepends=True)[parsed.lineno - 1 :])
    return text


def _import_line(wanted: Import) -> str:
    if isinstance(wanted, str):
        return f"import {wanted}"
    if isinstance(wanted, Alias):
        return f"import {wanted.name} as {wanted.alias}"
    names = (each if isinstance(each, str) else f"{each.name} as {each.alias}" for each in wanted.imports)
    return f"from {wanted.module} import {', '.join(names)}"


def _stub(function: Callable[..., Any]) -> str:
    lines = [f"def {function.__name__}{inspect.signature(function)}:"]
    if function.__doc__:
        lines.append(indent(f'"""{dedent(function.__doc__)}"""', "    "))
    lines.append("    ...")
    return "\n".join(lines)
