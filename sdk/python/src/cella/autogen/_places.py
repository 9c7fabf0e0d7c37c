"""Where blocks run: sessions of the private server.

An executor keeps one between calls, so that what the code leaves outside of its working directory is still there. Calls
at the same time have one each, since a session runs one program after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shlex
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Optional

from cella._async.client import Client
from cella._async.clients import shared_client
from cella._private_server import private_server
from cella.errors import CellaError, DepsError
from cella.result import Result

from ._cancellation import Cancelled

# A cancellation that comes before the request that starts its run finds no run, and is sent again.
_CANCEL_AGAIN = 0.05
# Bounds what an executor leaves behind that is never stopped.
_IDLE_TIMEOUT = "10m"
# What a local program gets besides the variables of its policy. With AutoGen it has those of the caller, and no more.
_ADDED = ("HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "VIRTUAL_ENV")

# Set by the shell itself; some shells refuse to have them set.
_OF_THE_SHELL = ("OLDPWD", "PWD", "_", "SHLVL", "PPID", "UID", "EUID", "BASHOPTS", "SHELLOPTS")

# The loop itself holds tasks weakly.
_closing: set[asyncio.Task[None]] = set()


class Place:
    """One session."""

    def __init__(self, client: Client, session: str, policy: Mapping[str, Any], kept: Optional[str] = None) -> None:
        self.policy = policy
        # How to enter and remove the container, if it outlives the session.
        self.kept = kept
        self._client = client
        self._session = session
        self.is_spoilt = False
        # That code has added to the session.
        self.packages: list[str] = []

    @classmethod
    async def open(cls, policy: Mapping[str, Any], packages: Sequence[str] = ()) -> Place:
        """`packages`: those that code has added to another place, which is gone."""
        client = shared_client(private_server())
        wanted = {"idle_timeout": _IDLE_TIMEOUT, **policy, **({"deps": list(packages)} if packages else {})}
        opening = asyncio.ensure_future(client.create_session(wanted))
        try:
            answer = await asyncio.shield(opening)
        except asyncio.CancelledError:
            # The server may have opened it already: it must be closed.
            opening.add_done_callback(lambda opened: _close_unwanted(client, opened))
            raise
        place = cls(client, answer["id"], policy, (answer.get("isolation") or {}).get("kept"))
        if packages:
            try:
                await client.sync_deps(place._session)
                place.packages = list(packages)
            except BaseException:
                await place.close()
                raise
        return place

    async def run(
        self,
        command: Sequence[str],
        directory: str,
        timeout: float,
        cancelled: Cancelled,
        exports: Mapping[str, str],
        program: Optional[str] = None,
    ) -> Result:
        """Runs a command in `directory` to its end, or to its end by the time-out or the cancellation.

        `exports` are variables besides those of the policy. `program`: the command runs this Python file of the
        workspace, which a jail starts from its warm interpreter.
        """
        request = self._request(command, directory, exports, program)
        request["timeout"] = timeout
        request["id"] = "run_" + secrets.token_hex(16)
        running = asyncio.ensure_future(self._client.run(self._session, request))
        stop = asyncio.ensure_future(cancelled.wait())
        # Until it is known to have ended well: children of code that was killed may still be there.
        self.is_spoilt = True
        try:
            await asyncio.wait({running, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                await self._cancel(request["id"], running)
            result = await running
            self.is_spoilt = result.status in ("timeout", "cancelled", "oom", "limit", "rejected")
            return result
        finally:
            # When this task is cancelled: to drop the wait for a run is to cancel the run.
            for task in (running, stop):
                task.cancel()
            await asyncio.gather(running, stop, return_exceptions=True)

    async def _cancel(self, run: str, running: asyncio.Future[Result]) -> None:
        while not running.done():
            with contextlib.suppress(CellaError):
                await self._client.cancel_run(self._session, run)
                return
            await asyncio.wait({running}, timeout=_CANCEL_AGAIN)

    def _request(
        self, command: Sequence[str], directory: str, exports: Mapping[str, str], program: Optional[str]
    ) -> dict[str, Any]:
        if program is not None and not exports and self.policy["executor"] != "local":
            return {"as": "program", "language": "python", "file": program, "cwd": directory}
        known = {**self.policy.get("env", {}), **exports}
        local = self.policy["executor"] == "local"
        unset = [name for name in _ADDED if name not in known] if local else []
        # The session keeps the script in its working directory while it runs. In a jail that is the code's, which would
        # see it: away with it first.
        first = [] if local else ['/bin/rm -f -- "$0"']
        return {
            "code": "\n".join([*first, *_script(command, directory, unset, known.get("OLDPWD", ""), exports)]),
            "language": "sh",
        }

    async def is_usable(self, policy: Mapping[str, Any]) -> bool:
        """Whether another call can go on here."""
        if self.is_spoilt or self.policy != policy or not self._client.is_alive:
            return False
        try:
            self._client.check_process()
            return bool((await self._client.get_session(self._session))["status"] == "idle")
        except CellaError:  # of the parent process; ended by its idle time
            return False

    async def add_packages(self, packages: Sequence[str], timeout: float, cancelled: Cancelled) -> None:
        """ValueError, in AutoGen's words: they cannot be installed."""
        adding = asyncio.ensure_future(self._client.add_deps(self._session, list(packages)))
        stop = asyncio.ensure_future(cancelled.wait())
        try:
            await asyncio.wait({adding, stop}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if adding.done():
                adding.result()
                return
            self.is_spoilt = True
            raise ValueError("Pip install was cancelled" if stop.done() else "Pip install timed out")
        except DepsError as error:
            raise ValueError(f"Pip install failed. {error}") from None
        finally:
            for task in (adding, stop):
                task.cancel()
            await asyncio.gather(adding, stop, return_exceptions=True)

    async def list_packages(self) -> bool:
        """Whether they are others than before."""
        before = self.packages
        with contextlib.suppress(CellaError):  # it has ended meanwhile
            self.packages = [str(each) for each in (await self._client.deps(self._session))["deps"]]
        return self.packages != before

    async def close(self) -> None:
        """Ends everything in it, whatever happens to the caller meanwhile."""
        task = asyncio.ensure_future(self._delete())
        _closing.add(task)
        task.add_done_callback(_closing.discard)
        await asyncio.shield(task)

    async def _delete(self) -> None:
        # Gone already, with its server or by itself. A process made by fork leaves it to its parent.
        with contextlib.suppress(CellaError):
            await self._client.delete_session(self._session)


class Places:
    """Those of one executor. For any thread and loop."""

    def __init__(self) -> None:
        self._kept: Place | None = None
        self._packages: list[str] = []  # that the session of a later call needs
        self._required: list[str] = []  # of these, what the user's functions need
        self._lock = threading.Lock()

    @contextlib.asynccontextmanager
    async def one(self, policy: Mapping[str, Any]) -> AsyncIterator[Place]:
        """A place for the programs of one call."""
        place = self._exchange(None)
        if place is not None and not await place.is_usable(policy):
            await place.close()
            place = None
        if place is None:
            place = await Place.open(policy, self._packages)
        try:
            yield place
        except BaseException:
            await place.close()
            raise
        if policy["executor"] == "sandbox" and await place.list_packages():
            self._packages = place.packages
        left_over = place if place.is_spoilt else self._exchange(place)
        if left_over is not None:
            await left_over.close()

    async def require(
        self, packages: Sequence[str], policy: Mapping[str, Any], timeout: float, cancelled: Cancelled
    ) -> None:
        """Installs what every place has from now on."""
        async with self.one(policy) as place:
            await place.add_packages(packages, timeout, cancelled)
        self._required = list(packages)

    def forget_required(self) -> None:
        self._required, self._packages = [], []

    async def close(self) -> None:
        place, self._packages = self._exchange(None), list(self._required)
        if place is not None:
            await place.close()

    def _exchange(self, place: Place | None) -> Place | None:
        with self._lock:
            before, self._kept = self._kept, place
        return before


def _close_unwanted(client: Client, opened: asyncio.Future[dict[str, Any]]) -> None:
    if not opened.cancelled() and opened.exception() is None:
        task = asyncio.ensure_future(Place(client, opened.result()["id"], {}).close())
        _closing.add(task)
        task.add_done_callback(_closing.discard)


def _script(
    command: Sequence[str], directory: str, unset: Sequence[str], old: str, exports: Mapping[str, str]
) -> list[str]:
    return [
        *(f"export {name}={shlex.quote(value)}" for name, value in exports.items() if name not in _OF_THE_SHELL),
        f"cd -- {shlex.quote(directory)} || exit",
        # Of that step; the caller's own is in the policy, and stays.
        f"OLDPWD={shlex.quote(old)}" if old else "unset OLDPWD",
        *(f"unset {name}" for name in unset),
        f"exec {shlex.join(command)}",
    ]
