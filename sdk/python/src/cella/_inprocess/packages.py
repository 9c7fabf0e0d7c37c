"""The packages that a session in this process adds. The private server installs them into a directory of the session.

The directory is at the end of sys.path while the session is open: nothing that the caller can import changes, and
nothing is written to the caller's environment.
"""

from __future__ import annotations

import importlib
import sys
import threading

from cella._guest.cella_runner import deps as guest
from cella._inprocess.host_calls import Failed, HostCalls
from cella.errors import CellaError, DepsDisabledError, NotFound, SessionClosed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

    from cella._inprocess.world import World
    from cella._sync.client import Client

    Document = dict[str, Any]

_NOTHING: Document = {"deps": [], "installed": [], "directory": None}
_path_lock = threading.RLock()  # a session may be collected, and so abandoned, in a thread that holds it


class Packages:
    """Of one session. Safe for any number of threads; code of the session is never stopped in here."""

    def __init__(self, policy: Document) -> None:
        """`policy` is that of the private server's session, which installs."""
        self._policy = policy
        self._gate = HostCalls("", {})
        self._opening = threading.Lock()
        self._using = threading.Lock()
        self._beside: Optional[tuple[Client, str]] = None
        self._directory: Optional[str] = None
        self._closed = False

    def furnish(self, world: World) -> None:
        """The name `deps` in the code."""
        through = self._gate.gate(world)

        def call(operation: str, *words: Any) -> Any:
            return through("deps", operation, guest.ERRORS, lambda: self._serve(operation, words))

        world.use_packages(guest.Deps(call))

    def _serve(self, operation: str, words: tuple[Any, ...]) -> Document:
        for word in words:
            if not isinstance(word, str):
                kind = type(word).__name__
                raise Failed("DepsError", f'deps.{operation}: must be given text, as "numpy>=2", not {kind}')
        try:
            if operation == "list":
                return self.list()
            client, session = self.opened()
            if operation == "add":
                answer = client.add_deps(session, [*words])
            elif operation == "sync":
                answer = client.sync_deps(session)
            else:
                answer = {"removed": client.remove_dep(session, *words)}
            self.refresh()
            return answer
        except DepsDisabledError as error:
            raise Failed("DepsDisabledError", str(error)) from None
        except CellaError as error:
            raise Failed("DepsError", str(error)) from None

    def opened(self) -> tuple[Client, str]:
        """Where the installer is. Starts the private server when it is first needed."""
        from cella._sync.client import started_server
        from cella._sync.clients import shared_client

        with self._opening:
            if self._closed:
                raise SessionClosed("the session is closed: open a new one")
            if self._beside is None:
                client = shared_client(started_server())
                self._beside = client, str(client.create_session(self._policy)["id"])
            return self._beside

    def list(self) -> Document:
        """As the HTTP API answers."""
        if self._beside is None:
            return dict(_NOTHING)
        client, session = self.opened()
        return client.deps(session)

    def refresh(self) -> None:
        """After each change, which has a directory of its own."""
        with self._using:
            self._use(self.list()["directory"])

    def _use(self, directory: Optional[str]) -> None:
        with _path_lock:
            before, self._directory = self._directory, directory
            if before is not None and before in sys.path:
                sys.path.remove(before)
            if directory is not None:
                sys.path.append(directory)
            for each in (before, directory):
                if each is not None:
                    sys.path_importer_cache.pop(each, None)
            importlib.invalidate_caches()

    def abandon(self) -> None:
        """By the garbage collector, which must not wait for the server."""
        beside, self._closed = self._beside, True
        if beside is not None:
            self._use(None)
            beside[0].abandon(beside[1])

    def close(self) -> None:
        with self._opening:
            self._closed = True
            beside, self._beside = self._beside, None
        if beside is None:
            return
        with self._using:
            self._use(None)
        client, session = beside
        if client.is_alive:
            try:
                client.delete_session(session)
            except (NotFound, SessionClosed):
                pass
