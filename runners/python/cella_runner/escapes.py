"""Turns `!command`, `%magic` and `%%magic` lines into Python calls; asked only for cells that are not Python already.

Line numbers stay, so that tracebacks point at what was written. A line counts only where a statement may begin: not
inside brackets or strings, and not after a backslash.
"""

import re

_ASSIGNED = re.compile(r"(\s*)([A-Za-z_][\w\s.,\[\]'\"]*?)\s*=\s*([!%])\s*(?=\S)")
_OPENING, _CLOSING = "([{", ")]}"


class _Scanner:
    """Follows Python text line by line: is the next line the start of a statement?"""

    def __init__(self):
        self._depth = 0
        self._quote = None  # the triple quote that is open
        self._continued = False

    def at_statement(self) -> bool:
        return self._depth == 0 and self._quote is None and not self._continued

    def feed(self, line: str):
        self._continued = False
        index = 0
        while index < len(line):
            char = line[index]
            if self._quote is not None:
                if char == "\\":
                    index += 1
                elif line.startswith(self._quote, index):
                    index += 2
                    self._quote = None
            elif char == "#":
                return
            elif char in "'\"":
                if line.startswith(char * 3, index):
                    self._quote = char * 3
                    index += 2
                else:
                    index = _end_of_string(line, index)
            elif char in _OPENING:
                self._depth += 1
            elif char in _CLOSING:
                self._depth = max(self._depth - 1, 0)
            elif char == "\\" and index == len(line) - 1:
                self._continued = True
            index += 1


def _end_of_string(line: str, index: int) -> int:
    quote = line[index]
    index += 1
    while index < len(line) and line[index] != quote:
        index += 2 if line[index] == "\\" else 1
    return index


def _call(kind: str, text: str) -> str:
    if kind == "!":
        return "__cella__.system(%r)" % text.lstrip("!").strip()
    name, _, rest = text.strip().partition(" ")
    return "__cella__.magic(%r, %r)" % (name, rest.strip())


def _assigned(kind: str, text: str) -> str:
    return "__cella__.capture(%r)" % text.strip() if kind == "!" else _call(kind, text)


def _replacement(line: str):
    """The Python for a line with an escape, or None."""
    bare = line.lstrip()
    indent = line[: len(line) - len(bare)]
    if bare[:1] == "!" and bare[1:].strip():
        return indent + _call("!", bare[1:])
    if bare[:1] == "%" and bare[1:2].isalpha():
        return indent + _call("%", bare[1:])
    match = _ASSIGNED.match(line)
    if match:
        return "%s%s = %s" % (match.group(1), match.group(2), _assigned(match.group(3), line[match.end() :]))
    return None


def transform(code: str) -> str:
    lines = code.split("\n")
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    if lines[first].startswith("%%"):
        name, _, rest = lines[first][2:].strip().partition(" ")
        body = "\n".join(lines[first + 1 :])
        return "\n" * first + "__cella__.cell_magic(%r, %r, %r)" % (name, rest.strip(), body)
    result, scanner, index = [], _Scanner(), 0
    while index < len(lines):
        line, taken = lines[index], 1
        replacement = None
        if scanner.at_statement():
            while line.endswith("\\") and index + taken < len(lines) and _replacement(line) is not None:
                line = line[:-1] + lines[index + taken]
                taken += 1
            replacement = _replacement(line)
        if replacement is None:
            scanner.feed(lines[index])
            result.append(lines[index])
            index += 1
        else:
            result.append(replacement + "\n" * (taken - 1))
            index += taken
    return "\n".join(result)
