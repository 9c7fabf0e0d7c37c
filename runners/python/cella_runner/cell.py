"""One cell: from text to code, its sources for tracebacks, and its execution.

A cell that compiles as Python is never touched; only one that does not is searched for shell escapes and magics. Its
last expression is its value, unless a `;` follows; where it is configured so, also what its last line assigns.
"""

import _ast
import sys
import __future__

from .interrupts import Interrupts

ONLY_AST = _ast.PyCF_ONLY_AST
AWAIT = _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
COROUTINE = 0x80  # inspect.CO_COROUTINE
FUTURE = 0
for _name in __future__.all_feature_names:
    FUTURE |= getattr(__future__, _name).compiler_flag

KEPT_CHARACTERS = 4 << 20
# Functions and classes are asked for their source, and show it in tracebacks, long after their cell.
KEPT_CELLS = 100
KEPT_DEFINITIONS = 10000
_DEFINING = ("def ", "class ", "lambda")


class _Kept:
    """Names of cells with their sizes, oldest first."""

    def __init__(self, most: int):
        self._most = most
        self.sizes = {}
        self._total = 0

    def add(self, name: str, size: int):
        self._total += size - self.sizes.pop(name, 0)
        self.sizes[name] = size

    def pop_excess(self):
        """The oldest name, or None where there are not too many."""
        if len(self.sizes) <= self._most and (self._total <= KEPT_CHARACTERS or len(self.sizes) == 1):
            return None
        oldest = next(iter(self.sizes))
        self._total -= self.sizes.pop(oldest)
        return oldest


class Sources:
    """Cells in linecache, the newest ones. That module is not imported for their sake: they wait here until it is."""

    def __init__(self):
        self._plain = _Kept(KEPT_CELLS)
        self._defining = _Kept(KEPT_DEFINITIONS)
        self._cache = {}

    def publish(self, linecache):
        linecache.cache.update(self._cache)
        self._cache = linecache.cache

    def clear(self):
        """Of a session that shares its process with others."""
        for name in [*self._plain.sizes, *self._defining.sizes]:
            self._cache.pop(name, None)

    def add(self, name: str, code: str):
        if self._cache is not getattr(sys.modules.get("linecache"), "cache", self._cache):
            self.publish(sys.modules["linecache"])  # loaded anew, or its cache replaced
        cache = self._cache
        lines = code.splitlines(True)
        if lines and lines[-1][-1:] != "\n":
            lines[-1] += "\n"  # without it the traceback module of Python 3.11 and 3.12 misplaces its carets
        cache[name] = (len(code), None, lines, name)
        kept = self._defining if any(word in code for word in _DEFINING) else self._plain
        kept.add(name, len(code))
        oldest = kept.pop_excess()
        while oldest is not None:
            cache.pop(oldest, None)
            oldest = kept.pop_excess()


def _ends_with_semicolon(code: str, node) -> bool:
    lines = code.split("\n")[node.end_lineno - 1 :]
    lines[0] = lines[0].encode("utf-8", "replace")[node.end_col_offset :].decode("utf-8", "replace")
    return "\n".join(lines).lstrip(" \t\r\n\\)").startswith(";")


def _assigned(node):
    """An expression with what the statement has just assigned to one name, or None."""
    kind = type(node)
    if kind is _ast.Assign:
        target = node.targets[0] if len(node.targets) == 1 else None
    elif kind is _ast.AugAssign or (kind is _ast.AnnAssign and node.value is not None):
        target = node.target
    else:
        return None
    if type(target) is not _ast.Name:
        return None
    return _ast.Name(
        target.id, _ast.Load(), lineno=target.lineno, col_offset=target.col_offset, end_lineno=target.end_lineno,
        end_col_offset=target.end_col_offset,
    )


class Compiler:
    """Remembers `from __future__` imports of earlier cells, as an interactive interpreter does."""

    def __init__(self, install_magics):
        """`install_magics()` makes available what escapes turn into."""
        self._future = 0
        self._install_magics = install_magics
        self.assignments = False  # their values count as those of expressions

    def _parse(self, code: str, name: str, flags: int):
        try:
            return compile(code, name, "exec", flags | ONLY_AST, True), code
        except SyntaxError:
            if "%" not in code and "!" not in code:
                raise
            from .escapes import transform

            changed = transform(code)
            if changed == code:
                raise
        self._install_magics()
        return compile(changed, name, "exec", flags | ONLY_AST, True), changed

    def compile(self, code: str, name: str):
        """(statements, expression): code objects, either may be None."""
        if code[:1] == "\ufeff":
            code = code[1:]
        flags = AWAIT | self._future
        tree, code = self._parse(code, name, flags)
        body = tree.body
        statements = expression = last = None
        if body and type(body[-1]) is _ast.Expr and not (";" in code and _ends_with_semicolon(code, body[-1])):
            last = body.pop().value
        elif body and self.assignments and not (";" in code and _ends_with_semicolon(code, body[-1])):
            last = _assigned(body[-1])
        if body:
            statements = compile(tree, name, "exec", flags, True)
            self._future |= statements.co_flags & FUTURE
            flags |= self._future
        if last is not None:
            expression = compile(_ast.Expression(last), name, "eval", flags, True)
        return statements, expression


class Executor:
    def __init__(self, namespace: dict, interrupts: Interrupts):
        self.namespace = namespace
        self._interrupts = interrupts
        self._loop = None

    def run(self, statements, expression):
        """The value of the expression, or None."""
        self._interrupts.check()
        namespace = self.namespace
        if (statements is not None and statements.co_flags & COROUTINE) or (
            expression is not None and expression.co_flags & COROUTINE
        ):
            return self._run_async(statements, expression)
        if statements is not None:
            exec(statements, namespace)
        if expression is not None:
            return eval(expression, namespace)
        return None

    def awaiting(self):
        """The task of a cell that runs in the event loop now, or None."""
        return None if self._loop is None else self._loop.task

    def close(self):
        if self._loop is not None:
            self._loop.close()

    def _run_async(self, statements, expression):
        from .event_loop import EventLoop

        if self._loop is None:
            self._loop = EventLoop()
        return self._loop.run(self._drive(statements, expression))

    async def _drive(self, statements, expression):
        value = None
        for code in (statements, expression):
            if code is not None:
                value = eval(code, self.namespace)
                if code.co_flags & COROUTINE:
                    value = await value
        return value if expression is not None else None
