"""What a server keeps of a run beyond its Result."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Union

    from cella._async.port import Port
    from cella.result import Result


async def read_output(client: Port, session: str, result: Union[Result, str], stream: str) -> bytes:
    run = result if isinstance(result, str) else result.id
    parts: list[bytes] = []
    size = 0
    while True:
        part = await client.output(session, run, stream, size)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
