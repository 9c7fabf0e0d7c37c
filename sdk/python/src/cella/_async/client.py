"""One server, route by route. `Session` and the executors are made of this."""

from __future__ import annotations

import json
import time

from cella._async.exchange import PATIENCE, Answer, Exchanges
from cella._async.file_routes import FileRoutes
from cella._async.packages import PackageRequests
from cella._async.packages import session_path as _session_path
from cella._async.storage_routes import StorageRoutes
from cella._http import header_line, target
from cella._log import tell
from cella._run_request import has_other_threads, new_run_id, patience_for
from cella._transport.address import Address
from cella._transport.aio import INTERRUPTS, pause, settle
from cella._version import __version__, compatible
from cella.errors import ApiError, IncompatibleServer, NotFound, ServerBusy, SessionClosed
from cella.result import Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
    from typing import Any, BinaryIO, Callable, Optional, Union

    from cella._async.channel import Channel
    from cella._async.port import Documents
    from cella._private_server import PrivateServer
    from cella._tools import Tool
    from cella.result import Event

    OnEvent = Callable[[Event], Awaitable[None]]
    Interrupted = Callable[[], Awaitable[None]]
    Document = dict[str, Any]

_NDJSON = header_line("Accept", "application/x-ndjson")
_SHORT = 3.0  # for what is answered at once
BUSY_BOUND = 10.0  # a limit of the server that is reached for so long is told to the caller


def started_server() -> PrivateServer:
    """The private server of this process."""
    from cella._programs import check_platform

    check_platform()
    from cella._private_server import private_server

    return private_server()


async def _whole(answer: Answer) -> bytes:
    try:
        return await answer.read()
    finally:
        answer.release()


