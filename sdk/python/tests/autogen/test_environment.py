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
def test_local_executor_passes_the_callers_variables(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_VARIABLE", "it's \"quoted\" $HOME\nü")
    monkeypatch.delenv("LANG", raising=False)
    variables = seen(lab)
    # The interpreter's shell and Python itself may add what they like to add.
    added = {"PYTHONUNBUFFERED", "PWD", "LC_CTYPE", "SHLVL", "_"}
    assert {name: value for name, value in variables.items() if name not in added} == {
        name: value for name, value in os.environ.items() if name not in added
    }


@pytest.mark.parametrize("lab", ["autogen", "local"], indirect=True)
def test_changed_variable_of_the_caller_reaches_the_next_call(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("one", "two"):
        monkeypatch.setenv("A_VARIABLE", value)
        assert lab.python("import os\nprint(os.environ['A_VARIABLE'])").output == f"{value}\n"


def test_env_option_replaces_the_callers_variables(local: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "precious")
    variables = seen(local, env={"NAMED": "value"})
    assert variables.pop("NAMED") == "value"
    assert set(variables) <= {"PATH", "PYTHONUNBUFFERED", "PWD", "LC_CTYPE"}


def test_sandbox_passes_only_named_variables(sandbox: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "precious")
    variables = seen(sandbox, env={"NAMED": "value"})
    assert variables["NAMED"] == "value" and variables["HOME"] == "/tmp"
    assert "precious" not in variables.values()


def test_too_many_variables_for_the_jail_are_an_error_that_names_the_remedy(sandbox: Lab) -> None:
    with pytest.raises(ValueError, match="name what the code needs with env="):
        sandbox.python("print(1)", env={f"SERVICE_{number}": "x" for number in range(300)})


def test_exported_bash_functions_are_ignored(local: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASH_FUNC_which%%", "() { :; }")
    assert local.python("print(1)").output == "1\n"


def test_hundreds_of_variables_reach_the_code(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    if lab.kind == "sandbox":
        pytest.skip("the jail passes what is named")
    for number in range(600):
        monkeypatch.setenv(f"MANY_{number}", f"it's {number} " + "v" * 200)
    code = "import os; print(len([n for n in os.environ if n.startswith('MANY_')]), os.environ['MANY_7'][:6])"
    result = lab.python(code)
    assert (result.exit_code, result.output.strip()) == (0, "600 it's 7")
