"""The storage of a session in this process, for its code. The private server alone reads and writes it."""

from __future__ import annotations

from cella._guest.cella_runner import artifacts as guest_artifacts
from cella._guest.cella_runner import workflows as guest_workflows
from cella._inprocess.host_calls import Failed
from cella._sync.storage import Artifacts as OutsideArtifacts
from cella._sync.storage import Workflows as OutsideWorkflows
from cella.errors import ArtifactNotFoundError, CellaError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Awaitable, Mapping
    from typing import Any, Callable

    from cella._sync.client import Client
    from cella.storage import Entry

    Entries = list[Entry]
    Work = Callable[[], Any]
    Through = Callable[[str, str, Mapping[str, type[Exception]], Work], Any]


class Storage:
    """What a session of the private server does for code in this process."""

    def __init__(self, client: Client, session: str) -> None:
        self._opened = client, session

    def opened(self) -> tuple[Client, str]:
        return self._opened

    def install(self, names: types.ModuleType, through: Through, in_executor: Callable[[Work], Awaitable[Any]]) -> None:
        """As built-in names of the session's code, whose calls go through the gate."""

        def artifacts(operation: str, work: Work) -> Any:
            def serve() -> Any:
                return _served(work, "ArtifactError")

            return through(guest_artifacts.SPACE, operation, guest_artifacts.ERRORS, serve)

        def call(operation: str, *words: Any) -> Any:
            def serve() -> Any:
                return _served(lambda: getattr(workflows, operation)(*words), "WorkflowError")

            return through(guest_workflows.SPACE, operation, guest_workflows.ERRORS, serve)

        async def call_async(operation: str, *words: Any) -> Any:
            return await in_executor(lambda: call(operation, *words))

        session: Any = self  # as far as those outside need one
        workflows = _Workflows(session)
        names.__dict__["artifacts"] = Artifacts(artifacts, OutsideArtifacts(session))
        names.__dict__["workflows"] = guest_workflows.Workflows(call, call_async, names)
        names.__dict__.update({**guest_artifacts.ERRORS, **guest_workflows.ERRORS})


def _served(work: Work, kind: str) -> Any:
    try:
        return work()
    except ArtifactNotFoundError as error:
        raise Failed("ArtifactNotFoundError", str(error)) from None
    except CellaError as error:
        raise Failed(kind, str(error)) from None


class Artifacts:
    """What outlives the session: `save`, `load`, `list`, `get`, `exists`, `delete`, `path`."""

    def __init__(self, through: Callable[[str, Work], Any], outside: OutsideArtifacts) -> None:
        self._through = through
        self._outside = outside

    def save(self, name: str, data: object, description: str = "", metadata: Any = None) -> Any:
        """Keep text, bytes or a JSON value under a name such as "reports/june.json"."""
        return self._through("save", lambda: self._outside.save(name, data, description, metadata))

    def load(self, name: str) -> Any:
        """The value as it was saved."""
        return self._through("load", lambda: self._outside.load(name))

    def list(self) -> Any:
        """Entries of all artifacts, by name."""
        return self._through("list", self._outside.list)

    def get(self, name: str) -> Any:
        """What is known of an artifact, without its content; None: there is none."""
        return self._through("get", lambda: self._outside.get(name))

    def exists(self, name: str) -> Any:
        return self._through("exists", lambda: self._outside.exists(name))

    def delete(self, name: str) -> Any:
        """False: there was none."""
        return self._through("delete", lambda: self._outside.delete(name))

    def path(self, name: str) -> Any:
        """The file itself."""
        return self._through("path", lambda: self._outside.path(name))

    def __repr__(self) -> str:
        return "<artifacts: save, load, list, get, exists, delete, path>"


class _Workflows:
    """The operations of the namespace, with answers as in runners/README.md."""

    def __init__(self, storage: Any) -> None:
        self._outside = OutsideWorkflows(storage)

    def create(self, name: str, source: str, description: str = "") -> Entry:
        return self._outside.create(name, source, description)

    def get(self, name: str) -> Any:
        return self._outside.get(name)

    def list(self) -> Mapping[str, Any]:
        return self._outside.answer()

    def search(self, query: str, limit: int = 10) -> Mapping[str, Any]:
        return self._outside.answer(query, limit)

    def delete(self, name: str) -> bool:
        return self._outside.delete(name)

    def source(self, name: str) -> Any:
        """To be run: without a jail only what a person has approved."""
        found = self._outside.get(name)
        if found is None:
            names = [each["name"] for each in self._outside.answer()["workflows"]]
            known = f"are: {', '.join(names)}" if names else "are none"
            raise Failed("WorkflowError", f"workflows.source: there is no workflow '{name:.64}'; there {known}")
        if not found.approved:
            raise Failed(
                "WorkflowError",
                f"workflows.source: code in a jail saved the workflow '{name}', and it was not approved to run without "
                f"one: read it, then 'cella workflows approve {name} --storage DIR'",
            )
        return found
