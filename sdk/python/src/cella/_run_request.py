"""The document that asks for a run."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Optional, Union

# Beyond the time that a run may take.
_SHORT = 3.0


def new_run_id() -> str:
    """With an id of its own a run can be stopped while its answer is awaited."""
    return "run_" + os.urandom(16).hex()


def has_other_threads() -> bool:
    """Which may run code in the same session."""
    threads = sys.modules.get("threading")
    return threads is not None and threads.active_count() > 1


def patience_for(timeout: object, otherwise: float) -> float:
    """The end of a run that says how long it may take is due soon after that time."""
    if isinstance(timeout, (int, float)) and 0 < timeout < otherwise:
        return timeout + _SHORT
    return otherwise


def run_request(
    code: Optional[str],
    language: Optional[str],
    blocks: Optional[Sequence[Mapping[str, str]]],
    timeout: Union[float, str, None],
    stdin: Optional[str],
    variables: Optional[Mapping[str, object]] = None,
) -> dict[str, Any]:
    if (code is None) == (blocks is None):
        raise ValueError("either code or blocks is needed")
    request: dict[str, Any] = {"code": code} if blocks is None else {"blocks": [dict(block) for block in blocks]}
    for key, value in (("language", language), ("timeout", timeout), ("stdin", stdin)):
        if value is not None:
            request[key] = value
    if variables:
        from cella._values import encode_all

        request["variables"] = encode_all(variables)
    return request
