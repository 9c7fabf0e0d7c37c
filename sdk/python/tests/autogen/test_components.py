"""Executors and the tool as AutoGen components: written down, and made again from what was written."""

from __future__ import annotations

import asyncio
import json
import pathlib
import venv
import warnings
from typing import Any

import pytest
from autogen_core import ComponentModel
from autogen_core.code_executor import CodeExecutor
from autogen_ext.tools.code_execution import PythonCodeExecutionTool as AutoGensTool
from lab import OURS, Lab

from cella.autogen import PythonCodeExecutionTool


def through_json(model: ComponentModel) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(model.model_dump_json())
    return document


def load(document: dict[str, Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return CodeExecutor.load_component(document)


def test_every_option_round_trips(lab: Lab) -> None:
    executor = lab.make(timeout=7, functions_module="tools", cleanup_temp_files=False)
    loaded = load(through_json(executor.dump_component()))
    assert type(loaded) is lab.type
    assert (loaded.timeout, loaded.work_dir) == (7, lab.work_dir)
    assert (loaded.functions_module, loaded.cleanup_temp_files) == ("tools", False)


def test_component_has_the_documented_form(lab: Lab) -> None:
    model = lab.make(timeout=7).dump_component()
    assert (model.component_type, model.version, model.component_version) == ("code_executor", 1, 1)
    assert model.label == lab.type.__name__ and model.provider.endswith(f".{lab.type.__name__}")
    assert (model.config["timeout"], model.config["work_dir"]) == (7, str(lab.work_dir))
    assert (model.config["functions_module"], model.config["cleanup_temp_files"]) == ("functions", True)


@pytest.mark.parametrize("ours", OURS, indirect=True)
def test_component_of_autogen_loads(ours: Lab) -> None:
    document = through_json(Lab("autogen", ours.work_dir).make(timeout=9).dump_component())
    document["provider"] = f"cella.autogen.{ours.type.__name__}"
    loaded = load(document)
    assert (type(loaded), loaded.timeout, loaded.work_dir) == (ours.type, 9, ours.work_dir)


def test_component_of_ours_loads_in_autogen(local: Lab) -> None:
    document = through_json(local.make(timeout=9).dump_component())
    document["provider"] = "autogen_ext.code_executors.local.LocalCommandLineCodeExecutor"
    assert load(document).timeout == 9


def test_rejects_invalid_option(lab: Lab) -> None:
    document = through_json(lab.make().dump_component())
    document["config"]["timeout"] = 0
    with pytest.raises(ValueError):
        load(document)


def test_tool_round_trips_with_its_executor(ours: Lab) -> None:
    tool = PythonCodeExecutionTool(ours.make(timeout=8))
    document = through_json(tool.dump_component())
    assert document["provider"] == "cella.autogen.PythonCodeExecutionTool"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        loaded = PythonCodeExecutionTool.load_component(document)
    assert type(loaded) is PythonCodeExecutionTool
    assert loaded.dump_component() == tool.dump_component()


def test_autogens_tool_accepts_our_executors(ours: Lab) -> None:
    document = through_json(AutoGensTool(ours.make(timeout=8)).dump_component())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        loaded = AutoGensTool.load_component(document)
    assert loaded.dump_component().config["executor"]["config"]["timeout"] == 8


# From here on: what AutoGen's own executor loses.


def test_temporary_directory_is_not_dumped(ours: Lab) -> None:
    executor = ours.make(work_dir=None)
    document = through_json(executor.dump_component())
    assert "work_dir" not in document["config"]
    loaded = load(document)
    assert loaded.work_dir != executor.work_dir
    asyncio.run(executor.stop())
    asyncio.run(loaded.stop())


def test_virtual_environment_round_trips(ours: Lab, tmp_path: pathlib.Path) -> None:
    builder = venv.EnvBuilder(with_pip=False)
    builder.create(tmp_path / "env")
    executor = ours.make(virtual_env_context=builder.ensure_directories(tmp_path / "env"))
    loaded = load(through_json(executor.dump_component()))
    again = Lab(ours.kind, ours.work_dir)
    again.make = lambda **_: loaded  # type: ignore[method-assign]
    assert again.python("import sys\nprint(sys.prefix)").output == f"{tmp_path / 'env'}\n"
