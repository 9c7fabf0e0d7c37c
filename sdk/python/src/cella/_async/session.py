"""A session: variables, imports and files that stay from run to run."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Mapping, Sequence

from cella._async.parts import Parts
from cella._async.state import State
from cella._capabilities import capabilities_of
from cella._programs import check_platform
from cella._run_request import run_request
from cella.result import Event, Output, Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from typing import Any, Callable, Optional, Union

    from cella._async.client import Client
    from cella._async.port import Port
    from cella._async.stream import Run, RunStream
    from cella._tools import Tool, Tools
    from cella.config import Executor
    from cella.storage import FileStorage

    OnText = Callable[[str], Union[Awaitable[None], None]]
    OnDisplay = Callable[[Output], Union[Awaitable[None], None]]
    OnEvent = Callable[[Event], Union[Awaitable[None], None]]
    OnInput = Callable[[str], Union[Awaitable[Optional[str]], Optional[str]]]
else:
    # Frameworks read the hints of methods that they offer to a model as tools.
    from cella._hints import Any, Callable, Optional, Union, member, not_for_models

    Client, Port = member("cella._async.client", "Client"), member("cella._async.client", "Client")
    Tools = member("cella._tools", "Tools")
    Run, RunStream = member("cella._async.stream", "Run"), member("cella._async.stream", "RunStream")
    OnText = not_for_models(lambda: Callable[[str], Union[Awaitable[None], None]])
    OnDisplay = not_for_models(lambda: Callable[[Output], Union[Awaitable[None], None]])
    OnEvent = not_for_models(lambda: Callable[[Event], Union[Awaitable[None], None]])
    OnInput = not_for_models(lambda: Callable[[str], Union[Awaitable[Optional[str]], Optional[str]]])


class Session(Parts, State):
    """Runs code in one place, one run after the other, and keeps what it leaves behind.

    Without arguments: a jail of the private server, with the caller's own Python. `executor` says how it is confined,
    `storage` what outlives it; `url` and `token` say where another server is. It opens on first use, and ends with
    the `async with` block or `aclose`. A cancelled task ends its run, not the session.
    """

    def __init__(
        self,
        storage: Union[FileStorage, str, os.PathLike[str], Executor, None] = None,
        executor: Optional[Executor] = None,
        *,
        url: Optional[str] = None,
        token: Optional[str] = None,
        tls: Optional[ssl.SSLContext] = None,
        name: Optional[str] = None,
        labels: Optional[Mapping[str, str]] = None,
        client: Optional[Client] = None,
        sync_deps_on_start: bool = False,
    ) -> None:
        if storage is not None and not isinstance(storage, (str, os.PathLike)):
            if executor is not None:
                raise TypeError(f"storage={storage!r}: must be a FileStorage, or the name of a server's storage")
            executor, storage = storage, None
        if client is not None and (url is not None or token is not None or tls is not None):
            raise ValueError("either a client or a url, not both")
        if executor is not None:
            from cella.config import check_executor

            check_executor(executor)
        self._executor = executor
        local = client is None and url is None
        if local and token is not None:
            raise ValueError("a token is for a server that has a url")
        inprocess = local and executor is not None and executor.is_inprocess
        # Before the imports: the server starts while they are made.
        server = None
        if local and not inprocess:
            check_platform()
            from cella._private_server import private_server

            server = private_server()

        from cella._async.client import Client
        from cella._async.clients import shared_client
        from cella._transport.aio import Turn

        self._client: Port

        self._owns_client = url is not None
        if inprocess:
            from cella._async.inprocess import InProcess

            assert executor is not None
            self._client = InProcess(executor.config)
        elif server is not None:
            self._client = shared_client(server)
        else:
            self._client = client if client is not None else Client(url, token, tls=tls)
        self._policy: dict[str, Any] = executor.policy(local=self._client.is_local) if executor else {}
        if name is not None:
            self._policy["name"] = name
        if labels:
            self._policy["labels"] = dict(labels)
        if storage is not None:
            from cella.storage import storage_key

            self._policy["storage"] = storage_key(storage, self._client.is_local)
        self._sync_deps = sync_deps_on_start
        self._turn = Turn()
        self._tools: dict[str, Tool] = {}
        self._description: Optional[dict[str, Any]] = None
        self._closed: Optional[str] = None

    # Its life

    async def __aenter__(self) -> Session:
        await self.open()
        return self

    async def __aexit__(self, *ignored: object) -> None:
        await self.aclose()

    async def open(self) -> Session:
        """Opens it now; any use does."""
        await self.opened()
        return self

    async def opened(self) -> tuple[Port, str]:
        """The port and the id, for requests. Raises if the session has ended."""
        description = self._description
        if description is None or self._closed is not None:
            description = await self._open()
        return self._client, str(description["id"])

    async def _open(self) -> dict[str, Any]:
        from cella.errors import SessionClosed

        async with self._turn:
            if self._closed is not None:
                raise SessionClosed(self._closed)
            if self._description is not None:
                return self._description
            description = await self._client.create_session(self._policy)
            if self._description is not None:
                # Another loop was faster.
                await self._client.delete_session(str(description["id"]))
            else:
                self._description = description
                if self._sync_deps:
                    await self._client.sync_deps(str(description["id"]))
            return self._description

    async def aclose(self) -> None:
        """Ends the session and everything in it. Harmless when it has ended."""
        from cella._transport.aio import shielded
        from cella.errors import CellaError, NotFound

        self._client.check_process()
        description, closed = self._description, self._closed
        self._closed = closed or "the session is closed: open a new one"
        try:
            if description is not None and closed is None and self._client.is_alive:
                # Also in a cancelled scope, where every wait of this task ends at once.
                await shielded(lambda: self._client.delete_session(str(description["id"])))
        except NotFound:
            pass
        except CellaError:
            # With the server its sessions are gone as well.
            if self._client.is_alive:
                raise
        finally:
            if self._owns_client:
                await self._client.aclose()

    @property
    def id(self) -> Optional[str]:
        """Nothing before it is open."""
        return None if self._description is None else str(self._description["id"])

    @property
    def executor(self) -> str:
        """`sandbox`, `local`, `inprocess` or another one of the server's."""
        if self._description is not None:
            return str(self._description["executor"])
        return str(self._policy.get("executor", "sandbox"))

    @property
    def client(self) -> Port:
        return self._client

    @property
    def capabilities(self) -> frozenset[str]:
        """The words that `supports` answers with True."""
        return capabilities_of(self.executor, self._policy, self._description)

    def supports(self, capability: str) -> bool:
        """Whether it can do something, such as `state`, `checkpoints`, `files` or `process_isolation`. An unknown word
        is False."""
        return capability in self.capabilities

    async def info(self) -> dict[str, Any]:
        """What the server knows of it: `status`, `capabilities`, `expires_at`, `isolation`, and its live `usage`:
        whether it is `alive`, its `memory` (bytes), `cpu_ms` and `processes`."""
        client, session = await self.opened()
        return await client.get_session(session)

    # Runs

    async def run(
        self,
        code: Optional[str] = None,
        *,
        language: Optional[str] = None,
        blocks: Optional[Sequence[Mapping[str, str]]] = None,
        timeout: Union[float, str, None] = None,
        stdin: Optional[str] = None,
        variables: Optional[Mapping[str, object]] = None,
        on_stdout: Optional[OnText] = None,
        on_stderr: Optional[OnText] = None,
        on_display: Optional[OnDisplay] = None,
        on_input: Optional[OnInput] = None,
        on_event: Optional[OnEvent] = None,
    ) -> Result:
        """Runs code and waits for its Result. With callbacks, they are called as it happens. `variables`: text, bytes
        and JSON values that the code finds under these names."""
        request = run_request(code, language, blocks, timeout, stdin, variables)
        tell = None
        if on_stdout or on_stderr or on_display or on_input or on_event:
            from cella._async.callbacks import run_with_callbacks, teller

            request["input"] = on_input is not None
            tell = teller(self, on_stdout, on_stderr, on_display, on_input, on_event)
            if not self._tools:
                return await run_with_callbacks(self, request, tell)
        client, session = await self.opened()
        if self._tools:
            return await client.run_with_tools(session, request, self._tools, tell)
        return await client.run(session, request, True)

    def stream(
        self,
        code: Optional[str] = None,
        *,
        language: Optional[str] = None,
        blocks: Optional[Sequence[Mapping[str, str]]] = None,
        timeout: Union[float, str, None] = None,
        stdin: Optional[str] = None,
        input: bool = False,
        variables: Optional[Mapping[str, object]] = None,
    ) -> RunStream:
        """The events of a run as they come. With `input`, answer each `input_request` with the method `input`."""
        from cella._async.stream import RunStream

        request = run_request(code, language, blocks, timeout, stdin, variables)
        request["input"] = input
        return RunStream(self, request, self._tools)

    async def start(
        self,
        code: Optional[str] = None,
        *,
        language: Optional[str] = None,
        blocks: Optional[Sequence[Mapping[str, str]]] = None,
        timeout: Union[float, str, None] = None,
        stdin: Optional[str] = None,
        input: bool = False,
        variables: Optional[Mapping[str, object]] = None,
    ) -> Run:
        """Starts a run that continues without a waiting caller. Calls of tools are served meanwhile: by this loop, in
        `cella.sync` by a thread."""
        from cella._async.stream import Run

        request = run_request(code, language, blocks, timeout, stdin, variables)
        request["input"] = input
        client, session = await self.opened()
        return Run(client, session, await client.start_run(session, request, self._tools))

    async def cancel(self) -> int:
        """Ends every run of this session, also those that wait; from any task, thread or loop. How many there were.

        What runs gets SIGINT, and after one second SIGKILL. After SIGKILL the state is that from before.
        """
        client, session = await self.opened()
        cancelled, after = 0, None
        while True:
            page = await client.list_runs(session, after, 1000)
            for run in page["runs"]:
                if run["exit_code"] is None and await client.cancel_run(session, run["id"]):
                    cancelled += 1
            after = page["next"]
            if after is None:
                return cancelled

    async def interrupt(self) -> bool:
        """SIGINT to what runs, as Ctrl-C does; the state is kept. False: nothing ran."""
        client, session = await self.opened()
        return await client.interrupt(session)

    async def input(self, text: Optional[str], run: Optional[str] = None) -> None:
        """Answers code that waits for input(), of the run with this id or of the one that is on; nothing is an end of
        file."""
        client, session = await self.opened()
        await client.input(session, text, run)

    async def read_output(self, result: Union[Result, str], stream: str = "stdout") -> bytes:
        """All that a run wrote, as bytes, also what its Result left out; as far as the server has kept it."""
        from cella._async.kept import read_output

        return await read_output(*await self.opened(), result, stream)

    async def fetch_output(self, result: Union[Result, str], index: int, mime: str) -> bytes:
        """The bytes of one form of `outputs[index]`, also one that the Result left out, while the server keeps it."""
        client, session = await self.opened()
        return await client.rich_output(session, result if isinstance(result, str) else result.id, index, mime)

    # Tools

    def tool(
        self, function: Optional[Callable[..., Any]] = None, *, name: Optional[str] = None,
        description: Optional[str] = None, timeout: Optional[float] = None,
    ) -> Any:
        """Lets code call a function of this process, as `tools.NAME(...)`. Also a decorator. The next `run` serves it.

        Arguments are checked by the type hints; results are JSON values. In the code there is the name alone.
        """
        from cella._tools import registering

        register = registering(self._tools, name, description, timeout)
        return register if function is None else register(function)

    @property
    def tools(self) -> Tools:
        """What `tool` has added: `list()`, `search(words)`, and each function by its name, with `describe()`."""
        from cella._tools import Tools

        return Tools(self._tools)

    # Names

    async def complete(self, code: str, cursor: Optional[int] = None, language: str = "python") -> dict[str, Any]:
        """`matches` that may replace code[start:end]."""
        client, session = await self.opened()
        return await client.complete(session, code, cursor, language)

    async def inspect(self, code: str, cursor: Optional[int] = None, language: str = "python") -> dict[str, Any]:
        """What the interpreter knows of the name at the cursor: `found`, `text`."""
        client, session = await self.opened()
        return await client.inspect(session, code, cursor, language)

    def __del__(self) -> None:
        # Nothing can be asked of a server here. A client that is the session's own goes with it.
        if getattr(self, "_description", None) is None or self._closed is not None:
            return
        if not self._client.is_local:
            import warnings

            text = f"{self!r} was not closed and stays on its server"
            warnings.warn(text, ResourceWarning, stacklevel=2, source=self)
        if not self._owns_client:
            self._client.abandon(str(self.id))

    def __repr__(self) -> str:
        state = "closed" if self._closed else self.id or "not open yet"
        return f"<Session {self.executor}: {state}>"
