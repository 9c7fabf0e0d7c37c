#!/usr/bin/env python3
"""Makes cella/_sync from cella/_async: the same code without its awaits. `--check` changes nothing."""

import argparse
import pathlib
import re
import sys

PACKAGE = pathlib.Path(__file__).resolve().parents[1] / "src" / "cella"
HEADER = "# Made from {source} by tools/make_sync.py: change that one.\n"

RULES = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\basync (def|with|for)\b", r"\1"),
        (r"\bawait ", ""),
        (r"\bAwaitable\[([^\]]+)\]", r"\1"),
        (r"\bAsyncIterator\b", "Iterator"),
        (r"\bAsyncGenerator\b", "Generator"),
        (r"\bStopAsyncIteration\b", "StopIteration"),
        (r"\b__aenter__\b", "__enter__"),
        (r"\b__aexit__\b", "__exit__"),
        (r"\b__aiter__\b", "__iter__"),
        (r"\b__anext__\b", "__next__"),
        (r"\baclose\b", "close"),
        (r"cella\._transport\.aio\b", "cella._transport.blocking"),
        (r"cella\._transport\.aio_calls\b", "cella._transport.blocking_calls"),
        (r"cella\._async\b", "cella._sync"),
        (r"cella import Session", "cella.sync import Session"),
    )
]


def make(text, source):
    for pattern, replacement in RULES:
        text = pattern.sub(replacement, text)
    # An import that only the asynchronous form needs would be an unused name.
    text = re.sub(r" *from collections\.abc import (.*)\n", lambda found: _without_awaitable(found[0], found[1]), text)
    return HEADER.format(source=source) + text


def _without_awaitable(line, names):
    left = sorted({name.strip() for name in names.split(",")} - {"Awaitable"})
    return line.replace(names, ", ".join(left)) if left else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if anything would change")
    options = parser.parse_args()
    stale = []
    (PACKAGE / "_sync").mkdir(exist_ok=True)
    wanted = {path.name for path in (PACKAGE / "_async").glob("*.py")}
    for path in sorted((PACKAGE / "_async").glob("*.py")):
        made = make(path.read_text(), f"_async/{path.name}")
        to = PACKAGE / "_sync" / path.name
        if not to.exists() or to.read_text() != made:
            stale.append(to)
            if not options.check:
                to.write_text(made)
    extra = [path for path in (PACKAGE / "_sync").glob("*.py") if path.name not in wanted]
    stale += extra
    for path in extra:
        if not options.check:
            path.unlink()
    for path in stale:
        print(f"{'stale' if options.check else 'made'}: {path.relative_to(PACKAGE)}")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
