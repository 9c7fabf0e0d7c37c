"""The events of a run as they come, and runs that live on when nobody waits for them."""

from __future__ import annotations

from cella._transport.aio import pause
from cella.errors import ConnectionFailed, ProtocolError
from cella.result import Event, Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Any, Optional

    from cella._async.client import Client
    from cella._async.exchange import Answer
    from cella._async.session import Session

# A connection that is lost is made again so many times in a row, without a single event between.
_MOST_RESUMES = 5


def _cancelled(session: str) -> Result:
    """Of a run that was cancelled while it waited for its turn, and had no events."""
    return Result({"session": session, "status": "cancelled", "exit_code": 125, "state": "kept"})


class RunStream:
    """`async for event in session.stream(code)`. Leaving it early cancels the run; `result` is there at its end.

    In an `async with` block the run ends with the block, also when the loop is left by an exception or a break.
    """

    def __init__(self, session: Session, request: dict[str, Any]) -> None:
        self._session = session
        self._request = request
        self._events: Optional[AsyncIterator[Event]] = None
        self._answer: Optional[Answer] = None
        self._run = ""
        self.result: Optional[Result] = None

    async def __aenter__(self) -> RunStream:
        return self

    async def __aexit__(self, *ignored: object) -> None:
        await self.aclose()

    def __aiter__(self) -> RunStream:
        return self

    async def __anext__(self) -> Event:
        if self._events is None:
            self._events = self._read()
        try:
            return await self._events.__anext__()
        except BaseException:
            # Also when the wait was cancelled: the connection is dropped, and the run with it.
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Cancels the run if it is still on."""
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.release()

    async def _read(self) -> AsyncIterator[Event]:
        client, session = await self._session.opened()
        self._answer = await client.stream_run(session, self._request, self._session.interrupt_quietly)
        async for document in self._answer.lines():
            event = Event(document)
            if event.type == "started":
                self._run = str(document.get("run", ""))
            if event.type == "finished":
                last = event
                continue
            yield event
        await self.aclose()
        if not self._run:
            self.result = _cancelled(session)
            return
        # The stream has ended, hence the Result is there.
        self.result = Result(await client.get_run(session, self._run))
        yield last


class Run:
    """A run that was started and not waited for. It lives on when this object, or the connection, does not."""

    def __init__(self, client: Client, session: str, run: str) -> None:
        self._client = client
        self.session = session
        self.id = run

    async def status(self) -> str:
        """`queued`, `running`, or how it ended."""
        return str((await self._client.get_run(self.session, self.id)).get("status"))

    async def cancel(self) -> bool:
        return await self._client.cancel_run(self.session, self.id)

    async def events(self, after: Optional[int] = None) -> AsyncIterator[Event]:
        """Its events from the first, or after one that is known. A lost connection is made again."""
        last, lost = after, 0
        while True:
            answer = await self._client.events(self.session, self.id, last)
            try:
                async for document in answer.lines():
                    event = Event(document)
                    last, lost = event.n, 0
                    yield event
                return
            except ConnectionFailed:
                lost += 1
                if lost > _MOST_RESUMES:
                    raise
            finally:
                answer.release()
            await pause(0.05 * lost)

    async def result(self) -> Result:
        """Waits until it has ended."""
        while True:
            async for _ in self.events():
                pass
            document = await self._client.get_run(self.session, self.id)
            if document.get("status") not in ("queued", "running"):
                return Result(document)
            if "events" not in document:
                raise ProtocolError(f"the events of {self.id} ended, and the run did not")
