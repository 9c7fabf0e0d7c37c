"""Two agents of AutoGen: one writes code, the other runs it in a jail.

Only the import of the executor differs from AutoGen's own example. The model follows a script, so that the example runs
anywhere; use your model client instead. Needs cella[autogen], autogen-agentchat and autogen-ext.

    python examples/autogen_two_agents.py
"""

from __future__ import annotations

import asyncio
import pathlib
import tempfile

from autogen_agentchat.agents import ApprovalRequest, ApprovalResponse, AssistantAgent, CodeExecutorAgent
from autogen_agentchat.conditions import MaxMessageTermination, TextMentionTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_agentchat.ui import Console
from autogen_ext.models.replay import ReplayChatCompletionClient

from cella.autogen import SandboxCommandLineCodeExecutor

SCRIPT = [
    """```python
import csv
rows = list(csv.DictReader(open('people.csv')))
print(max(row['age'] for row in rows))
```""",
    """Ages are texts there.
```python
# filename: oldest.py
import csv
rows = list(csv.DictReader(open('people.csv')))
oldest = max(rows, key=lambda row: int(row['age']))
print(oldest['name'], oldest['age'])
open('oldest.txt', 'w').write(oldest['name'])
```""",
    "The oldest is Ada, 102. TERMINATE",
]


def approve(request: ApprovalRequest) -> ApprovalResponse:
    """You could ask a user here. The jail bounds what the code can do."""
    return ApprovalResponse(approved=True, reason="it runs in a jail")


async def main(work_dir: pathlib.Path) -> None:
    (work_dir / "people.csv").write_text("name,age\nBob,99\nAda,102\nEve,35\n")
    writer = AssistantAgent("writer", model_client=ReplayChatCompletionClient(SCRIPT))
    async with SandboxCommandLineCodeExecutor(work_dir=work_dir, timeout=10) as executor:
        runner = CodeExecutorAgent("runner", code_executor=executor, approval_func=approve)
        enough = TextMentionTermination("TERMINATE", sources=["writer"]) | MaxMessageTermination(10)
        team = RoundRobinGroupChat([writer, runner], termination_condition=enough)
        await Console(team.run_stream(task="Who is the oldest in people.csv? Write the name to oldest.txt."))
    print("oldest.txt:", (work_dir / "oldest.txt").read_text())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(pathlib.Path(directory)))
