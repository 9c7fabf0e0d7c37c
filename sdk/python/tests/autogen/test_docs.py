"""Every piece of Python that docs/autogen.md shows is run."""

from __future__ import annotations

import ast
import asyncio
import inspect
import linecache
import pathlib
import re
from types import CodeType
from typing import Any

import pytest
from lab import execute

PAGE = pathlib.Path(__file__).resolve().parents[4] / "docs" / "autogen.md"
SNIPPETS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


async def run(code: CodeType, names: dict[str, object]) -> None:
    waits = eval(code, names)
    if inspect.iscoroutine(waits):
        await waits


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_snippet_runs(number: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pathlib.Path("coding").mkdir()
    text = SNIPPETS[number]
    # Where Python looks for the source of functions.
    name = f"<snippet {number}>"
    monkeypatch.setitem(linecache.cache, name, (len(text), None, text.splitlines(keepends=True), name))
    code = compile(text, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    names: dict[str, object] = {"__name__": "snippet"}
    asyncio.run(run(code, names))
    # They need a kernel and an engine: test_jupyter.py and test_docker.py use them.
    if not {"JupyterCodeExecutor", "DockerCommandLineCodeExecutor"} & set(names):
        assert asyncio.run(use(names["executor"])) == "1\n"


async def use(executor: Any) -> str:
    """Some snippets only make an executor: it must be one that works."""
    async with executor:
        code = "from functions import version\nassert version()" if executor.functions else ""
        result = await execute(executor, ("python", code + "\nprint(1)"))
        return str(result.output)


def test_snippets_are_found() -> None:
    assert len(SNIPPETS) >= 3
