"""Every snippet of the guide runs, and prints what it says."""

import ast
import asyncio
import inspect
import re

import pytest

import cella
from conftest import REPOSITORY

NAMES = (
    "docs/python.md", "docs/executors.md", "docs/tools.md", "docs/storage.md", "docs/from-py-code-mode.md",
    "sdk/python/README.md", "README.md",
)
MAKE_FILES = ("storage.md", "from-py-code-mode.md")
PAGES = [REPOSITORY / name for name in NAMES]
KINDS = (cella.SandboxConfig, cella.LocalConfig, cella.InProcessConfig, cella.SubprocessConfig, cella.ContainerConfig)
SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROMISE = re.compile(r"^\s*print\(.*\)\s+# (.*)$", re.MULTILINE)


async def run(code, names):
    compiled = compile(code, "<snippet>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    answer = eval(compiled, names)
    if inspect.isawaitable(answer):
        await answer


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_snippets_print_the_documented_output(page, capsys, tmp_path, monkeypatch):
    if page.name in MAKE_FILES:
        monkeypatch.chdir(tmp_path)
    text = page.read_text()
    snippets = SNIPPET.findall(text)
    assert snippets and text.count("```python") == len(snippets)

    async def all_of_them():
        names = {}
        for snippet in snippets:
            await run(snippet, names)
            assert capsys.readouterr().out.splitlines() == PROMISE.findall(snippet), snippet

    asyncio.run(all_of_them())
    assert any(PROMISE.findall(snippet) for snippet in snippets)


def test_tables_list_every_field_and_exception():
    import dataclasses

    from cella import errors

    text = PAGES[0].read_text()
    fields = {field.name for kind in KINDS for field in dataclasses.fields(kind)}
    kinds = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    missing = {name for name in fields | kinds - {"ApiError", "BatchError"} if f"`{name}`" not in text}
    assert not {name for name in missing if f"cella.{name}" not in text}
