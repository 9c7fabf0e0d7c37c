"""Calls from code in this process to functions of the caller: made directly, under the rules that hold in a jail.

A function runs in the thread that calls it; a coroutine function, or one with a time, elsewhere, and the thread waits
in slices, since a wait in C is not stopped.
"""

from __future__ import annotations

import concurrent.futures
import contextvars
import inspect
import json
import threading
import time
from _thread import allocate_lock

from cella._guest.cella_runner import calls
from cella._guest.cella_runner import tools as guest
from cella._inprocess.hooks import mark_of_this_thread, set_mark, start_unmarked
from cella._tools import MOST_BYTES, SERVED, Tools, message_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Mapping
    from typing import Any, Callable, Optional

    from cella._inprocess.record import Record
    from cella._inprocess.storage import Storage
    from cella._inprocess.world import World
    from cella._tools import Tool

    Errors = Mapping[str, type[Exception]]
    Gate = Callable[[str, str, Errors, Callable[[], Any]], Any]

_MOST_CALLS = 10_000
_AT_ONCE = 16
_POLL = 0.05


class Failed(Exception):
    """A call that becomes an error of the code, of a type."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class HostCalls:
    """What the code of one session may call during a run."""

    def __init__(
        self,
        session: str,
        tools: Mapping[str, Tool],
        run_coroutine: Optional[Callable[[Any], concurrent.futures.Future[Any]]] = None,
        storage: Optional[Storage] = None,
    ) -> None:
        self._session = session
        self._tools = tools
        self._run_coroutine = run_coroutine
        self._storage = storage
        self._lock = allocate_lock()
        self._record: Optional[Record] = None
        self._taken = 0
        self._open = 0

    def install(self, world: World, names: types.ModuleType) -> None:
        """As built-in names of the session's code."""

        def call(operation: str, args: Any = (), kwargs: Any = None) -> Any:
            return self.call(world, operation, args, kwargs)

        async def call_async(operation: str, args: Any = (), kwargs: Any = None) -> Any:
            return await _in_executor(lambda: self.call(world, operation, args, kwargs))

        names.__dict__["tools"] = guest.Tools(call, call_async)
        names.__dict__["HostCallError"] = calls.HostCallError
        names.__dict__.update(guest.ERRORS)
        if self._storage is not None:
            self._storage.install(names, self.gate(world), _in_executor)

    def gate(self, world: World) -> Gate:
        """For work that a thread of ours does."""

        def through(space: str, operation: str, errors: Errors, work: Callable[[], Any]) -> Any:
            def serve(record: Optional[Record]) -> Any:
                return self._wait(record, _in_thread(work), None, operation)

            return self._pass(world, space, operation, errors, serve)

        return through

    def call(self, world: World, operation: str, args: Any, kwargs: Any) -> Any:
        """By a thread of the code."""
        arguments = calls.encode_arguments(guest.SPACE, operation, args, kwargs)

        def serve(record: Optional[Record]) -> Any:
            if len(arguments) > MOST_BYTES:
                raise Failed("CallRefused", f"the arguments of a call are limited to {MOST_BYTES} bytes")
            return self._serve(record, operation, arguments.decode())

        return self._pass(world, guest.SPACE, operation, guest.ERRORS, serve)

    def _pass(
        self, world: World, space: str, operation: str, errors: Errors, serve: Callable[[Optional[Record]], Any]
    ) -> Any:
        """Through the gate: bounds, and a record of the call."""
        record = world.record_of_this_thread()
        begin = time.perf_counter()
        status = "refused"
        try:
            self._enter(record)
            try:
                status = "cancelled"
                value = serve(record)
                status = "ok"
                return value
            except Failed as failure:
                status = "refused" if failure.kind == "CallRefused" else "error"
                raise
            except Exception:
                status = "error"
                raise
            finally:
                with self._lock:
                    self._open -= 1
        except Failed as failure:
            error = errors.get(failure.kind, calls.HostCallError)
            raise error(str(failure), space, operation, failure.kind) from None
        finally:
            if record is not None:
                record.tool(space, operation, status, (time.perf_counter() - begin) * 1000)

    def _enter(self, record: Optional[Record]) -> None:
        if record is None or record.done:
            raise Failed("CallRefused", "no run is on")
        with self._lock:
            if record is not self._record:
                self._record, self._taken = record, 0
            self._taken += 1
            if self._taken > _MOST_CALLS:
                raise Failed("CallRefused", f"more than {_MOST_CALLS} calls in one run")
            if self._open >= _AT_ONCE:
                raise Failed("CallRefused", f"more than {_AT_ONCE} calls at once")
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
        except Failed:
            raise
        except Exception as error:
            raise Failed("ToolError", message_of(error)) from None
        finally:
            SERVED.reset(token)

    def _unknown(self, name: str) -> Failed:
        known = ", ".join(sorted(self._tools)) or "none"
        return Failed("ToolNotFoundError", f"there is no tool '{name[:64]}': there are {known}")

    def _perform(self, record: Optional[Record], tool: Tool, words: tuple[Any, ...], named: dict[str, Any]) -> Any:
        function = tool.function
        if inspect.iscoroutinefunction(function):
            assert self._run_coroutine is not None, "only a session without tools has none"
            return self._wait(record, self._run_coroutine(function(*words, **named)), tool.timeout, tool.name)
        if tool.timeout is not None:
            future = _in_thread(lambda: function(*words, **named))
            return self._wait(record, future, tool.timeout, tool.name)
        # What the function prints is the caller's.
        mark = mark_of_this_thread()
        set_mark(None)
        try:
            return function(*words, **named)
        finally:
            set_mark(mark)

    def _wait(
        self, record: Optional[Record], future: concurrent.futures.Future[Any], seconds: Optional[float], name: str
    ) -> Any:
        end = None if seconds is None else time.monotonic() + seconds
        try:
            while True:
                try:
                    return future.result(_POLL if end is None else max(0.0, min(_POLL, end - time.monotonic())))
                except concurrent.futures.TimeoutError:
                    if future.done():
                        raise  # the function's own
                if end is not None and time.monotonic() >= end:
                    raise Failed("ToolTimeoutError", f"{name}() took more than {seconds:g} s")
                if record is not None and record.done:
                    raise Failed("CallCancelled", "the run ended before the call")
        finally:
            future.cancel()

    def _describe(self, operation: str, arguments: dict[str, Any]) -> Any:
        words = arguments["args"]
        known = Tools(self._tools)
        if operation == "meta.list":
            return known.list()
        text = words[0] if words and isinstance(words[0], str) else ""
        if operation == "meta.describe":
            if text not in known:
                raise self._unknown(text)
            return self._tools[text].entry()
        try:
            return known.search(text, words[1] if len(words) > 1 and isinstance(words[1], int) else 10)
        except ValueError as error:
            raise Failed("ToolError", str(error)) from None


async def _in_executor(work: Callable[[], Any]) -> Any:
    """In a thread of the loop's pool, whose calls are those of the run."""
    import asyncio

    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(None, lambda: context.run(work))


def _in_thread(work: Callable[[], Any]) -> concurrent.futures.Future[Any]:
    """In a thread of the caller's, which no stop of the code reaches."""
    context = contextvars.copy_context()
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()
    future.set_running_or_notify_cancel()  # what it ends with is dropped when no call waits for it any more

    def perform() -> None:
        try:
            future.set_result(context.run(work))
        except BaseException as error:
            future.set_exception(error)

    start_unmarked(threading.Thread(target=perform, name="cella-tool", daemon=True))
    return future
