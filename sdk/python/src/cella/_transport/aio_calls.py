"""Functions of the caller that a session's code calls, run by asyncio."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any, Callable, Optional


class TookTooLong(Exception):
    """The time of a caller's function is over."""


class Crew:
    """Calls that are served at the same time, by number."""

    def __init__(self) -> None:
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def start(self, number: int, work: Callable[..., Coroutine[Any, Any, None]], *words: Any) -> None:
        task = asyncio.ensure_future(work(*words))
        self._tasks[number] = task
        task.add_done_callback(lambda _: self._tasks.pop(number, None))

    def cancel(self, number: int) -> None:
        task = self._tasks.get(number)
        if task is not None:
            task.cancel()

    def drop(self) -> None:
        """Ends the calls without waiting for their end."""
        for task in list(self._tasks.values()):
            task.cancel()

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


_background: set[asyncio.Task[None]] = set()  # a loop alone keeps no task alive


def start_in_background(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """On this loop, beside the caller."""
    task = asyncio.ensure_future(work())
    _background.add(task)
    task.add_done_callback(_background.discard)


async def perform(
    function: Callable[..., Any], words: tuple[Any, ...], named: dict[str, Any], seconds: Optional[float]
) -> Any:
    """What a function of the caller returns: a coroutine function's here, another one's in a thread. A thread cannot be
    ended: beyond the time it goes on, and what it returns is dropped."""
    if inspect.iscoroutinefunction(function):
        work = asyncio.ensure_future(function(*words, **named))
    else:
        bound = functools.partial(contextvars.copy_context().run, function, *words, **named)
        work = asyncio.ensure_future(asyncio.get_running_loop().run_in_executor(None, bound))
    try:
        done, _ = await asyncio.wait({work}, timeout=seconds)
    except asyncio.CancelledError:
        work.cancel()
        raise
    if not done:
        work.cancel()
        raise TookTooLong(f"{function.__name__}() took more than {seconds:g} s")
    answer = work.result()
    return await answer if inspect.isawaitable(answer) else answer


def coroutine_runner() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Runs coroutines of other threads on this loop: a concurrent future for each."""
    loop = asyncio.get_running_loop()
    return lambda coroutine: asyncio.run_coroutine_threadsafe(coroutine, loop)
