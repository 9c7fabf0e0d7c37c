"""The events of a run as they come, and runs that continue without a waiting caller."""

from __future__ import annotations

from cella._log import tell
from cella._transport.aio import pause
from cella.errors import ConnectionFailed, ProtocolError
from cella.result import Event, Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from typing import Any, Optional

    from cella._async.port import Documents, Port
    from cella._async.session import Session
    from cella._tools import Tool

# A connection that is lost is made again so many times in a row, without a single event between.
_MOST_RESUMES = 5


def _cancelled(session: str) -> Result:
    """Of a run that was cancelled while it waited for its turn, and had no events."""
    return Result({"session": session, "status": "cancelled", "exit_code": 125, "state": "kept"})


class RunStream:
    """`async for event in session.stream(code)`. Leaving it early, also by break, cancels the run; `result` is
    there at its end."""

    def __init__(
        self, session: Session, request: dict[str, Any], tools: Optional[Mapping[str, Tool]] = None
    ) -> None:
        self._session = session
        self._request = request
        self._tools = tools  # whose calls are served while the events are read
        self._lines: Optional[AsyncIterator[Any]] = None
        self._answer: Optional[Documents] = None
        self._run = ""
        self._has_ended = False
        self.result: Optional[Result] = None

    async def __aenter__(self) -> RunStream:
        return self

    async def __aexit__(self, *ignored: object) -> None:
        await self.aclose()

    def __aiter__(self) -> RunStream:
        return self

    async def __anext__(self) -> Event:
        # Nothing that refers to this object may be kept in it: dropping the last reference cancels the run.
        if self._has_ended:
            raise StopAsyncIteration
        try:
            if self._lines is None:
                client, session = await self._session.opened()
                self._answer = await client.stream_run(session, self._request, self._tools)
                self._lines = self._answer.lines()
            async for document in self._lines:
                event = Event(document)
                if event.type == "started":
                    self._run = str(document.get("run", ""))
                if event.type == "finished":
                    if not self._run:
                        break
                    await self._finish()
                return event
        except BaseException:
            # Also when the wait was cancelled: the connection is dropped, and the run with it.
            await self.aclose()
            raise
        await self.aclose()
        if self._run:
            raise ProtocolError(f"the events of {self._run} ended, and the run did not")
        if self.result is None:
            self.result = _cancelled(str(self._session.id))
        raise StopAsyncIteration

    async def _finish(self) -> None:
        """The Result is there once the stream is read to its end."""
        assert self._lines is not None
        async for _ in self._lines:
            pass
        await self.aclose()
        client, session = await self._session.opened()
        self.result = Result(await client.get_run(session, self._run))

    async def aclose(self) -> None:
        """Cancels the run if it is still on."""
        self._has_ended = True
        self._release()

    def _release(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.release()

    def __del__(self) -> None:
        # Of a loop that was left by break.
        if getattr(self, "_answer", None) is not None:
            self._release()


class Run:
    """A run that was started and not waited for. It lives on when this object, or the connection, does not."""

    def __init__(self, client: Port, session: str, run: str) -> None:
        self._client = client
        self.session = session
        self.id = run

    async def status(self) -> str:
        """`queued`, `running`, or how it ended."""
        return str((await self._client.get_run(self.session, self.id)).get("status"))

    async def cancel(self) -> bool:
        return await self._client.cancel_run(self.session, self.id)

    async def interrupt(self) -> bool:
        """SIGINT to this run, as Ctrl-C does; the state is kept. False: there was nothing to interrupt."""
        return await self._client.interrupt(self.session, self.id)

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
            except ConnectionFailed as error:
                lost += 1
                if lost > _MOST_RESUMES:
                    raise
                tell(f"{error}: connecting again to the events of {self.id}, {lost} of {_MOST_RESUMES}")
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
