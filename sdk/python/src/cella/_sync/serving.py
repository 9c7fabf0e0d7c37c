# Made from _async/serving.py by tools/make_sync.py: change that one.
"""Runs of a session that has tools: over a channel, on which their calls come back here to be served. They are served
by what reads the events of the run."""

from __future__ import annotations

from cella._tools import SERVED, BadArgument, message_of, refuse_own_session
from cella._transport.blocking import INTERRUPTS
from cella._transport.blocking_calls import Crew, TookTooLong, perform, start_in_background
from cella.errors import CellaError, ConnectionFailed, ProtocolError, api_error
from cella.result import Event, Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Callable, Optional

    from cella._sync.channel import Channel
    from cella._sync.port import Port
    from cella._tools import Tool

    OnEvent = Callable[[Event], None]

_INTERRUPT_GRACE = 3.0
_STATUS = {"invalid": 400, "forbidden": 403, "not_found": 404, "too_many_requests": 429}


def run_with_tools(
    client: Port, session: str, request: Mapping[str, Any], tools: Mapping[str, Tool], on_event: Optional[OnEvent]
) -> Result:
    """An exception here ends the run: the channel takes it along."""
    served = begin(client, session, request, tools)
    try:
        for event in served.lines():
            if on_event is not None:
                on_event(Event(event))
    finally:
        served.channel.close()
        served.crew.close()
    return Result(client.get_run(session, served.run))


def start_with_tools(
    client: Port, session: str, request: Mapping[str, Any], tools: Mapping[str, Tool]
) -> str:
    """The id of a run whose calls are served behind the caller's back. Without this process it goes on: calls fail."""
    served = begin(client, session, request, tools, cancel_on_disconnect=False)
    try:
        served.accept()
    except BaseException:
        served.release()
        raise
    start_in_background(served.follow)
    return served.run


def begin(
    client: Port, session: str, request: Mapping[str, Any], tools: Mapping[str, Tool], cancel_on_disconnect: bool = True
) -> Served:
    refuse_own_session(session)
    channel = client.open_channel(session)
    try:
        channel.send({"type": "tools", "tools": [tool.entry() for tool in tools.values()]})
        run = {"type": "run", "ref": "run", "cancel_on_disconnect": cancel_on_disconnect, **request}
        channel.send(run)
    except BaseException:
        channel.close()
        raise
    return Served(client, channel, session, tools)


class Served:
    """One run, from its acceptance to its end. Calls are served while its events are read."""

    def __init__(self, client: Port, channel: Channel, session: str, tools: Mapping[str, Tool]) -> None:
        self.channel = channel
        self.crew = Crew()
        self.run = ""
        self._client = client
        self._session = session
        self._tools = tools
        # The first events may come before the word that the run was accepted.
        self._early: list[dict[str, Any]] = []

    def lines(self) -> Iterator[Any]:
        """The documents of its events, to the last."""
        try:
            while True:
                event = self._next()
                if event is None:
                    continue
                yield event
                if event.get("type") == "finished":
                    return
        except INTERRUPTS:
            self._finish_interrupted()
            raise

    def follow(self) -> None:
        """To the end of the run, or of the connection."""
        try:
            for _ in self.lines():
                pass
        except CellaError:
            pass  # what waits for the run finds out
        finally:
            self.channel.close()
            self.crew.close()

    def accept(self) -> None:
        """Until the run has an id. Its first events are dropped: readers that want them read them again."""
        while not self.run:
            self._next()

    def release(self) -> None:
        """In the middle this ends the run, unless it was begun to go on."""
        self.channel.close()
        self.crew.drop()

    def _finish_interrupted(self) -> None:
        """The code may end by itself and keep its state."""
        if not self.run:
            return  # its end with the channel cancels it
        try:
            self._client.interrupt(self._session, self.run)
            self.channel.set_bound(_INTERRUPT_GRACE)
            while (self._next() or {}).get("type") != "finished":
                pass
        except CellaError:
            pass

    def _next(self) -> Optional[dict[str, Any]]:
        """An event of the run, or nothing after another message."""
        if self.run and self._early:
            return self._event_of(self._early.pop(0))
        message = self.channel.receive()
        kind = message.get("type")
        if kind == "refused":
            error = message.get("error") or {}
            code = str(error.get("code", "unknown"))
            raise api_error(_STATUS.get(code, 409), code, str(error.get("message", "")))
        if kind == "call":
            self.crew.start(int(message["call"]), self._serve, message)
        elif kind == "call_cancelled":
            self.crew.cancel(int(message["call"]))
        elif kind == "accepted":
            self.run = str(message["run"])
        elif "event" in message:
            if self.run:
                return self._event_of(message)
            self._early.append(message)
        return None

    def _event_of(self, message: dict[str, Any]) -> Optional[dict[str, Any]]:
        if message.get("run") != self.run:
            return None
        event = message["event"]
        if not isinstance(event, dict):
            raise ProtocolError("an event of the channel is no object")
        return event

    def _serve(self, message: dict[str, Any]) -> None:
        tool = self._tools.get(str(message.get("tool")))
        token = SERVED.set(SERVED.get() | {self._session})
        try:
            if tool is None:
                raise BadArgument("this tool is not registered any more")
            words, named = tool.bind(str(message.get("arguments")))
            value = perform(tool.function, words, named, tool.timeout)
            reply: dict[str, Any] = {"value": tool.encode(value)}
        except TookTooLong as error:
            reply = {"error": {"type": "ToolTimeoutError", "message": str(error)}}
        except Exception as error:
            reply = {"error": {"type": "ToolError", "message": message_of(error)}}
        finally:
            SERVED.reset(token)
        try:
            self.channel.send({"type": "reply", "call": message["call"], **reply})
        except ConnectionFailed:
            pass  # the run has ended, and the reader finds out
