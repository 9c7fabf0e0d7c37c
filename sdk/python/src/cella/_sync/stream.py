# Made from _async/stream.py by tools/make_sync.py: change that one.
"""The events of a run as they come, and runs that continue without a waiting caller."""

from __future__ import annotations

from cella._log import tell
from cella._transport.blocking import pause
from cella.errors import ConnectionFailed, ProtocolError
from cella.result import Event, Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Optional

    from cella._sync.port import Documents, Port
    from cella._sync.session import Session
    from cella._tools import Tool

# A connection that is lost is made again so many times in a row, without a single event between.
_MOST_RESUMES = 5


def _cancelled(session: str) -> Result:
    """Of a run that was cancelled while it waited for its turn, and had no events."""
    return Result({"session": session, "status": "cancelled", "exit_code": 125, "state": "kept"})


class RunStream:
    """`for event in session.stream(code)`. Leaving it early, also by break, cancels the run; `result` is
    there at its end."""

    def __init__(
        self, session: Session, request: dict[str, Any], tools: Optional[Mapping[str, Tool]] = None
    ) -> None:
        self._session = session
        self._request = request
        self._tools = tools  # whose calls are served while the events are read
        self._lines: Optional[Iterator[Any]] = None
        self._answer: Optional[Documents] = None
        self._run = ""
        self._has_ended = False
        self.result: Optional[Result] = None

    def __enter__(self) -> RunStream:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.close()

    def __iter__(self) -> RunStream:
        return self

    def __next__(self) -> Event:
        # Nothing that refers to this object may be kept in it: dropping the last reference cancels the run.
        if self._has_ended:
            raise StopIteration
        try:
            if self._lines is None:
                client, session = self._session.opened()
                self._answer = client.stream_run(session, self._request, self._tools)
                self._lines = self._answer.lines()
            for document in self._lines:
                event = Event(document)
                if event.type == "started":
                    self._run = str(document.get("run", ""))
                if event.type == "finished":
                    if not self._run:
                        break
                    self._finish()
                return event
        except BaseException:
            # Also when the wait was cancelled: the connection is dropped, and the run with it.
            self.close()
            raise
        self.close()
        if self._run:
            raise ProtocolError(f"the events of {self._run} ended, and the run did not")
        if self.result is None:
            self.result = _cancelled(str(self._session.id))
        raise StopIteration

    def _finish(self) -> None:
        """The Result is there once the stream is read to its end."""
        assert self._lines is not None
        for _ in self._lines:
            pass
        self.close()
        client, session = self._session.opened()
        self.result = Result(client.get_run(session, self._run))

    def close(self) -> None:
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

    def status(self) -> str:
        """`queued`, `running`, or how it ended."""
        return str((self._client.get_run(self.session, self.id)).get("status"))

    def cancel(self) -> bool:
        return self._client.cancel_run(self.session, self.id)

    def interrupt(self) -> bool:
        """SIGINT to this run, as Ctrl-C does; the state is kept. False: there was nothing to interrupt."""
        return self._client.interrupt(self.session, self.id)

    def events(self, after: Optional[int] = None) -> Iterator[Event]:
        """Its events from the first, or after one that is known. A lost connection is made again."""
        last, lost = after, 0
        while True:
            answer = self._client.events(self.session, self.id, last)
            try:
                for document in answer.lines():
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
            pause(0.05 * lost)

    def result(self) -> Result:
        """Waits until it has ended."""
        while True:
            for _ in self.events():
                pass
            document = self._client.get_run(self.session, self.id)
            if document.get("status") not in ("queued", "running"):
                return Result(document)
            if "events" not in document:
                raise ProtocolError(f"the events of {self.id} ended, and the run did not")
