"""cella.ag2 by itself, and with a real UserProxyAgent of AG2 or AutoGen 0.2, whichever is installed."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from cella.ag2 import (
    CodeBlock,
    DockerCommandLineCodeExecutor,
    LocalCommandLineCodeExecutor,
    MarkdownCodeExtractor,
    executor_from_code_execution_config,
)
from support.engine import Engine, default_images
from support.needs import require

pytestmark = [
    pytest.mark.needs("docker"),
    # Of the packages that the agents import.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    made = Engine(require("docker"))
    monkeypatch.setenv("DOCKER_HOST", made.host)
    return made


@pytest.fixture(params=["local", "docker"])
def executor(request: pytest.FixtureRequest, engine: Engine, tmp_path: pathlib.Path) -> Iterator[Any]:
    if request.param == "local":
        made: Any = LocalCommandLineCodeExecutor(timeout=30, work_dir=tmp_path / "coding")
    else:
        made = DockerCommandLineCodeExecutor(
            engine.image, timeout=30, work_dir=tmp_path / "coding", network_disabled=True
        )
    with made:
        yield made


def run(executor: Any, *blocks: tuple[str, str]) -> Any:
    return executor.execute_code_blocks([CodeBlock(code, language) for language, code in blocks])


def test_blocks_run_in_order_and_share_files_up_to_the_first_failure(executor: Any) -> None:
    blocks = [("python", "open('n', 'w').write('42')"), ("sh", "cat n; exit 3"), ("sh", "echo no")]
    result = run(executor, *blocks)
    assert (result.exit_code, result.output) == (3, "42")
    assert (executor.work_dir / "n").stat().st_uid == os.getuid()


def test_timeout_keeps_the_output(executor: Any) -> None:
    executor._timeout = 1
    result = run(executor, ("python", "import time; print('before'); time.sleep(60)"))
    assert result.exit_code == 124 and "before\n" in result.output and result.output.endswith("\nTimeout"), result


def test_restart_keeps_files(executor: Any) -> None:
    run(executor, ("sh", "echo kept > f"))
    executor.restart()
    assert run(executor, ("sh", "cat f")).output == "kept\n"


def test_wrong_calls_raise(executor: Any, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="No code blocks"):
        executor.execute_code_blocks([])
    with pytest.raises(ValueError, match="Timeout must be"):
        LocalCommandLineCodeExecutor(timeout=0, work_dir=tmp_path)


def test_code_blocks_of_a_message_are_found() -> None:
    message = "Run:\n```python\nprint(1)\n```\nand\n```\npip install x\n```\n"
    found = MarkdownCodeExtractor().extract_code_blocks(message)
    assert [(each.language, each.code) for each in found] == [("python", "print(1)"), ("sh", "pip install x")]
    assert MarkdownCodeExtractor().extract_code_blocks([{"type": "text", "text": message}]) == found


def test_without_an_engine_a_container_is_an_error_that_names_the_remedy(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent.sock")
    with pytest.raises(RuntimeError, match=r'"use_docker": False'):
        executor_from_code_execution_config({"use_docker": True, "work_dir": str(tmp_path)})
    monkeypatch.setenv("AUTOGEN_USE_DOCKER", "0")
    found = executor_from_code_execution_config({"work_dir": str(tmp_path)})
    assert isinstance(found, LocalCommandLineCodeExecutor)
    monkeypatch.setenv("AUTOGEN_USE_DOCKER", "perhaps")
    with pytest.raises(ValueError, match="perhaps"):
        executor_from_code_execution_config({"work_dir": str(tmp_path)})


@pytest.mark.parametrize("use_docker", [False, True, "image", ["cella-test/none:9", "image"], None, "absent"])
def test_user_proxy_agent_runs_code(
    use_docker: Any, engine: Engine, tmp_path: pathlib.Path
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        autogen = pytest.importorskip("autogen")
    given = [engine.image if each == "image" else each for each in use_docker] if isinstance(use_docker, list) else (
        engine.image if use_docker == "image" else use_docker
    )
    # The test's engine has no bridge.
    config = {"use_docker": given, "work_dir": str(tmp_path), "timeout": 30, "network_disabled": True}
    if use_docker == "absent":
        del config["use_docker"]
    with contextlib.ExitStack() as until_the_end:
        if use_docker is True or use_docker == "absent":
            until_the_end.enter_context(default_images(engine, "python:3-slim"))
        executor = until_the_end.enter_context(executor_from_code_execution_config(config))
        user = autogen.UserProxyAgent("user", human_input_mode="NEVER", code_execution_config={"executor": executor})
        message = {"role": "user", "content": "```python\nprint(6 * 7)\n```"}
        answer = user.generate_reply(messages=[message])
    assert "42" in str(answer), answer
    wanted = DockerCommandLineCodeExecutor if use_docker else LocalCommandLineCodeExecutor
    assert isinstance(executor, wanted)


def test_snippet_of_the_guide_prints_what_it_says(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = pathlib.Path(__file__).resolve().parents[4] / "docs" / "from-autogen-0.2.md"
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    exec(compile(snippet, "<snippet>", "exec"), {})
    assert capsys.readouterr().out == "42\n"
