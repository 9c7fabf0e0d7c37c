# Made from _async/storage.py by tools/make_sync.py: change that one.
"""The artifacts and workflows of a session's storage, with the words that its code has for them."""

from __future__ import annotations

import json

from cella.errors import ArtifactError, ArtifactNotFoundError, WorkflowError
from cella.storage import Entry, decode, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Optional

    from cella._sync.session import Session

    Entries = list[Entry]


def _named(name: object) -> str:
    """A name that a path of the API can have; the server checks the rest."""
    sound = isinstance(name, str) and name.isprintable()
    if not isinstance(name, str) or not sound or any(part in ("", ".", "..") for part in name.split("/")):
        why = "must be a relative path without '..', such as 'reports/june.json'"
        raise ArtifactError(400, "artifact_failed", f"{name!r} is not the name of an artifact: {why}")
    return name


def _identifier(name: object) -> str:
    if not isinstance(name, str) or not name.isidentifier():
        raise WorkflowError(400, "workflow_failed", f"{name!r} is not the name of a workflow: must be an identifier")
    return name


class Artifacts:
    """Text, bytes and JSON values that outlive the session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def save(
        self, name: str, data: object, description: str = "", metadata: Optional[Mapping[str, Any]] = None
    ) -> Entry:
        """Keeps text, bytes or a JSON value under a name such as `reports/june.json`."""
        try:
            if not isinstance(description, str):
                raise TypeError(f"description: must be text, not {type(description).__name__}")
            kind, content = encode(data)
            details = None if metadata is None else json.dumps(dict(metadata), allow_nan=False, ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise ArtifactError(400, "artifact_failed", f"artifacts.save: {error}") from None
        client, session = self._session.opened()
        asked = {"kind": kind, "description": description or None, "metadata": details}
        return Entry(client.put_artifact(session, _named(name), content, asked))

    def load(self, name: str) -> Any:
        """The value as it was saved."""
        client, session = self._session.opened()
        kind, content = client.get_artifact(session, _named(name))
        return decode(kind, content)

    def list(self) -> Entries:
        """All of them, by name."""
        client, session = self._session.opened()
        entries: Entries = []
        after = None
        while True:
            page = client.storage(session, "GET", "artifacts", None, {"after": after})
            entries += map(Entry, page["artifacts"])
            after = page["next"]
            if after is None:
                return entries

    def get(self, name: str) -> Optional[Entry]:
        """What is known of an artifact, without its content."""
        client, session = self._session.opened()
        try:
            return Entry(client.storage(session, "GET", "artifacts", _named(name), {"info": "true"}))
        except ArtifactNotFoundError:
            return None

    def exists(self, name: str) -> bool:
        return self.get(name) is not None

    def delete(self, name: str) -> bool:
        """Whether it was there."""
        client, session = self._session.opened()
        try:
            client.storage(session, "DELETE", "artifacts", _named(name))
        except ArtifactNotFoundError:
            return False
        return True

    def path(self, name: str) -> str:
        """A file with the content: the artifact itself where this process shares the file system of the storage, which
        is to be read only; else a copy in the workspace, as the code names it."""
        client, session = self._session.opened()
        answer = client.storage(session, "GET", "artifacts", _named(name), {"path": "true"})
        return str(answer["path"]) if "path" in answer else f"/workspace/{answer['file']}"


class Workflows:
    """Programs with an `def run`, which outlive the session and run in it."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def create(self, name: str, source: str, description: str = "") -> Entry:
        """Keeps a source. What does not parse, or has no `def run`, is not stored."""
        client, session = self._session.opened()
        if not isinstance(source, str) or not isinstance(description, str):
            raise WorkflowError(400, "workflow_failed", "workflows.create: source and description: must be text")
        document = {"source": source, "description": description}
        return Entry(client.storage(session, "PUT", "workflows", _identifier(name), None, document))

    def get(self, name: str) -> Optional[Entry]:
        """The entry with its `source`."""
        client, session = self._session.opened()
        try:
            return Entry(client.storage(session, "GET", "workflows", _identifier(name)))
        except WorkflowError as error:
            if error.status == 404:
                return None
            raise

    def list(self) -> Entries:
        """All of them, by name. A file that is no workflow is left out with a warning."""
        return _entries(self.answer())

    def search(self, query: str, limit: int = 10) -> Entries:
        """Those with any of the words, the best first."""
        return _entries(self.answer(query, limit))

    def answer(self, query: Optional[str] = None, limit: Optional[int] = None) -> dict[str, Any]:
        """`workflows`, and the files that were `left_out`, as over HTTP."""
        client, session = self._session.opened()
        answer: dict[str, Any] = client.storage(
            session, "GET", "workflows", None, {"query": query, "limit": limit}
        )
        return answer

    def delete(self, name: str) -> bool:
        """Whether it was there."""
        client, session = self._session.opened()
        try:
            client.storage(session, "DELETE", "workflows", _identifier(name))
        except WorkflowError as error:
            if error.status == 404:
                return False
            raise
        return True

    def invoke(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Runs a workflow in the session. Arguments and value are JSON values."""
        import ast

        try:
            sent = json.dumps([name, list(args), kwargs], allow_nan=False)
        except (TypeError, ValueError) as error:
            raise WorkflowError(400, "workflow_failed", f"workflows.invoke: {error}: pass JSON values") from None
        code = (
            f"(lambda json, sent: json.dumps(workflows.invoke(sent[0], *sent[1], **sent[2])))"
            f"(__import__('json'), __import__('json').loads({sent!r}))"
        )
        result = self._session.run(code)
        if result.error is not None or result.value is None:
            why = result.error.message if result.error is not None else f"the run ended with {result.status}"
            kind = result.error.name if result.error is not None else ""
            raise WorkflowError(409, "workflow_failed", f"{name}: {kind}: {why}" if kind else f"{name}: {why}")
        try:
            return json.loads(ast.literal_eval(result.value))
        except (SyntaxError, ValueError):
            raise WorkflowError(413, "workflow_failed", f"{name}: its value is too large: save an artifact") from None


def _entries(answer: Mapping[str, Any]) -> Entries:
    if answer["left_out"]:
        import warnings

        for each in answer["left_out"]:
            warnings.warn(f"workflows: {each['file']} was left out: {each['why']}", stacklevel=3)
    return [Entry(each) for each in answer["workflows"]]
