"""One cell: from text to code, its sources for tracebacks, and its execution.

A cell that compiles as Python is never touched; only one that does not is searched for shell escapes and magics. Its
last expression is its value, unless a `;` follows.
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

KEPT_CELLS = 100
KEPT_CHARACTERS = 4 << 20


class Sources:
    """Cells in linecache, the newest ones. Nobody imports that for their sake: they wait here until somebody does."""

    def __init__(self):
        self._sizes = {}
        self._total = 0
        self._cache = {}

    def publish(self, linecache):
        linecache.cache.update(self._cache)
        self._cache = linecache.cache

    def add(self, name: str, code: str):
        if self._cache is not getattr(sys.modules.get("linecache"), "cache", self._cache):
            self.publish(sys.modules["linecache"])  # loaded anew, or its cache replaced
        cache = self._cache
        self._total += len(code) - self._sizes.pop(name, 0)
        self._sizes[name] = len(code)
        cache[name] = (len(code), None, code.splitlines(True), name)
        while len(self._sizes) > KEPT_CELLS or (self._total > KEPT_CHARACTERS and len(self._sizes) > 1):
            oldest = next(iter(self._sizes))
            self._total -= self._sizes.pop(oldest)
            cache.pop(oldest, None)


def _ends_with_semicolon(code: str, node) -> bool:
    lines = code.split("\n")[node.end_lineno - 1 :]
    lines[0] = lines[0].encode("utf-8", "replace")[node.end_col_offset :].decode("utf-8", "replace")
    return "\n".join(lines).lstrip(" \t\r\n\\)").startswith(";")


class Compiler:
    """Remembers `from __future__` imports of earlier cells, as an interactive interpreter does."""

    def __init__(self, install_magics):
        """`install_magics()` makes available what escapes turn into."""
        self._future = 0
        self._install_magics = install_magics

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
