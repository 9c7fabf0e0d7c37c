"""The name `tools`: functions of the caller's program, called by their names. The code sees names, arguments and results.

The function that calls decides: in a coroutine a call is an awaitable, elsewhere it blocks and returns the value.
"""

import builtins
import sys

from . import calls

SPACE = "tools"
_COROUTINES = 0x80 | 0x200  # inspect.CO_COROUTINE, CO_ASYNC_GENERATOR
# Frames of their own before Python 3.12, which belong to the function around them.
_INLINE = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


class ToolError(calls.HostCallError):
    """The tool raised, or was called wrongly; the message has the original type and text."""

    __module__ = "builtins"


class ToolNotFoundError(ToolError):
    """There is no tool of that name; the message lists what there is."""

    __module__ = "builtins"


class ToolTimeoutError(ToolError):
    """The tool took too long."""

    __module__ = "builtins"


ERRORS = {kind.__name__: kind for kind in (ToolError, ToolNotFoundError, ToolTimeoutError)}


def _is_in_coroutine(frame) -> bool:
    while frame is not None and frame.f_code.co_name in _INLINE:
        frame = frame.f_back
    return frame is not None and bool(frame.f_code.co_flags & _COROUTINES)


def _call(operation, args=(), kwargs=None):
    return calls.call(SPACE, operation, args, kwargs, ERRORS)


async def _call_async(operation, args=(), kwargs=None):
    return await calls.call_async(SPACE, operation, args, kwargs, ERRORS)


class Entry(dict):
    """`name`, `description` and `schema` of a tool, as keys and as attributes."""

    def __getattr__(self, key):
        try:
            return self[key]
        except KeyError:
            raise AttributeError(key) from None


class Tool:
    def __init__(self, name: str, call=_call, call_async=_call_async):
        self.__name__ = name
        self.__qualname__ = "tools." + name
        self._call = call
        self._call_async = call_async

    def __call__(self, /, *args, **kwargs):
        if _is_in_coroutine(sys._getframe(1)):
            return self._call_async(self.__name__, args, kwargs)
        return self._call(self.__name__, args, kwargs)

    def call_sync(self, /, *args, **kwargs):
        """Blocks and returns the value."""
        return self._call(self.__name__, args, kwargs)

    async def call_async(self, /, *args, **kwargs):
        return await self._call_async(self.__name__, args, kwargs)

    def describe(self):
        """Its name, description and the schema of its arguments."""
        return Entry(self._call("meta.describe", (self.__name__,)))

    def __repr__(self):
        return "<tool %s of the host>" % self.__name__


class Tools:
    """Functions of the host: `tools.NAME(...)`, `tools.list()`, `tools.search("words")`."""

    def __init__(self, call=_call, call_async=_call_async):
        self._call = call
        self._call_async = call_async

    def __getattr__(self, name: str) -> Tool:
        if name.startswith("_"):
            raise AttributeError(name)
        return Tool(name, self._call, self._call_async)

    def list(self):
        """What there is: entries with name, description and schema."""
        return [Entry(each) for each in self._call("meta.list")]

    def search(self, query: str, limit: int = 10):
        """Entries that fit the words of the query, the best first."""
        return [Entry(each) for each in self._call("meta.search", (query, limit))]

    def __dir__(self):
        try:
            names = [each["name"] for each in self.list()]
        except calls.HostCallError:
            names = []  # no run is on
        return ["list", "search", *names]

    def __repr__(self):
        return "<tools: functions of the host; tools.list() has their names>"


def install():
    builtins.tools = Tools()
    builtins.HostCallError = calls.HostCallError
    for name, kind in ERRORS.items():
        setattr(builtins, name, kind)
