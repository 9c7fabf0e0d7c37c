"""The table of threats in SECURITY.md: each row names a test that exists."""

import pathlib
import re

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
ROOTS = [REPOSITORY, REPOSITORY / "tests", REPOSITORY / "src"]


def rows():
    text = (REPOSITORY / "SECURITY.md").read_text()
    table = text[text.index("| threat | defence | test |") :].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def find(name):
    return next((root / name for root in ROOTS if (root / name).is_file()), None)


def problems(cell):
    """What of the third column is not there: files, and in the file before them names (until an ellipsis)."""
    source = ""
    for word in re.findall(r"`([^`]+)`", cell):
        if "/" in word:
            path = find(word)
            source = path.read_text() if path else ""
            if path is None:
                yield f"no file {word}"
        elif word.removesuffix("…") not in source:
            yield f"no {word}"


def test_each_threat_names_a_defence_and_an_existing_test():
    table = rows()
    assert len(table) > 40
    for row in table:
        assert len(row) == 3 and all(row), row
        found = list(problems(row[2]))
        assert "/" in row[2], row
        assert not found, (row[0], found)


def test_missing_tests_are_found():
    assert list(problems("`security/test_none.py`")) == ["no file security/test_none.py"]
    assert list(problems("`security/test_keys.py`: `test_none…`")) == ["no test_none…"]
