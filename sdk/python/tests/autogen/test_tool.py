"""PythonCodeExecutionTool, ours and AutoGen's, over every executor."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from autogen_core import CancellationToken
from autogen_ext.tools.code_execution import PythonCodeExecutionTool as AutoGensTool
from lab import Lab

from cella.autogen import CodeExecutionInput, CodeExecutionResult, PythonCodeExecutionTool

TOOLS: dict[str, Any] = {"theirs": AutoGensTool, "ours": PythonCodeExecutionTool}


@pytest.fixture(params=TOOLS)
def tool_type(request: pytest.FixtureRequest) -> Any:
    return TOOLS[request.param]


def call(lab: Lab, tool_type: Any, code: str, **options: Any) -> tuple[Any, str]:
    async def go() -> tuple[Any, str]:
        async with lab.make(**options) as executor:
            tool = tool_type(executor)
            value = await tool.run_json({"code": code}, CancellationToken())
            return value, tool.return_value_as_string(value)

    return asyncio.run(go())


def test_successful_code_returns_its_output(lab: Lab, tool_type: Any) -> None:
    value, text = call(lab, tool_type, "print('hello')")
    assert (value.success, value.output, text) == (True, "hello\n", "hello\n")
    assert value.model_dump() == "hello\n"


def test_failing_code_returns_its_error(lab: Lab, tool_type: Any) -> None:
    value, text = call(lab, tool_type, "print('before')\n1 / 0")
    assert not value.success and "ZeroDivisionError" in text and text.endswith("before\n")


def test_timeout_is_reported(lab: Lab, tool_type: Any) -> None:
    value, text = call(lab, tool_type, "import time\ntime.sleep(60)", timeout=1)
    assert not value.success and text.endswith("\nTimeout")


@pytest.mark.parametrize("lab", ["local"], indirect=True)
def test_name_description_and_schema_match_autogens_tool(lab: Lab) -> None:
    executor = lab.make()
    ours, theirs = PythonCodeExecutionTool(executor), AutoGensTool(executor)
    assert (ours.name, ours.description) == (theirs.name, theirs.description)
    assert ours.schema == theirs.schema


def test_argument_and_result_types_match_autogens_tool(sandbox: Lab) -> None:
    tool = PythonCodeExecutionTool(sandbox.make())
    assert (tool.args_type(), tool.return_type()) == (CodeExecutionInput, CodeExecutionResult)


def test_rejects_missing_arguments(sandbox: Lab) -> None:
    async def go() -> None:
        tool = PythonCodeExecutionTool(sandbox.make())
        with pytest.raises(ValueError, match="code"):
            await tool.run_json({}, CancellationToken())

    asyncio.run(go())


def test_method_of_a_session_can_be_a_tool() -> None:
    from autogen_core.tools import FunctionTool

    import cella

    async def main() -> None:
        async with cella.Session(cella.InProcessExecutor()) as session:
            tool = FunctionTool(session.run, description="Runs Python.")
            assert set(tool.schema["parameters"]["properties"]) == {
                "code", "language", "blocks", "timeout", "stdin", "variables",
            }
            result = await tool.run_json({"code": "6 * 7"}, CancellationToken())
            assert result.value == "42"

    asyncio.run(main())
