"""Every example is run, as people run it."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[4] / "examples"


def run(name: str, *words: str, cwd: pathlib.Path) -> str:
    command = [sys.executable, str(EXAMPLES / name), *words]
    ended = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    assert ended.stderr == ""
    return ended.stdout


def test_data_analysis(tmp_path: pathlib.Path) -> None:
    said = run("data_analysis.py", str(tmp_path), cwd=tmp_path)
    assert "load: (332, 2)" in said and "summarise: '2025-06'" in said
    (picture,) = tmp_path.glob("*.png")
    assert f"saved {picture}" in said and picture.read_bytes().startswith(b"\x89PNG")


def test_agent_loop(tmp_path: pathlib.Path) -> None:
    said = run("agent_loop.py", cwd=tmp_path)
    assert "NameError: name 'digits' is not defined" in said
    assert "[ok]\n997" in said and said.rstrip().endswith("The answer is 997.")


def test_markdown_tool(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.md").write_text("#Title  \ntext\n")
    said = run("markdown_tool.py", str(tmp_path), cwd=tmp_path)
    assert said == "a.md: 2 fixed\nfiles of the host in the jail: False\n"
    assert (tmp_path / "a.md").read_text() == "# Title\n\ntext\n"


def test_autogen_two_agents(tmp_path: pathlib.Path) -> None:
    said = run("autogen_two_agents.py", cwd=tmp_path)
    assert "Ada 102" in said and said.rstrip().endswith("oldest.txt: Ada")


@pytest.mark.alone
def test_batch_evaluation_is_five_times_as_fast(tmp_path: pathlib.Path) -> None:
    """Both rows are measured in one run. Others use the machine too, hence the best of up to three."""
    ratios: list[float] = []
    while len(ratios) < 3 and max(ratios, default=0.0) < 5:
        said = run("batch_evaluation.py", "100", cwd=tmp_path)
        assert said.count("5 error, 5 ok, 90 passed") == 2, said
        found = re.search(r"([\d.]+) times as fast", said)
        assert found, said
        ratios.append(float(found.group(1)))
    assert max(ratios) >= 5, ratios


def test_all_examples_are_tested() -> None:
    tested = set(re.findall(r'run\("(\w+\.py)"', pathlib.Path(__file__).read_text()))
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested
