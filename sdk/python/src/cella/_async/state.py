"""What a session's code has kept: variables, and checkpoints of them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cella._async.port import Port


class State:
    """The part of a Session that is about its state."""

    async def opened(self) -> tuple[Port, str]:
        raise NotImplementedError

    async def put(self, name: str, value: object) -> None:
        """Gives the code a variable: text, bytes or a JSON value, of any size; it does not pass through source text."""
        from cella._tools import refuse_own_session
        from cella._values import encode

        kind, data = encode(name, value)
        client, session = await self.opened()
        refuse_own_session(session)
        await client.put_value(session, name, kind, data)

    async def reset(self) -> None:
        """Forgets all variables and ends all processes; files stay."""
        client, session = await self.opened()
        await client.reset(session)

    async def checkpoint(self, name: str) -> None:
        """Keeps the state under a name, to come back to."""
        client, session = await self.opened()
        await client.checkpoint(session, name)

    async def rollback(self, name: str) -> None:
        """Goes back to a named state. Files are not rolled back."""
        client, session = await self.opened()
        await client.rollback(session, name)

    async def drop_checkpoint(self, name: str) -> None:
        client, session = await self.opened()
        await client.drop_checkpoint(session, name)

    async def checkpoints(self) -> list[str]:
        client, session = await self.opened()
        return await client.checkpoints(session)
