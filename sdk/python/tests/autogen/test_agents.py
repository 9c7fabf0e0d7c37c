"""The executors inside of AutoGen's agents and teams, with a model that follows a script."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

import pytest
from autogen_agentchat.agents import ApprovalRequest, ApprovalResponse, AssistantAgent, CodeExecutorAgent
from autogen_agentchat.base import TaskResult
from autogen_agentchat.conditions import MaxMessageTermination, TextMentionTermination
from autogen_agentchat.messages import CodeExecutionEvent, TextMessage, ToolCallExecutionEvent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import CancellationToken, FunctionCall
from autogen_core.models import CreateResult, ModelFamily, ModelInfo, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient
from lab import Lab, until

from cella.autogen import PythonCodeExecutionTool

MODEL = ModelInfo(
    vision=False, function_calling=True, json_output=False, family=ModelFamily.UNKNOWN, structured_output=False
)


def approve(request: ApprovalRequest) -> ApprovalResponse:
    return ApprovalResponse(approved=True, reason="a test")


def agent(executor: Any, **options: Any) -> CodeExecutorAgent:
    return CodeExecutorAgent("runner", code_executor=executor, approval_func=approve, **options)


def test_code_executor_agent_runs_code(lab: Lab) -> None:
    async def go() -> str:
        async with lab.make() as executor:
            message = TextMessage(content="```python\nprint(6 * 7)\n```\nand\n```sh\necho end\n```", source="user")
            response = await agent(executor).on_messages([message], CancellationToken())
            assert isinstance(response.chat_message, TextMessage)
            return response.chat_message.content

    assert asyncio.run(go()) == "42\nend\n"


def test_two_agents_correct_an_error(lab: Lab) -> None:
    script = [
        "```python\nprint(undefined)\n```",
        "Of course:\n```python\nprint(sum(range(10)))\n```",
        "The answer is 45. TERMINATE",
    ]

    async def go() -> TaskResult:
        writer = AssistantAgent("writer", ReplayChatCompletionClient(script))
        async with lab.make() as executor:
            enough = TextMentionTermination("TERMINATE", sources=["writer"]) | MaxMessageTermination(10)
            team = RoundRobinGroupChat([writer, agent(executor)], termination_condition=enough)
            return await team.run(task="Sum the digits.")

    texts = [message.to_text() for message in asyncio.run(go()).messages]
    assert any("NameError" in text for text in texts) and any(text.strip().endswith("45") for text in texts), texts
    assert "TERMINATE" in texts[-1]


def test_one_agent_writes_and_runs_code(lab: Lab) -> None:
    model = ReplayChatCompletionClient(["```python\nprint('made by a model')\n```", "It printed a line."])

    async def go() -> list[CodeExecutionEvent]:
        async with lab.make() as executor:
            stream = agent(executor, model_client=model).run_stream(task="Print a line.")
            return [message async for message in stream if isinstance(message, CodeExecutionEvent)]

    (event,) = asyncio.run(go())
    assert (event.result.exit_code, event.result.output) == (0, "made by a model\n")


def test_assistant_agent_uses_the_tool(lab: Lab) -> None:
    call = FunctionCall(id="1", name="CodeExecutor", arguments='{"code": "print(6 * 7)"}')
    usage = RequestUsage(prompt_tokens=0, completion_tokens=0)
    wants = CreateResult(finish_reason="function_calls", content=[call], usage=usage, cached=False)

    async def go() -> list[ToolCallExecutionEvent]:
        async with lab.make() as executor:
            assistant = AssistantAgent(
                "assistant",
                ReplayChatCompletionClient([wants, "It is 42."], model_info=MODEL),
                tools=[PythonCodeExecutionTool(executor)],
                reflect_on_tool_use=True,
            )
            result = await assistant.run(task="What is 6 * 7?")
            return [message for message in result.messages if isinstance(message, ToolCallExecutionEvent)]

    (event,) = asyncio.run(go())
    assert (event.content[0].content, event.content[0].is_error) == ("42\n", False)


def test_agent_component_includes_its_executor(ours: Lab) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        document = CodeExecutorAgent("runner", code_executor=ours.make(timeout=8)).dump_component()
        loaded = CodeExecutorAgent.load_component(document)
    assert loaded.dump_component().config["code_executor"]["config"]["timeout"] == 8


@pytest.mark.parametrize("ours", ["local", "sandbox"], indirect=True)
def test_cancelling_a_team_ends_the_code(ours: Lab) -> None:
    """AutoGen's own executor lets the code run to its end."""

    async def go() -> None:
        token = CancellationToken()
        async with ours.make() as executor:
            message = TextMessage(content="```sh\ntouch begun; sleep 60; touch late\n```", source="user")
            task = asyncio.ensure_future(agent(executor).on_messages([message], token))
            await until((ours.work_dir / "begun").exists)
            token.cancel()
            response = await asyncio.wait_for(task, 20)
            assert isinstance(response.chat_message, TextMessage)
            assert "POSIX exit code: 125" in response.chat_message.content

    asyncio.run(go())
