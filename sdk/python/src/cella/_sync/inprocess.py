# Made from _async/inprocess.py by tools/make_sync.py: change that one.
"""The port of a session whose code runs in this process."""

from __future__ import annotations

import json

from cella._capabilities import inprocess_capabilities
from cella._inprocess.guest import Guest
from cella._inprocess.record import ISOLATION
from cella._tools import refuse_own_session
from cella._transport.blocking import INTERRUPTS, Bell, in_thread
from cella._transport.blocking_calls import coroutine_runner
from cella.errors import Conflict, ForkedError, NotFound, SessionClosed, Unsupported
from cella.result import Event, Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, BinaryIO, Callable, NoReturn, Optional, Union

    from cella._sync.channel import Channel
    from cella._sync.client import Client
    from cella._sync.exchange import Answer
    from cella._sync.packages import OnProgress
    from cella._inprocess.packages import Packages
    from cella._inprocess.record import Record
    from cella._inprocess.storage import Storage
    from cella._tools import Tool
    from cella.config import InProcessConfig

    OnEvent = Callable[[Event], None]
    Document = dict[str, Any]

# Code that was interrupted has so long to end by itself; after that it is cancelled.
_INTERRUPT_GRACE = 3.0
_PAGE = 1 << 20


def _refuse(what: str, instead: str = "") -> NoReturn:
    hint = instead or "the sandbox executor has them"
    raise Unsupported(409, "unsupported", f"the inprocess executor has no {what}", hint)


class _Events:
    """The events of a run after one that is known, as they come."""

    def __init__(self, record: Record, after: int, cancel: Optional[Callable[[], object]] = None) -> None:
        self._record = record
        self._next = after
        self._cancel = cancel
        self._bell = Bell()
        record.streams.append(self._bell)
        record.waiters.append(self._bell)

    def lines(self) -> Iterator[Any]:
        while True:
            is_last = self._record.done  # looked at first: the last events may come meanwhile
            for event in self._record.events(self._next):
                self._next = event["n"]
                yield event
            if is_last:
                self._cancel = None
                return
            self._bell.wait()

    def release(self) -> None:
        cancel, self._cancel = self._cancel, None
        if cancel is not None:
            cancel()


