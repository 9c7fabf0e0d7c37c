# Made from _async/serving.py by tools/make_sync.py: change that one.
"""Runs of a session that has tools: over a channel, on which their calls come back here to be served."""

from __future__ import annotations

from cella._tools import SERVED, BadArgument, message_of, refuse_own_session
from cella._transport.blocking import INTERRUPTS
from cella._transport.blocking_calls import Crew, TookTooLong, perform
from cella.errors import CellaError, ConnectionFailed, ProtocolError, api_error
from cella.result import Event, Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
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
    refuse_own_session(session)
    channel = client.open_channel(session)
    serving = _Serving(channel, session, tools, on_event)
    try:
        channel.send({"type": "tools", "tools": [tool.entry() for tool in tools.values()]})
        channel.send({"type": "run", "ref": "run", "cancel_on_disconnect": True, **request})
        serving.follow()
    except INTERRUPTS:
        _finish_interrupted(client, session, serving)
        raise
    finally:
        channel.close()
        serving.crew.close()
    return Result(client.get_run(session, serving.run))


def _finish_interrupted(client: Port, session: str, serving: _Serving) -> None:
    """The code may end by itself and keep its state."""
    try:
        client.interrupt(session)
        serving.channel.set_bound(_INTERRUPT_GRACE)
        serving.follow()
    except CellaError:
        pass


class _Serving:
    """One run, from its acceptance to its end."""

    def __init__(
        self, channel: Channel, session: str, tools: Mapping[str, Tool], on_event: Optional[OnEvent]
    ) -> None:
        self.channel = channel
        self.crew = Crew()
        self.run = ""
        self._session = session
        self._tools = tools
        self._on_event = on_event
        # The first events may come before the word that the run was accepted.
        self._early: list[dict[str, Any]] = []

    def follow(self) -> None:
        while True:
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
                early, self._early = self._early, []
                for each in early:
                    if self._take(each):
                        return
            elif "event" in message and (self._take(message)):
                return

    def _take(self, message: dict[str, Any]) -> bool:
        """Whether the run has ended."""
        if not self.run:
            self._early.append(message)
            return False
        if message.get("run") != self.run:
            return False
        event = message["event"]
        if not isinstance(event, dict):
            raise ProtocolError("an event of the channel is no object")
        if self._on_event is not None:
            self._on_event(Event(event))
        return event.get("type") == "finished"

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
