"""AutoGen's CancellationToken as something that a coroutine can wait for."""

from __future__ import annotations

import asyncio
import weakref

from autogen_core import CancellationToken


class Cancelled:
    """Is set once the token is cancelled, from whatever thread or loop."""

    def __init__(self, token: CancellationToken) -> None:
        self._event = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._is_set = False
        # A token has no way to take a callback back and may live as long as the program: it must not keep us alive.
        mine = weakref.ref(self)

        def tell() -> None:
            watcher = mine()
            if watcher is not None:
                watcher.tell()

        token.add_callback(tell)

    def tell(self) -> None:
        """Cancels, from whatever thread or loop."""
        self._is_set = True
        try:
            # The token holds its lock here, and is perhaps in another thread.
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:
            pass  # the loop is closed: no task waits any more

    def is_set(self) -> bool:
        return self._is_set

    async def wait(self) -> None:
        await self._event.wait()
