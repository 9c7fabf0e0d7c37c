"""An agent without tools or a framework: a model writes code, a jail runs it, and the model reads the result.

The model here follows a script, so that the example runs anywhere; call your model in `ask_model`. Variables are kept
from step to step. An error is a result that the model reads.

    python examples/agent_loop.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cella.sync import Session

Messages = list[dict[str, str]]

TASK = "Which prime number below 1000 has the largest sum of digits?"
SCRIPT = iter(
    [
        """First the primes.
```python
primes = [n for n in range(2, 1000) if all(n % d for d in range(2, int(n**0.5) + 1))]
```""",
        """Now the sums.
```python
max(primes, key=lambda n: digits(n))
```""",
        """`digits` is missing.
```python
def digits(n):
    return sum(map(int, str(n)))
max(primes, key=digits)
```""",
        "The answer is 997.",
    ]
)
MOST_STEPS = 10


def ask_model(messages: Messages) -> str:
    """Replace this by a call of a real model. `messages` is the conversation so far."""
    return next(SCRIPT)


def code_in(text: str) -> str | None:
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    return found.group(1) if found else None


def solve(task: str) -> Iterator[str]:
    """The messages of the model and the results. The last message is the answer."""
    messages: Messages = [{"role": "user", "content": task}]
    with Session() as session:
        for _ in range(MOST_STEPS):
            said = ask_model(messages)
            messages.append({"role": "assistant", "content": said})
            yield said
            code = code_in(said)
            if code is None:
                return
            result = session.run(code, timeout=10)
            # str(result) is what a terminal would show: output, then the value or the traceback.
            messages.append({"role": "user", "content": f"[{result.status}]\n{result}"})
            yield messages[-1]["content"]
    raise SystemExit(f"no answer in {MOST_STEPS} steps")


if __name__ == "__main__":
    for text in solve(TASK):
        print(text, end="\n\n")
