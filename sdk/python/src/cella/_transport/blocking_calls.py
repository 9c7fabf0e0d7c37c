"""Functions of the caller that a session's code calls, run by the thread that waits for the run."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional


class TookTooLong(Exception):
    """The time of a caller's function is over."""


class Crew:
    """Calls that the thread serves which waits for the run, one after the other."""

    def start(self, number: int, work: Callable[..., None], *words: Any) -> None:
        work(*words)

    def cancel(self, number: int) -> None:
        """It has ended."""

    def drop(self) -> None:
        """All have ended."""

    def close(self) -> None:
        """All have ended."""


def start_in_background(work: Callable[[], None]) -> None:
    """In a thread of its own, beside the caller."""
    import threading

    threading.Thread(target=work, name="cella-serving", daemon=True).start()


def perform(
    function: Callable[..., Any], words: tuple[Any, ...], named: dict[str, Any], seconds: Optional[float]
) -> Any:
    """What a function of the caller returns. With a time, in a thread of its own, which goes on beyond the time."""
    import inspect

    if inspect.iscoroutinefunction(function):
        import asyncio

        plain, function = function, lambda *words, **named: asyncio.run(plain(*words, **named))
        function.__name__ = plain.__name__
    if seconds is None:
        return function(*words, **named)
    import contextvars
    import threading

    outcome: list[Any] = []
    context = contextvars.copy_context()

    def work() -> None:
        try:
            outcome.append((context.run(function, *words, **named), None))
        except BaseException as error:
            outcome.append((None, error))

    thread = threading.Thread(target=work, name="cella-tool", daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise TookTooLong(f"{function.__name__}() took more than {seconds:g} s")
    value, error = outcome[0]
    if error is not None:
        raise error
    return value


def coroutine_runner() -> Callable[[Any], Any]:
    """Runs a coroutine for another thread: a concurrent future. Here in a thread of its own."""
    import asyncio
    import concurrent.futures
    import contextvars
    import threading

    def start(coroutine: Any) -> Any:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        future.set_running_or_notify_cancel()  # what it ends with is dropped when no call waits for it any more
        context = contextvars.copy_context()

        def work() -> None:
            try:
                future.set_result(context.run(asyncio.run, coroutine))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=work, name="cella-tool", daemon=True).start()
        return future

    return start
