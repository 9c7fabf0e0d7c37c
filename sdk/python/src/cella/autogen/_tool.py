"""AutoGen's PythonCodeExecutionTool, for agents that call tools instead of writing code blocks."""

from __future__ import annotations

from autogen_core import CancellationToken, Component, ComponentModel
from autogen_core.code_executor import CodeBlock, CodeExecutor
from autogen_core.tools import BaseTool
from pydantic import BaseModel, Field, model_serializer
from typing_extensions import Self

_DESCRIPTION = "Execute Python code blocks."


class CodeExecutionInput(BaseModel):
    code: str = Field(description="The contents of the Python code block that should be executed")


class CodeExecutionResult(BaseModel):
    """To a model it is its output alone."""

    success: bool
    output: str

    @model_serializer
    def to_text(self) -> str:
        return self.output


class PythonCodeExecutionToolConfig(BaseModel):
    """What a PythonCodeExecutionTool is made of."""

    executor: ComponentModel
    description: str = _DESCRIPTION


class PythonCodeExecutionTool(
    BaseTool[CodeExecutionInput, CodeExecutionResult], Component[PythonCodeExecutionToolConfig]
):
    """A tool that runs Python code with a code executor and returns what it wrote.

    Args:
        executor: any code executor of AutoGen or of this package.
    """

    component_config_schema = PythonCodeExecutionToolConfig
    component_provider_override = "cella.autogen.PythonCodeExecutionTool"

    def __init__(self, executor: CodeExecutor) -> None:
        super().__init__(CodeExecutionInput, CodeExecutionResult, "CodeExecutor", _DESCRIPTION)
        self._executor = executor

    async def run(self, args: CodeExecutionInput, cancellation_token: CancellationToken) -> CodeExecutionResult:
        block = CodeBlock(code=args.code, language="python")
        result = await self._executor.execute_code_blocks([block], cancellation_token=cancellation_token)
        return CodeExecutionResult(success=result.exit_code == 0, output=result.output)

    def _to_config(self) -> PythonCodeExecutionToolConfig:
        return PythonCodeExecutionToolConfig(executor=self._executor.dump_component())

    @classmethod
    def _from_config(cls, config: PythonCodeExecutionToolConfig) -> Self:
        return cls(CodeExecutor.load_component(config.executor))
