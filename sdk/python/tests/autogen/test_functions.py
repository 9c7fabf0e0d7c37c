"""Functions of the user, importable from the code."""

from __future__ import annotations

import asyncio
import pathlib
from typing import Any

import pytest
import user_functions
from autogen_core.code_executor import FunctionWithRequirements
from lab import Lab, execute


def call(lab: Lab, functions: list[Any], code: str, **options: Any) -> Any:
    return lab.python(code, functions=functions, **options)


def test_function_can_be_imported(lab: Lab) -> None:
    result = call(lab, [user_functions.add], "from functions import add\nprint(add(40, 2))")
    assert (result.exit_code, result.output) == (0, "42\n")


def test_function_from_text_can_be_imported(lab: Lab) -> None:
    result = call(lab, [user_functions.from_text], "from functions import shout\nprint(shout('loud'))")
    assert (result.exit_code, result.output) == (0, "LOUD\n")


def test_global_imports_work_in_all_forms(lab: Lab) -> None:
    code = "from functions import needs_imports\nprint(needs_imports(2.5))"
    result = call(lab, [user_functions.needs_imports], code)
    assert (result.exit_code, result.output) == (0, '[2, "a/b", "/"]\n')


def test_functions_module_option_names_the_module(lab: Lab) -> None:
    code = "from tools import add, shout\nprint(add(1, 2), shout('x'))"
    result = call(lab, [user_functions.add, user_functions.from_text], code, functions_module="tools")
    assert (result.exit_code, result.output) == (0, "3 X\n")
    assert "tools.py" in lab.files()


def test_the_module_stays_in_the_working_directory(lab: Lab) -> None:
    call(lab, [user_functions.add], "print(1)")
    assert lab.files() == ["functions.py"]
    assert "def add(a: int, b: int) -> int:" in (lab.work_dir / "functions.py").read_text()


def test_output_of_importing_functions_is_not_in_the_result(lab: Lab) -> None:
    loud = FunctionWithRequirements.from_str("def f():\n    pass\nprint('at import')")
    result = call(lab, [loud], "print('code')")
    assert (result.exit_code, result.output) == (0, "code\n")


def test_module_that_fails_to_load_is_an_error(lab: Lab) -> None:
    with pytest.raises(ValueError, match=r"(?s)Functions failed to load: .*a_module_that_nobody_has"):
        call(lab, [user_functions.fails_to_load], "print(1)")


def test_error_inside_a_function_is_an_error_of_the_code(lab: Lab) -> None:
    result = call(lab, [user_functions.broken_at_import], "from functions import broken_at_import\nbroken_at_import()")
    assert result.exit_code == 1 and "NameError" in result.output


def test_failed_package_installation_is_an_error(lab: Lab) -> None:
    wants = FunctionWithRequirements.from_callable(user_functions.add, python_packages=["./no-such-package-dir"])
    with pytest.raises(ValueError, match="Pip install failed"):
        lab.python("print(1)", functions=[_named(wants)], timeout=60)


def test_package_is_installed_into_the_virtual_environment(lab: Lab, tmp_path: pathlib.Path) -> None:
    context = _environment(tmp_path / "venv")
    _write_package(lab.work_dir / "pkg", "cella_probe_a")
    wants = _named(FunctionWithRequirements.from_callable(user_functions.add, python_packages=[f"{lab.seen_dir}/pkg"]))
    result = lab.python(
        "import cella_probe_a\nprint(cella_probe_a.answer)", functions=[wants], virtual_env_context=context, timeout=120
    )
    assert (result.exit_code, result.output) == (0, "42\n"), result.output


def test_prompt_lists_functions(lab: Lab) -> None:
    executor = lab.make(functions=[user_functions.add, user_functions.from_text], functions_module="tools")
    assert executor.format_functions_for_prompt() == (
        "You have access to the following user defined functions. They can be accessed from the module called `tools` "
        "by their function names.\n\nFor example, if there was a function called `foo` you could import it by writing "
        "`from tools import foo`\n\n"
        "def add(a: 'int', b: 'int') -> 'int':\n    \"\"\"Add two numbers.\"\"\"\n    ...\n\n"
        'def shout(text: str) -> str:\n    """Make it loud."""\n    ...'
    )


