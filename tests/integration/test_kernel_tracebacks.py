"""The traceback of an error equals nbclient's, from the same cells in the same ipykernel."""

import json
import re
import subprocess

import pytest
from support.needs import require

pytestmark = pytest.mark.needs("jupyter")

CELLS = {
    "syntax error": "x = (1,\ny = 2",
    "indentation error": "if True:\nprint(1)",
    "one line": "1 / 0",
    "functions of an earlier cell": "def inner(x):\n    return {}[x]\n\ndef outer(x):\n    return inner(x + 1)",
    "nested": "value = 6\nouter(value)",
    "chained by raise from": (
        "def read():\n    try:\n        outer(1)\n    except KeyError as error:\n"
        "        raise ValueError('no such key') from error\n\nread()"
    ),
    "chained by an error in a handler": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    undefined_name",
    "context suppressed": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise RuntimeError('alone') from None",
    "standard library": "import json\njson.loads('{')",
    "own class with text of several lines": "class Wrong(Exception):\n    pass\nraise Wrong('first\\nsecond')",
    "text in other scripts": "raise ValueError('naïve 日本語 \U0001f600')",
    "text with the colours of a terminal": r"raise ValueError('\x1b[31mred\x1b[0m plain')",
    "recursion": "def again(n):\n    return again(n - 1) if n else n / 0\nagain(20)",
    "group": "raise ExceptionGroup('both', [ValueError(1), KeyError('x')])",
    "magic": "%no_such_magic",
    "assertion": "assert 1 == 2, 'no'",
    "awaited": "async def fail():\n    raise OSError(2, 'gone')\nawait fail()",
}

# Of each cell: the traceback, name and message of nbclient's CellExecutionError; null for one without an error.
NBCLIENT = """
import json, sys, nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
cells = json.load(sys.stdin)
errors = [None] * len(cells)

def note(cell, cell_index, execute_reply):
    error = CellExecutionError.from_cell_and_msg(cell, execute_reply["content"])
    errors[cell_index] = [execute_reply["content"]["traceback"], error.ename, error.evalue, error.traceback]

notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
NotebookClient(notebook, kernel_name="python3", timeout=60, allow_errors=True, on_cell_error=note).execute()
print(json.dumps(errors))
"""


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_traceback_equals_that_of_nbclient(open_session):
    python = require("jupyter")["JUPYTER_PYTHON"]
    cells = list(CELLS.values())
    made = subprocess.run([python, "-c", NBCLIENT], input=json.dumps(cells), capture_output=True, text=True, timeout=120)
    assert made.returncode == 0, made.stderr
    expected = json.loads(made.stdout)
    assert len(expected) == len(cells)
    assert [name for name, each in zip(CELLS, expected) if each is None] == ["functions of an earlier cell"]
    session = open_session("--executor", "subprocess", "--system-packages", python=python)
    for (name, code), wanted in zip(CELLS.items(), expected):
        error = session.run(code)["error"]
        if wanted is None:
            assert error is None, name
            continue
        lines, kind, message, text = wanted
        assert error["traceback"] == plain("\n".join(lines)), name
        assert error["traceback"] in plain(text), name
        assert error["name"] == kind, name
        assert error["message"] == message, name
