"""Calls from code in this process to functions of the caller: made directly, under the rules that hold in a jail.

A function runs in the thread that calls it; a coroutine function, or one with a time, elsewhere, and the thread waits
in slices, since a wait in C is not stopped.
"""

from __future__ import annotations

import concurrent.futures
import contextvars
import inspect
import json
import re
import threading
import time
from _thread import allocate_lock

from cella._guest.cella_runner import calls
from cella._guest.cella_runner import tools as guest
from cella._inprocess.hooks import mark_of_this_thread, set_mark, start_unmarked
from cella._tools import MOST_BYTES, SERVED, message_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Callable, Optional

    from cella._inprocess.record import Record
    from cella._inprocess.world import World
    from cella._tools import Tool

_MOST_CALLS = 10_000
_AT_ONCE = 16
_MOST_FOUND = 100
_MOST_QUERY = 256
_POLL = 0.05


class _Failed(Exception):
    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class HostCalls:
    """What the code of one session may call during a run."""

    def __init__(
        self, session: str, tools: Mapping[str, Tool], run_coroutine: Callable[[Any], concurrent.futures.Future[Any]]
    ) -> None:
        self._session = session
        self._tools = tools
        self._run_coroutine = run_coroutine
        self._lock = allocate_lock()
        self._record: Optional[Record] = None
        self._taken = 0
        self._open = 0

    def install(self, world: World, names: dict[str, Any]) -> None:
        """As built-in names of the session's code."""

        def call(operation: str, args: Any = (), kwargs: Any = None) -> Any:
            return self.call(world, operation, args, kwargs)

        async def call_async(operation: str, args: Any = (), kwargs: Any = None) -> Any:
            import asyncio

            loop = asyncio.get_running_loop()
            context = contextvars.copy_context()
            return await loop.run_in_executor(None, lambda: context.run(self.call, world, operation, args, kwargs))

        names["tools"] = guest.Tools(call, call_async)
        names["HostCallError"] = calls.HostCallError
        names.update(guest.ERRORS)

    def call(self, world: World, operation: str, args: Any, kwargs: Any) -> Any:
        """By a thread of the code."""
        arguments = calls.encode_arguments(guest.SPACE, operation, args, kwargs)
        record = world.record_of_this_thread()
        begin = time.perf_counter()
        status = "refused"
        try:
            self._enter(record, arguments)
            try:
                status = "cancelled"
                value = self._serve(record, operation, arguments.decode())
                status = "ok"
                return value
            except _Failed:
                status = "error"
                raise
            finally:
                with self._lock:
                    self._open -= 1
        except _Failed as failure:
            error = guest.ERRORS.get(failure.kind, calls.HostCallError)
            raise error(str(failure), guest.SPACE, operation, failure.kind) from None
        finally:
            if record is not None:
                record.tool(guest.SPACE, operation, status, (time.perf_counter() - begin) * 1000)

    def _enter(self, record: Optional[Record], arguments: bytes) -> None:
        if record is None or record.done:
            raise _Failed("CallRefused", "no run is on")
        with self._lock:
            if record is not self._record:
                self._record, self._taken = record, 0
            self._taken += 1
            if self._taken > _MOST_CALLS:
                raise _Failed("CallRefused", f"more than {_MOST_CALLS} calls in one run")
            if self._open >= _AT_ONCE:
                raise _Failed("CallRefused", f"more than {_AT_ONCE} calls at once")
            if len(arguments) > MOST_BYTES:
                raise _Failed("CallRefused", f"the arguments of a call are limited to {MOST_BYTES} bytes")
            self._open += 1

    def _serve(self, record: Optional[Record], operation: str, arguments: str) -> Any:
        if operation.startswith("meta."):
            return self._describe(operation, json.loads(arguments))
        tool = self._tools.get(operation)
        if tool is None:
            raise self._unknown(operation)
        token = SERVED.set(SERVED.get() | {self._session})
        try:
            words, named = tool.bind(arguments)
            return json.loads(tool.encode(self._perform(record, tool, words, named)))
        except _Failed:
            raise
        except Exception as error:
            raise _Failed("ToolError", message_of(error)) from None
        finally:
            SERVED.reset(token)

    def _unknown(self, name: str) -> _Failed:
        known = ", ".join(sorted(self._tools)) or "none"
        return _Failed("ToolNotFoundError", f"there is no tool '{name[:64]}': there are {known}")

    def _perform(self, record: Optional[Record], tool: Tool, words: tuple[Any, ...], named: dict[str, Any]) -> Any:
        function = tool.function
        if inspect.iscoroutinefunction(function):
            return self._wait(record, self._run_coroutine(function(*words, **named)), tool)
        if tool.timeout is not None:
            context = contextvars.copy_context()
            future: concurrent.futures.Future[Any] = concurrent.futures.Future()
            future.set_running_or_notify_cancel()  # what it ends with is dropped when no call waits for it any more

            def work() -> None:
                try:
                    future.set_result(context.run(function, *words, **named))
                except BaseException as error:
                    future.set_exception(error)

            start_unmarked(threading.Thread(target=work, name="cella-tool", daemon=True))
            return self._wait(record, future, tool)
        # What the function prints is the caller's.
        mark = mark_of_this_thread()
        set_mark(None)
        try:
            return function(*words, **named)
        finally:
            set_mark(mark)

    def _wait(self, record: Optional[Record], future: concurrent.futures.Future[Any], tool: Tool) -> Any:
        end = None if tool.timeout is None else time.monotonic() + tool.timeout
        try:
            while True:
                try:
                    return future.result(_POLL if end is None else max(0.0, min(_POLL, end - time.monotonic())))
                except concurrent.futures.TimeoutError:
                    if future.done():
                        raise  # the function's own
                if end is not None and time.monotonic() >= end:
                    raise _Failed("ToolTimeoutError", f"{tool.name}() took more than {tool.timeout:g} s")
                if record is not None and record.done:
                    raise _Failed("CallCancelled", "the run ended before the call")
        finally:
            future.cancel()

    def _describe(self, operation: str, arguments: dict[str, Any]) -> Any:
        words = arguments["args"]
        entries = {name: self._tools[name].entry() for name in sorted(self._tools)}
        if operation == "meta.list":
            return list(entries.values())
        text = words[0] if words and isinstance(words[0], str) else ""
        if operation == "meta.describe":
            if text not in entries:
                raise self._unknown(text)
            return entries[text]
        if len(text.encode()) > _MOST_QUERY:
            raise _Failed("ToolError", f"a search takes at most {_MOST_QUERY} bytes, not {len(text.encode())}")
        wanted = re.findall(r"[a-z0-9\u0080-\U0010ffff]+", text.lower())
        scored = []
        for name, entry in entries.items():
            described = entry["description"].lower()
            score = sum(3 * (word in name.lower()) + (word in described) for word in wanted)
            if score > 0:
                scored.append((-score, name))
        limit = words[1] if len(words) > 1 and isinstance(words[1], int) else 10
        return [entries[name] for _, name in sorted(scored)[: max(0, min(limit, _MOST_FOUND))]]