class InProcess:
    """Of one session."""

    is_local = True
    is_alive = True
    url = "inprocess:"
    server = None

    def __init__(self, config: InProcessConfig) -> None:
        self._config = config
        self._guest: Optional[Guest] = None
        # A session of the private server, which alone reads and writes the storage. It runs nothing.
        self._beside: Optional[tuple[Client, str]] = None
        self._code_storage: Optional[Storage] = None
        self._packages: Optional[Packages] = None
        self._policy: Mapping[str, Any] = {}

    @property
    def _open(self) -> Guest:
        assert self._guest is not None
        return self._guest

    def check_process(self) -> None:
        if self._guest is not None and not self._guest.is_owner():
            raise ForkedError("this session belongs to the parent process: open another one in this child")

    def abandon(self, session: str) -> None:
        if self._guest is not None:
            self._guest.close()
        if self._packages is not None:
            self._packages.abandon()
        if self._beside is not None:
            self._beside[0].abandon(self._beside[1])

    def close(self) -> None:
        pass

    def create_session(self, policy: Optional[Mapping[str, Any]] = None) -> Document:
        from cella._inprocess.packages import Packages

        self._policy = policy or {}
        self._open_storage()
        packages = self._packages = Packages(self._config.packages_policy(self._policy.get("storage")))
        self._guest = Guest(self._config, packages.furnish)
        return self.get_session(self._guest.id)

    def get_session(self, session: str) -> Document:
        busy = any(record.status == "running" for record in self._open.records())
        return {
            "id": self._open.id, "name": self._policy.get("name"), "labels": self._policy.get("labels", {}),
            "executor": "inprocess", "status": "closed" if self._open.closed else "running" if busy else "idle",
            "capabilities": inprocess_capabilities({"allow_runtime_deps": self._config.allow_runtime_deps}),
            "expires_at": None, "isolation": ISOLATION, "usage": self._open.usage(),
        }

    def delete_session(self, session: str) -> None:
        beside, self._beside = self._beside, None
        if beside is not None and beside[0].is_alive:
            try:
                beside[0].delete_session(beside[1])
            except (NotFound, SessionClosed):
                pass
        self._open.close()
        in_thread(self._end)

    def _end(self) -> None:
        """Code that runs may import until it has ended."""
        self._open.join()
        if self._packages is not None:
            self._packages.close()

    # Storage

    def _open_storage(self) -> None:
        where = self._policy.get("storage")
        if where is None:
            return
        from cella._sync.client import started_server
        from cella._sync.clients import shared_client
        from cella._inprocess.storage import Storage
        from cella._sync.clients import shared_client as client_for_code

        server = started_server()
        client = shared_client(server)
        policy = {"executor": "local", "storage": where, "idle_timeout": "1d", "max_lifetime": "7d"}
        made = str((client.create_session(policy))["id"])
        self._beside = client, made
        self._code_storage = Storage(client_for_code(server), made)

    def _storage(self) -> tuple[Client, str]:
        if self._beside is None:
            raise Conflict(409, "conflict", "this session has no storage", "open it with storage=")
        return self._beside

    def storage(
        self, session: str, method: str, what: str, name: Optional[str] = None,
        query: Optional[Mapping[str, Any]] = None, document: Optional[Document] = None,
    ) -> Any:
        client, beside = self._storage()
        return client.storage(beside, method, what, name, query, document)

    def put_artifact(self, session: str, name: str, content: bytes, query: Mapping[str, Any]) -> Document:
        client, beside = self._storage()
        return client.put_artifact(beside, name, content, query)

    def get_artifact(self, session: str, name: str) -> tuple[str, bytes]:
        client, beside = self._storage()
        return client.get_artifact(beside, name)

    # Runs

    def _wait(self, record: Record, interrupts: bool = False) -> None:
        bell = Bell()
        record.waiters.append(bell)
        try:
            while not record.done:
                bell.wait()
        except INTERRUPTS:
            if interrupts and self._open.interrupt(record.id):
                bell.wait(_INTERRUPT_GRACE)
            self._open.cancel(record.id)
            raise
        except BaseException:
            self._open.cancel(record.id)
            raise

    def _submit(
        self, request: Mapping[str, Any], tools: Optional[Mapping[str, Tool]] = None,
        values: Optional[Mapping[str, object]] = None,
    ) -> Record:
        self.check_process()
        host = None
        if tools or self._code_storage is not None:
            from cella._inprocess.host_calls import HostCalls

            host = HostCalls(self._open.id, tools or {}, coroutine_runner(), self._code_storage)
        return self._open.submit(request, values, host)

    def run(self, session: str, request: Mapping[str, Any], interrupts: bool = False) -> Result:
        record = self._submit(request)
        self._wait(record, interrupts)
        return Result(record.result())

    def open_channel(self, session: str) -> Channel:
        _refuse("channel", "its tools are called directly")

    def run_with_tools(
        self, session: str, request: Mapping[str, Any], tools: Mapping[str, Tool], on_event: Optional[OnEvent]
    ) -> Result:
        refuse_own_session(session)
        record = self._submit(request, tools)
        if on_event is None:
            self._wait(record)
            return Result(record.result())
        events = _Events(record, 0, lambda: self._open.cancel(record.id))
        try:
            for event in events.lines():
                on_event(Event(event))
        finally:
            events.release()
        return Result(record.result())

    def put_value(self, session: str, name: str, kind: str, data: bytes) -> None:
        value = data if kind == "bytes" else data.decode() if kind == "text" else json.loads(data)
        record = self._submit({"code": ""}, None, {name: value})
        self._wait(record)

    def start_run(
        self, session: str, request: Mapping[str, Any], tools: Optional[Mapping[str, Tool]] = None
    ) -> str:
        if tools:
            refuse_own_session(session)
        return self._submit(request, tools).id

    def stream_run(
        self, session: str, request: Mapping[str, Any], tools: Optional[Mapping[str, Tool]] = None
    ) -> _Events:
        if tools:
            refuse_own_session(session)
        record = self._submit(request, tools)
        return _Events(record, 0, lambda: self._open.cancel(record.id))

    def events(self, session: str, run: str, after: Optional[int] = None) -> _Events:
        return _Events(self._open.record(run), after or 0)

    def list_runs(self, session: str, after: Optional[str] = None, limit: Optional[int] = None) -> Document:
        runs = [
            {"id": each.id, "status": each.status, "exit_code": each.result()["exit_code"] if each.done else None}
            for each in self._open.records()
        ]
        return {"runs": runs, "next": None}

    def get_run(self, session: str, run: str) -> Document:
        record = self._open.record(run)
        return record.result() if record.done else {"id": run, "status": record.status, "events": None}

    def output(
        self, session: str, run: str, stream: str = "stdout", offset: int = 0, limit: Optional[int] = None
    ) -> bytes:
        """What its Result has: no more is kept."""
        record = self._open.record(run)
        text = record.result()[stream] if record.done else ""
        return bytes(text.encode()[offset : offset + (limit or _PAGE)])

    def rich_output(self, session: str, run: str, index: int, mime: str) -> bytes:
        """What its Result has: no more is kept."""
        record = self._open.record(run)
        outputs = Result(record.result()).outputs if record.done else []
        data = outputs[index].data(mime) if 0 <= index < len(outputs) else None
        if data is None:
            raise NotFound(404, "not_found", f"output {index} of {run} has no representation {mime!r}")
        return data

    def cancel_run(self, session: str, run: str) -> bool:
        return self._open.cancel(run)

    def interrupt(self, session: str, run: Optional[str] = None) -> bool:
        return self._open.interrupt(run)

    def input(self, session: str, text: Optional[str], run: Optional[str] = None) -> None:
        self._open.reply(text)

    def reset(self, session: str) -> None:
        bell = Bell()
        self._open.reset(bell.ring)
        bell.wait()

    def complete(
        self, session: str, code: str, cursor: Optional[int] = None, language: str = "python"
    ) -> Document:
        return self._open.complete(code, len(code) if cursor is None else cursor)

    def inspect(
        self, session: str, code: str, cursor: Optional[int] = None, language: str = "python"
    ) -> Document:
        return self._open.inspect(code, len(code) if cursor is None else cursor)

    # Packages

    @property
    def _added(self) -> Packages:
        assert self._packages is not None
        return self._packages

    def deps(self, session: str) -> Document:
        return in_thread(self._added.list)

    def add_deps(
        self, session: str, packages: list[str], on_progress: Optional[OnProgress] = None
    ) -> Document:
        client, beside = self._installer()
        change = client.add_deps(beside, packages, on_progress)
        in_thread(self._added.refresh)
        return change

    def sync_deps(self, session: str, on_progress: Optional[OnProgress] = None) -> Document:
        client, beside = self._installer()
        change = client.sync_deps(beside, on_progress)
        in_thread(self._added.refresh)
        return change

    def remove_dep(self, session: str, name: str) -> bool:
        client, beside = self._installer()
        removed = client.remove_dep(beside, name)
        in_thread(self._added.refresh)
        return removed

    def _installer(self) -> tuple[Client, str]:
        from cella._sync.client import started_server
        from cella._sync.clients import shared_client

        _, beside = in_thread(self._added.opened)
        return shared_client(started_server()), beside

    # What cannot exist here

    def checkpoints(self, session: str) -> list[str]:
        _refuse("checkpoints")

    def checkpoint(self, session: str, name: str) -> None:
        _refuse("checkpoints")

    def rollback(self, session: str, name: str) -> None:
        _refuse("checkpoints")

    def drop_checkpoint(self, session: str, name: str) -> None:
        _refuse("checkpoints")

    def list_files(
        self, session: str, path: str = "", after: Optional[str] = None, limit: Optional[int] = None
    ) -> Document:
        _refuse("workspace", _FILES)

    def upload(self, session: str, path: str, content: Union[bytes, BinaryIO]) -> None:
        _refuse("workspace", _FILES)

    def download(self, session: str, path: str) -> Answer:
        _refuse("workspace", _FILES)

    def delete_file(self, session: str, path: str, recursive: bool = False) -> None:
        _refuse("workspace", _FILES)

    def download_archive(self, session: str, path: str = "") -> Answer:
        _refuse("workspace", _FILES)

    def upload_archive(self, session: str, content: Union[bytes, BinaryIO], path: str = "") -> Document:
        _refuse("workspace", _FILES)


_FILES = "its code has your own files; the sandbox executor has a workspace"
