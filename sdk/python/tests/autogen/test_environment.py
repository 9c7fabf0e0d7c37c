"""Which variables the code sees."""

from __future__ import annotations

import os

import pytest
from lab import Lab

SHOW = "import json, os\nprint(json.dumps(dict(os.environ), sort_keys=True))"


def seen(lab: Lab, **options: object) -> dict[str, str]:
    import json

    result = lab.python(SHOW, **options)
    assert result.exit_code == 0, result.output
    variables: dict[str, str] = json.loads(result.output)
    return variables


@pytest.mark.parametrize("lab", ["autogen", "local"], indirect=True)
def test_on_the_machine_itself_those_of_the_caller(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_VARIABLE", "it's \"quoted\" $HOME\nü")
    monkeypatch.delenv("LANG", raising=False)
    variables = seen(lab)
    # The interpreter's shell and Python itself may add what they like to add.
    added = {"PYTHONUNBUFFERED", "PWD", "LC_CTYPE", "SHLVL", "_"}
    assert {name: value for name, value in variables.items() if name not in added} == {
        name: value for name, value in os.environ.items() if name not in added
    }


@pytest.mark.parametrize("lab", ["autogen", "local"], indirect=True)
def test_what_the_caller_changes_is_seen_by_the_next_call(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("one", "two"):
        monkeypatch.setenv("A_VARIABLE", value)
        assert lab.python("import os\nprint(os.environ['A_VARIABLE'])").output == f"{value}\n"


def test_or_exactly_those_that_are_named(local: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "precious")
    variables = seen(local, env={"NAMED": "value"})
    assert variables.pop("NAMED") == "value"
    assert set(variables) <= {"PATH", "PYTHONUNBUFFERED", "PWD", "LC_CTYPE"}


def test_in_the_jail_only_those_that_are_named(sandbox: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "precious")
    variables = seen(sandbox, env={"NAMED": "value"})
    assert variables["NAMED"] == "value" and variables["HOME"] == "/tmp"
    assert "precious" not in variables.values()


def test_an_environment_that_is_too_large_is_told_with_the_remedy(local: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(300):
        monkeypatch.setenv(f"SERVICE_{number}", "x")
    with pytest.raises(ValueError, match="name what the code needs with env="):
        local.python("print(1)")
    assert local.python("print(1)", env={"PATH": os.environ["PATH"]}).output == "1\n"


def test_exported_functions_of_bash_are_no_trouble(local: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASH_FUNC_which%%", "() { :; }")
    assert local.python("print(1)").output == "1\n"
