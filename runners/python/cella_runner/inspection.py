"""Completion, inspection and completeness over the live namespace, without running the guest's properties."""

import ast
import builtins
import codeop
import inspect
import keyword
import re
import types

from . import escapes
from .texts import text_of

MOST_MATCHES = 500
MOST_TEXT = 16 << 10
SHORT_TEXT = 400
_DOTTED = re.compile(r"[^\W\d]\w*(?:\s*\.\s*[^\W\d]\w*)*\s*\.?\s*\w*$")
_SAFE_DESCRIPTORS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
    types.ClassMethodDescriptorType,
    classmethod,
    staticmethod,
)


class _Unknown(Exception):
    pass


def _attribute(value, name: str):
    """getattr() for modules and what is plainly stored; a property is not run."""
    if isinstance(value, types.ModuleType):
        return getattr(value, name)
    found = inspect.getattr_static(value, name)
    if hasattr(type(found), "__get__") and not isinstance(found, _SAFE_DESCRIPTORS):
        raise _Unknown(name)
    return getattr(value, name)


def _resolve(namespace: dict, path: list):
    name = path[0]
    if name in namespace:
        value = namespace[name]
    elif hasattr(builtins, name):
        value = getattr(builtins, name)
    else:
        raise _Unknown(name)
    for name in path[1:]:
        value = _attribute(value, name)
    return value


def _path(text: str) -> list:
    return [part.strip() for part in text.split(".")]


def complete(namespace: dict, code: str, cursor: int):
    """(matches, start, end): each match replaces code[start:end]."""
    head = code[:cursor]
    found = _DOTTED.search(head)
    path = _path(found.group(0)) if found else [""]
    prefix = path.pop()
    start = cursor - len(prefix)
    if head[:start].rstrip().endswith((")", "]", "'", '"', ".")) and not path:
        return [], start, cursor  # an attribute of an expression that would have to be run
    try:
        if path:
            names = dir(_resolve(namespace, path))
        else:
            names = [*namespace, *dir(builtins), *keyword.kwlist]
    except Exception:
        names = []
    matches = sorted({name for name in names if isinstance(name, str) and name.startswith(prefix)})
    if not prefix.startswith("_"):
        matches = [name for name in matches if not name.startswith("_")]
    return matches[:MOST_MATCHES], start, cursor


def inspect_at(namespace: dict, code: str, cursor: int):
    """What is known of the name at the cursor, or of the function whose call it stands in; None: nothing."""
    end = cursor
    while end < len(code) and (code[end].isalnum() or code[end] == "_"):
        end += 1
    head = code[:end].rstrip("( \t")
    found = _DOTTED.search(head)
    if not found:
        return None
    try:
        value = _resolve(namespace, _path(found.group(0)))
    except Exception:
        return None
    lines = []
    try:
        lines.append("Signature: %s%s" % (found.group(0), inspect.signature(value)))
    except Exception:
        pass  # no function, or one that cannot say
    lines.append("Type: %s" % type.__getattribute__(type(value), "__name__"))
    lines.append("Value: %s" % text_of(value, SHORT_TEXT))
    try:
        document = inspect.getdoc(value)
    except Exception:
        document = None
    if isinstance(document, str) and document:
        lines.append("\n" + document)
    return "\n".join(lines)[:MOST_TEXT]


def completeness(code: str) -> str:
    compiler = codeop.CommandCompiler()
    compiler.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    for text in (code, escapes.transform(code)):
        try:
            if compiler(text, "<input>", "exec") is None or (text is code and _is_open_block(code)):
                return "incomplete"
            return "complete"
        except (SyntaxError, ValueError, OverflowError):
            continue
    return "invalid"


def _is_open_block(code: str) -> bool:
    """A compound statement at the end goes on until an empty line, as in an interactive interpreter."""
    if code.endswith("\n"):
        return False
    body = compile(code, "<input>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True).body
    return bool(body) and (hasattr(body[-1], "body") or hasattr(body[-1], "cases"))
