"""A plain bar for a terminal."""

from __future__ import annotations

import sys
import time

_WIDTH = 30
_EVERY = 0.1


class Bar:
    """Drawn on standard error, a few times a second at most. Leaves nothing behind but its last state."""

    def __init__(self, total: int, shown: bool) -> None:
        self._total = total
        self._shown = shown and total > 0
        self._start = time.monotonic()
        self._last = 0.0

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *ignored: object) -> None:
        if self._shown and self._last:
            print(file=sys.stderr)

    def show(self, done: int) -> None:
        now = time.monotonic()
        if not self._shown or (now - self._last < _EVERY and done < self._total):
            return
        self._last = now
        full = _WIDTH * done // self._total
        rate = done / max(now - self._start, 1e-6)
        line = f"\r{'#' * full}{'.' * (_WIDTH - full)} {done}/{self._total}, {rate:.0f}/s "
        print(line, end="", file=sys.stderr, flush=True)
