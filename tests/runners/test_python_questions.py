"""Completion, inspection and completeness in the Python runner."""

import pytest

from python_runner import runner  # noqa: F401


def complete(runner, code, cursor=None):
    return runner.ask({"type": "complete", "code": code, "cursor": len(code) if cursor is None else cursor})


def inspect(runner, code, cursor=None):
    return runner.ask({"type": "inspect", "code": code, "cursor": len(code) if cursor is None else cursor})


def test_names_and_attributes_are_completed(runner):
    runner.run("import os\nvariable_one = 1; variable_two = 'x'")
    answer = complete(runner, "print(vari")
    assert (answer["matches"], answer["start"], answer["end"]) == (["variable_one", "variable_two"], 6, 10)
    assert "getcwd" in complete(runner, "os.get")["matches"]
    answer = complete(runner, "x = os.path.joi + 1", 15)
    assert (answer["matches"], answer["start"], answer["end"]) == (["join"], 12, 15)
    assert "upper" in complete(runner, "variable_two.")["matches"]
    assert "__class__" not in complete(runner, "variable_two.")["matches"]
    assert "__class__" in complete(runner, "variable_two.__")["matches"]
    assert "while" in complete(runner, "whi")["matches"] and "print" in complete(runner, "pri")["matches"]
    assert complete(runner, "nothing.")["matches"] == [] and complete(runner, "f().x")["matches"] == []
    assert complete(runner, "")["start"] == 0


def test_completion_does_not_run_properties(runner):
    runner.run(
        "ran = []\nclass A:\n    plain = 'text'\n    @property\n    def p(self): ran.append(1); return 'text'\n"
        "    def __getattr__(self, name): ran.append(name); return 1\na = A()"
    )
    assert complete(runner, "a.p.up")["matches"] == []
    assert complete(runner, "a.missing.re")["matches"] == []
    assert complete(runner, "a.plain.upp")["matches"] == ["upper"]
    inspect(runner, "a.p")
    assert runner.run("ran").value == "[]"


def test_completion_tolerates_a_failing_dir_method(runner):
    runner.run("class A:\n    def __dir__(self): raise SystemError\na = A()")
    assert complete(runner, "a.")["matches"] == []


def test_inspect_returns_signature_and_documentation(runner):
    runner.run("def area(width: int, height=2):\n    '''The area.'''\nx = [1, 2]")
    text = inspect(runner, "area")["text"]
    assert "area(width: int, height=2)" in text and "The area." in text and "Type: function" in text
    assert inspect(runner, "area(")["text"] == text
    assert inspect(runner, "1 + area", 6)["text"] == text
    assert "Value: [1, 2]" in inspect(runner, "x")["text"]
    assert inspect(runner, "nothing") == {"type": "inspection", "found": False, "text": ""}
    assert inspect(runner, "")["found"] is False
    assert "Return a string" in inspect(runner, "ascii")["text"] or inspect(runner, "ascii")["found"]


@pytest.mark.parametrize(
    "code, status",
    [
        ("x = 1", "complete"),
        ("for x in y:", "incomplete"),
        ("def f():\n    return 1", "incomplete"),
        ("def f():\n    return 1\n", "complete"),
        ("(1,", "incomplete"),
        ("'''text", "incomplete"),
        ("x = = 1", "invalid"),
        ("await f()", "complete"),
        ("!ls", "complete"),
        ("%%bash\nls 'x", "complete"),
        ("", "complete"),
        ("x = '", "invalid"),
    ],
)
def test_is_complete_classifies_code(runner, code, status):
    assert runner.ask({"type": "is_complete", "code": code}) == {"type": "completeness", "status": status}


def test_unknown_requests_are_ignored(runner):
    runner.send({"type": "something_new", "x": 1})
    runner.send({"type": "input_reply", "text": "late"})
    assert runner.run("1").value == "1"
