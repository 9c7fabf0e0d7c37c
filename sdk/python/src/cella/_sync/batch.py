# Made from _async/batch.py by tools/make_sync.py: change that one.
"""Many independent snippets at once, each in a jail of its own."""

from __future__ import annotations

import os
import sys

from cella._transport.blocking import call
from cella.errors import BatchError
from cella.progress import Bar
from cella.result import Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any, Callable, Optional, Union

    from cella._sync.client import Client
    from cella.config import Executor

    Snippet = Union[str, Mapping[str, Any]]
    OnProgress = Callable[[int, int, "BatchItem"], Union[None, None]]

# Of one request: the server takes no more snippets, and bodies of 64 MB.
_MOST_SNIPPETS = 10_000
_MOST_BYTES = 16 << 20
_MOST_AT_ONCE = 64


class BatchItem:
    """How one snippet ended. `result` is nothing only when it could not be run at all; `error` then says why."""

    __slots__ = ("error", "index", "passed", "result")

    def __init__(self, index: int, document: Mapping[str, Any]) -> None:
        self.index = index
        self.result: Optional[Result] = Result(document["result"]) if "result" in document else None
        self.passed: Optional[bool] = document.get("passed")
        self.error: Optional[str] = (document.get("error") or {}).get("message")

    @property
    def ok(self) -> bool:
        return self.result is not None and self.result.ok and self.passed is not False

    def __repr__(self) -> str:
        return f"<BatchItem {self.index} {self.result.status if self.result else self.error}>"


def _requests(snippets: list[dict[str, Any]]) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Portions that fit into one request, with the number of their first."""
    first, size = 0, 0
    for number, snippet in enumerate(snippets):
        length = sum(len(value) for value in snippet.values() if isinstance(value, str))
        if number > first and (number - first >= _MOST_SNIPPETS or size + length > _MOST_BYTES):
            yield first, snippets[first:number]
            first, size = number, 0
        size += length
    if first < len(snippets):
        yield first, snippets[first:]


def run_batch(
    snippets: Iterable[Snippet],
    *,
    concurrency: Optional[int] = None,
    executor: Optional[Executor] = None,
    url: Optional[str] = None,
    token: Optional[str] = None,
    client: Optional[Client] = None,
    on_progress: Optional[OnProgress] = None,
    progress: Optional[bool] = None,
) -> list[BatchItem]:
    """Runs snippets: texts of Python, or mappings with code, language, stdin, timeout and expected (its output).

    `on_progress(done, total, item)` is called as they end. A bar is drawn on a terminal; `progress` says otherwise.
    The items come in the order of the snippets.
    """
    wanted = [{"code": each} if isinstance(each, str) else dict(each) for each in snippets]
    at_once = max(1, min(concurrency if concurrency is not None else os.cpu_count() or 1, _MOST_AT_ONCE))
    local = client is None and url is None
    from cella._sync.client import Client, started_server
    from cella._sync.clients import shared_client

    server = started_server() if local else None

    if server is not None:
        client = shared_client(server)
    elif client is None:
        client = Client(url, token)
    if executor is not None:
        from cella.config import check_executor

        check_executor(executor)
    policy = executor.policy(local=client.is_local) if executor is not None else None
    items: list[Optional[BatchItem]] = [None] * len(wanted)
    done = 0
    with Bar(len(wanted), sys.stderr.isatty() if progress is None else progress) as bar:
        for first, portion in _requests(wanted):
            for document in client.batch(portion, policy=policy, concurrency=at_once):
                item = BatchItem(first + document["index"], document)
                items[item.index] = item
                done += 1
                bar.show(done)
                if on_progress is not None:
                    call(on_progress, done, len(wanted), item)
    finished = [item for item in items if item is not None]
    if len(finished) != len(items):
        raise BatchError(f"the server ended the batch after {len(finished)} of {len(items)} snippets")
    return finished