def test_prompt_uses_the_given_template(lab: Lab) -> None:
    executor = lab.make(functions=[user_functions.no_words])
    prompt = executor.format_functions_for_prompt("M=$module_name\n$functions")
    assert prompt == "M=functions\ndef no_words(x, *rest, key=None):\n    ..."


def test_prompt_without_functions_is_empty(lab: Lab) -> None:
    assert lab.make().format_functions_for_prompt("<$functions>") == "<>"


@pytest.mark.parametrize("name", ["not an identifier", "", "a.b", "../x", "1st"])
def test_rejects_module_name_that_is_not_an_identifier(lab: Lab, name: str) -> None:
    with pytest.raises(ValueError, match="Module name must be a valid Python identifier"):
        lab.make(functions_module=name)


# From here on: what AutoGen's own executor fails at.


def test_decorators_of_any_form_are_removed(ours: Lab) -> None:
    code = "from functions import decorated\nprint(decorated(1))"
    assert call(ours, [user_functions.decorated], code).output == "2\n"


def test_nested_function_can_be_used(ours: Lab) -> None:
    code = "from functions import nested\nprint(nested(21))"
    assert call(ours, [user_functions.make_nested()], code).output == "42\n"


def test_function_made_from_a_callable_works(ours: Lab) -> None:
    code = "from functions import add\nprint(add(1, 2))"
    assert call(ours, [user_functions.from_callable], code).output == "3\n"
    assert "def add(" in ours.make(functions=[user_functions.from_callable]).format_functions_for_prompt()


def test_packages_of_a_function_from_text_are_installed(ours: Lab, tmp_path: pathlib.Path) -> None:
    _write_package(ours.work_dir / "pkg", "cella_probe_b")
    wants = FunctionWithRequirements.from_str(
        "def f() -> int:\n    return cella_probe_b.answer",
        python_packages=[f"{ours.seen_dir}/pkg"],
        global_imports=["cella_probe_b"],
    )
    result = call(
        ours, [wants], "from functions import f\nprint(f())",
        virtual_env_context=_environment(tmp_path / "venv"), timeout=120,
    )  # fmt: skip
    assert (result.exit_code, result.output) == (0, "42\n"), result.output


def test_load_failure_is_reported_until_it_is_fixed(ours: Lab) -> None:
    async def go() -> None:
        async with ours.make(functions=[user_functions.fails_to_load]) as executor:
            for _ in range(2):
                with pytest.raises(ValueError, match="Functions failed to load"):
                    await execute(executor, ("python", "print(1)"))
            (ours.work_dir / "a_module_that_nobody_has.py").touch()
            assert (await execute(executor, ("python", "print(1)"))).output == "1\n"

    asyncio.run(go())


def _named(wants: FunctionWithRequirements[Any, Any]) -> Any:
    """As with_requirements makes them; AutoGen reads the source through this."""
    import functools

    functools.update_wrapper(wants, wants.func)
    return wants


def _environment(path: pathlib.Path) -> Any:
    import venv

    builder = venv.EnvBuilder(with_pip=True, system_site_packages=False)
    builder.create(path)
    return builder.ensure_directories(path)


def _write_package(path: pathlib.Path, name: str) -> None:
    """One that pip installs without any index: its build backend is in its own tree."""
    path.mkdir()
    (path / "pyproject.toml").write_text(
        "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
    )
    (path / "backend.py").write_text(
        f"""
import os, zipfile

def build_wheel(directory, config_settings=None, metadata_directory=None):
    wheel = "{name}-1-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(directory, wheel), "w") as file:
        file.writestr("{name}.py", "answer = 42\\n")
        info = "{name}-1.dist-info"
        file.writestr(info + "/METADATA", "Metadata-Version: 2.1\\nName: {name}\\nVersion: 1\\n")
        file.writestr(info + "/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        file.writestr(info + "/RECORD", "")
    return wheel
"""
    )
