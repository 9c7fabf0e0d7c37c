"""Callbacks for what a run says while it runs."""

from __future__ import annotations

from cella._transport.aio import call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable
    from typing import Any, Callable, Optional

    from cella._async.session import OnDisplay, OnEvent, OnInput, OnText, Session
    from cella.result import Event, Result

    Teller = Callable[[Event], Awaitable[None]]


def teller(
    session: Session,
    on_stdout: Optional[OnText],
    on_stderr: Optional[OnText],
    on_display: Optional[OnDisplay],
    on_input: Optional[OnInput],
    on_event: Optional[OnEvent],
) -> Teller:
    """Calls the callbacks that an event is for."""
    run: Optional[str] = None

    async def tell(event: Event) -> None:
        nonlocal run
        if event.type == "started":
            run = event.document.get("run")
        if on_event is not None:
            await call(on_event, event)
        if event.type == "stdout" and on_stdout is not None:
            await call(on_stdout, event.text)
        elif event.type == "stderr" and on_stderr is not None:
            await call(on_stderr, event.text)
        elif event.type == "display" and on_display is not None:
            await call(on_display, event.output)
        elif event.type == "input_request" and on_input is not None:
            text = await call(on_input, event.prompt)
            await session.input(text, run)

    return tell


async def run_with_callbacks(session: Session, request: dict[str, Any], tell: Teller) -> Result:
    """An exception of a callback cancels the run and is the caller's."""
    from cella._async.stream import RunStream

    async with RunStream(session, request) as stream:
        async for event in stream:
            await tell(event)
    assert stream.result is not None
    return stream.result