class Client(FileRoutes, PackageRequests, StorageRoutes):
    """A server: the private one of this process, or `url` with its `token`. Safe for threads and several loops.

    Answers are the documents of the HTTP API. Dropping a wait for a run (a cancelled task) cancels the run.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        token: Optional[str] = None,
        *,
        tls: Optional[ssl.SSLContext] = None,
        server: Optional[PrivateServer] = None,
    ) -> None:
        if url is None:
            if token is not None:
                raise ValueError("a token is for a server that has a url")
            if server is None:
                server = started_server()
            url, token = f"unix:{server.socket}", server.token
        self.url = url
        self.server = server
        self._exchanges = Exchanges(Address(url, tls), token, server)
        self._version: Optional[str] = None
        self._has_started_runs = False
        self._abandoned: list[str] = []

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *ignored: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes idle connections. The private server lives on: it is the process's."""
        self.drop_connections()

    def drop_connections(self) -> None:
        self._exchanges.close()

    @property
    def is_local(self) -> bool:
        """On this machine, as this user: it knows the paths of this process."""
        return self.server is not None

    @property
    def is_alive(self) -> bool:
        """False when the private server behind it has ended."""
        return self.server is None or self.server.died() is None

    def check_process(self) -> None:
        """Raises ForkedError in a child made by fork."""
        self._exchanges.check_process()

    async def _ask(
        self, method: str, where: str, document: Optional[object] = None, *, urgent: bool = False,
        interrupted: Optional[Interrupted] = None, patience: float = PATIENCE,
    ) -> Any:
        if self._version is None:
            await self.check_version()
        try:
            return await self._exchanges.ask(
                method, where, document, urgent=urgent, interrupted=interrupted, patience=patience
            )
        except NotFound:
            await self._check_session(where)
            raise

    async def _begin(
        self, method: str, where: str, document: Optional[object] = None, extra: bytes = b""
    ) -> Answer:
        if self._version is None:
            await self.check_version()
        body = b"" if document is None else json.dumps(document, allow_nan=False).encode()
        try:
            return await self._exchanges.begin(method, where, body, extra)
        except NotFound:
            await self._check_session(where)
            raise

    async def _check_session(self, where: str) -> None:
        """Something of a session is not there. If that is since the session is not, says so."""
        parts = where.split("/")
        if len(parts) < 5 or parts[2] != "sessions":
            return
        try:
            session = await self._exchanges.ask("GET", "/".join(parts[:4]))
        except NotFound:
            raise SessionClosed("the session has ended: it was deleted") from None
        if session.get("status") in ("closed", "lost"):
            raise SessionClosed(f"the session has ended: {session.get('closed_because') or session['status']}")

    async def health(self) -> Document:
        answer: Document = await self._exchanges.ask("GET", "/health")
        return answer

    async def check_version(self) -> str:
        """The server's version. Raises IncompatibleServer when this package does not speak it."""
        health = await self.health()
        version = str(health.get("version", "")) if isinstance(health, dict) else ""
        if not compatible(version):
            raise IncompatibleServer(
                f"the server at {self.url} is version {version or 'unknown'} and this package is {__version__}: "
                "install the same version on both sides"
            )
        self._version = version
        return version

    # Sessions

    async def create_session(self, policy: Optional[Mapping[str, Any]] = None) -> Document:
        """Opens a session. While the server is at a limit it is asked again as it advises, within a bound; a warning of
        the logger `cella` says so."""

        async def create() -> Document:
            answer: Document = await self._ask("POST", "/v1/sessions", policy or {})
            return answer

        deadline = time.monotonic() + BUSY_BOUND
        is_told = False
        await self._delete_abandoned()
        while True:
            try:
                return await settle(create, self._undo_create)
            except ServerBusy as busy:
                wait = min(busy.retry_after or 1.0, BUSY_BOUND / 4)
                if time.monotonic() + wait > deadline:
                    raise
                if not is_told:
                    is_told = True
                    tell(f"{busy}: trying again for {BUSY_BOUND:.0f} s")
            await pause(wait)

    async def _undo_create(self, session: Document) -> None:
        self.abandon(str(session["id"]))
        await self._delete_abandoned()

    def abandon(self, session: str) -> None:
        """Of an object that was dropped without being closed: it is ended at the next occasion."""
        self._abandoned.append(session)

    async def _delete_abandoned(self) -> None:
        while self._abandoned:
            try:
                await self.delete_session(self._abandoned.pop())
            except (ApiError, IndexError):
                pass  # it has ended by itself, or another thread was faster

    async def list_sessions(self, after: Optional[str] = None, limit: Optional[int] = None) -> Document:
        answer: Document = await self._ask("GET", target("/v1/sessions", {"after": after, "limit": limit}))
        return answer

    async def get_session(self, session: str) -> Document:
        answer: Document = await self._ask("GET", _session_path(session))
        return answer

    async def delete_session(self, session: str) -> None:
        await self._ask("DELETE", _session_path(session), urgent=True)

    # Runs

    def _interrupter(self, session: str, run: Optional[str]) -> Interrupted:
        async def interrupt() -> None:
            await self.interrupt(session, run)

        return interrupt

    async def run(self, session: str, request: Mapping[str, Any], interrupts: bool = False) -> Result:
        """Runs code and waits. `request` has the words of POST …/runs. `interrupts`: Ctrl-C interrupts this run, and no
        other one of its session, instead of cancelling it."""
        where = _session_path(session, "runs")
        document = {"cancel_on_disconnect": True, **request}
        interrupted = None
        if interrupts and INTERRUPTS:
            if self._has_started_runs or has_other_threads():
                # With an id the run begins only when the registry has it: some 0.1 ms later.
                document.setdefault("id", new_run_id())
            interrupted = self._interrupter(session, document.get("id"))
        patience = patience_for(request.get("timeout"), PATIENCE)
        return Result(await self._ask("POST", where, document, interrupted=interrupted, patience=patience))

    async def open_channel(self, session: str) -> Channel:
        """The WebSocket of a session."""
        return await self._exchanges.upgrade(_session_path(session, "channel"))

    async def run_with_tools(
        self, session: str, request: Mapping[str, Any], tools: Mapping[str, Tool], on_event: Optional[OnEvent]
    ) -> Result:
        """Runs code that calls functions of this process, and serves the calls."""
        from cella._async.serving import run_with_tools

        return await run_with_tools(self, session, request, tools, on_event)

    async def put_value(self, session: str, name: str, kind: str, data: bytes) -> None:
        await self._put(target(_session_path(session, "variables", name), {"kind": kind}), data)

    async def start_run(
        self, session: str, request: Mapping[str, Any], tools: Optional[Mapping[str, Tool]] = None
    ) -> str:
        """Starts a run without waiting for its end: its id. Calls of `tools` are served meanwhile."""
        self._has_started_runs = True
        if tools:
            from cella._async.serving import start_with_tools

            return await start_with_tools(self, session, request, tools)
        answer = await self._ask("POST", _session_path(session, "runs"), {**request, "wait": False})
        return str(answer["id"])

    async def stream_run(
        self,
        session: str,
        request: Mapping[str, Any],
        tools: Optional[Mapping[str, Tool]] = None,
    ) -> Documents:
        """Runs code; its events are the lines of the answer. Release the answer. Calls of `tools` are served by who
        reads the lines. Ctrl-C interrupts this run, and no other one of its session."""
        if tools:
            from cella._async.serving import begin

            return await begin(self, session, request, tools)
        document = {"cancel_on_disconnect": True, **request}
        answer = await self._begin("POST", _session_path(session, "runs"), document, _NDJSON)
        if run := answer.response.headers.get("x-cella-run"):
            answer.interrupted = self._interrupter(session, run)
        return answer

    async def events(self, session: str, run: str, after: Optional[int] = None) -> Answer:
        """The events of a run after one that is known, as they come. Release the answer."""
        where = target(_session_path(session, "runs", run, "events"), {"after": after})
        return await self._begin("GET", where, None, _NDJSON)

    async def list_runs(self, session: str, after: Optional[str] = None, limit: Optional[int] = None) -> Document:
        where = target(_session_path(session, "runs"), {"after": after, "limit": limit})
        answer: Document = await self._ask("GET", where, urgent=True)
        return answer

    async def get_run(self, session: str, run: str) -> Document:
        """The Result of a run that has ended; else its `status` (queued, running)."""
        answer: Document = await self._ask("GET", _session_path(session, "runs", run))
        return answer

    async def output(
        self, session: str, run: str, stream: str = "stdout", offset: int = 0, limit: Optional[int] = None
    ) -> bytes:
        """A page of all that a run wrote, as bytes; nothing at the end."""
        path = _session_path(session, "runs", run, "output")
        path = target(path, {"stream": stream, "offset": offset, "limit": limit})
        return await _whole(await self._begin("GET", path))

    async def rich_output(self, session: str, run: str, index: int, mime: str) -> bytes:
        path = _session_path(session, "runs", run, "outputs", str(index))
        return await _whole(await self._begin("GET", target(path, {"type": mime})))

    async def cancel_run(self, session: str, run: str) -> bool:
        """Ends a run that waits or is on. False: it had ended."""
        answer = await self._ask("POST", _session_path(session, "runs", run, "cancel"), urgent=True)
        return bool(answer.get("cancelled"))

    async def run_once(
        self, request: Mapping[str, Any], policy: Optional[Mapping[str, Any]] = None
    ) -> Result:
        """One program in a jail of its own, without a session; a cancelled wait cancels it."""
        document: Document = {"cancel_on_disconnect": True, **request}
        if policy:
            document["policy"] = dict(policy)
        return Result(await self._ask("POST", "/v1/run", document))

    async def batch(
        self,
        snippets: Iterable[Mapping[str, Any]],
        *,
        policy: Optional[Mapping[str, Any]] = None,
        concurrency: int = 2,
    ) -> AsyncIterator[Document]:
        """Runs independent snippets; documents with `index` and `result` (or `error`) as they end."""
        document: Document = {"snippets": [dict(each) for each in snippets], "concurrency": concurrency}
        if policy:
            document["policy"] = dict(policy)
        answer = await self._begin("POST", "/v1/batch", document)
        try:
            async for line in answer.lines():
                yield line
        finally:
            answer.release()

    # What is done to a session besides

    async def interrupt(self, session: str, run: Optional[str] = None) -> bool:
        """SIGINT to this run, else to the one that is on; state is kept. False: there was nothing to interrupt."""
        where = _session_path(session, *(("runs", run) if run else ()), "interrupt")
        answer = await self._ask("POST", where, urgent=True, patience=_SHORT)
        return bool(answer.get("interrupted"))

    async def reset(self, session: str) -> None:
        await self._ask("POST", _session_path(session, "reset"))

    async def input(self, session: str, text: Optional[str], run: Optional[str] = None) -> None:
        """Answers code that waits for input, of this run or of the one that is on; nothing is an end of file."""
        document: Document = {"eof": True} if text is None else {"text": text}
        if run:
            document["run"] = run
        await self._ask("POST", _session_path(session, "input"), document, urgent=True)

    async def complete(
        self, session: str, code: str, cursor: Optional[int] = None, language: str = "python"
    ) -> Document:
        document = {"code": code, "cursor": len(code) if cursor is None else cursor, "language": language}
        answer: Document = await self._ask("POST", _session_path(session, "complete"), document)
        return answer

    async def inspect(
        self, session: str, code: str, cursor: Optional[int] = None, language: str = "python"
    ) -> Document:
        document = {"code": code, "cursor": len(code) if cursor is None else cursor, "language": language}
        answer: Document = await self._ask("POST", _session_path(session, "inspect"), document)
        return answer

    async def checkpoints(self, session: str) -> list[str]:
        answer = await self._ask("GET", _session_path(session, "checkpoints"))
        return list(answer["checkpoints"])

    async def checkpoint(self, session: str, name: str) -> None:
        await self._ask("POST", _session_path(session, "checkpoints"), {"name": name})

    async def rollback(self, session: str, name: str) -> None:
        await self._ask("POST", _session_path(session, "checkpoints", name, "rollback"))

    async def drop_checkpoint(self, session: str, name: str) -> None:
        await self._ask("DELETE", _session_path(session, "checkpoints", name))

    async def _put(self, where: str, content: Union[bytes, BinaryIO]) -> bytes:
        try:
            return await self._exchanges.fetch("PUT", where, content)
        except NotFound:
            await self._check_session(where)
            raise
