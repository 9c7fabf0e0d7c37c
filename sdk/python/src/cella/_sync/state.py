# Made from _async/state.py by tools/make_sync.py: change that one.
"""What a session's code has kept: variables, and checkpoints of them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cella._sync.port import Port


class State:
    """The part of a Session that is about its state."""

    def opened(self) -> tuple[Port, str]:
        raise NotImplementedError

    def put(self, name: str, value: object) -> None:
        """Gives the code a variable: text, bytes or a JSON value, of any size; it does not pass through source text."""
        from cella._tools import refuse_own_session
        from cella._values import encode

        kind, data = encode(name, value)
        client, session = self.opened()
        refuse_own_session(session)
        client.put_value(session, name, kind, data)

    def reset(self) -> None:
        """Forgets all variables and ends all processes; files stay."""
        client, session = self.opened()
        client.reset(session)

    def checkpoint(self, name: str) -> None:
        """Keeps the state under a name, to come back to."""
        client, session = self.opened()
        client.checkpoint(session, name)

    def rollback(self, name: str) -> None:
        """Goes back to a named state. Files are not rolled back."""
        client, session = self.opened()
        client.rollback(session, name)

    def drop_checkpoint(self, name: str) -> None:
        client, session = self.opened()
        client.drop_checkpoint(session, name)

    def checkpoints(self) -> list[str]:
        client, session = self.opened()
        return client.checkpoints(session)
