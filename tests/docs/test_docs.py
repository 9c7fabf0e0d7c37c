"""Every command that README.md, docs/ and the fast loop of CONTRIBUTING.md show is run, and the output that is shown
beside it must come."""

import os
import pathlib
import re
import subprocess

import pytest
from support.needs import require

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("CELLA_BIN") or REPOSITORY / "build/release/bin/cella")
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]

# Pages whose commands need a package index. (CMake finds the needs of this file by the marks below.)
NEED_INDEX = {"environments.md", "kernels.md"}

# Their commands run with the active environment of the need.
NEED_JUPYTER = {"kernels.md", "from-taskweaver.md"}

# What the examples refer to.
FILES = {
    "script.py": "import sys\nprint(sys.argv[1:])\n",
    "main.c": '#include <stdio.h>\nint main(void) { FILE *f = fopen("made.txt", "w"); fputs("x", f); return fclose(f); }\n',
    "taskweaver_config.json": "{\"execution_service.kernel_mode\": \"SubProcess\", \"llm.api_key\": \"secret\"}",
    "data.txt": "data\n",
    "input.csv": "a,b\n",
}


def examples():
    """(page, command, shown output lines): lines of code blocks that start with `cella`, or with `$` and call it."""
    for page in PAGES:
        for block in re.findall(r"^```\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            lines = block.splitlines()
            for number, line in enumerate(lines):
                prompt = line.startswith("$ ")
                command = re.sub(r"\s{2,}#.*$", "", line.removeprefix("$ "))
                if not (prompt and "cella " in command) and (not command.startswith("cella ") or "[" in command):
                    continue  # a synopsis is not a command
                shown = []
                for following in lines[number + 1 :] if prompt else []:
                    if following.startswith("$ "):
                        break
                    shown.append(following)
                marks = [pytest.mark.needs("docker")] if "--executor container" in command else []
                marks += [pytest.mark.needs("network-index")] if page.name in NEED_INDEX else []
                marks += [pytest.mark.needs("jupyter")] if page.name in NEED_JUPYTER else []
                yield pytest.param(page, command, shown, id=f"{page.name}: {command}", marks=marks)


@pytest.fixture(scope="session")
def state(tmp_path_factory):
    """Environments that the examples make, apart from the user's."""
    return tmp_path_factory.mktemp("state")


@pytest.mark.parametrize(("page", "command", "shown"), examples())
def test_documented_command_prints_the_documented_output(page, command, shown, tmp_path, state):
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    environment = {**os.environ, "PATH": f"{BINARY.parent}:{os.environ['PATH']}", "CELLA_STATE_DIR": str(state)}
    if "--executor container" in command:
        settings = require("docker")
        environment["DOCKER_HOST"] = settings["DOCKER_HOST"]
        command = command.replace("python:3-slim", settings["CELLA_TEST_IMAGE"])
    if page.name in NEED_JUPYTER:
        environment["VIRTUAL_ENV"] = str(pathlib.Path(require("jupyter")["JUPYTER_PYTHON"]).parents[1])
    ended = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=400,
    )
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    # Shown output is compared word by word, but for figures and what is left out as "…".
    expected = [re.sub(r"[0-9.]+", "#", part) for part in "".join(line.strip() for line in shown).split("…")]
    actual = re.sub(r"[0-9.]+", "#", "".join(line.strip() for line in ended.stdout.splitlines()))
    position = 0
    for part in expected:
        found = actual.find(part.strip(), position)
        assert found >= 0, f"shown, but not printed: {part!r}\nprinted: {ended.stdout}"
        position = found + len(part.strip())


def fast_loop():
    """The commands of CONTRIBUTING.md for one target, one test, one subject."""
    section = (REPOSITORY / "CONTRIBUTING.md").read_text().partition("## The fast loop")[2].partition("\n## ")[0]
    for block in re.findall(r"^```\n(.*?)^```", section, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            yield re.sub(r"\s+#.*$", "", line)


@pytest.mark.parametrize("command", fast_loop())
def test_fast_loop_command_succeeds(command):
    if not (REPOSITORY / "build/release/build.ninja").exists():
        pytest.skip("needs the build tree: run 'make check' first")
    ended = subprocess.run(
        ["bash", "-c", command], cwd=REPOSITORY, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=400
    )
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"


def test_examples_are_found():
    assert len(list(fast_loop())) >= 6
    assert len(list(examples())) >= 6


@pytest.mark.parametrize("page", [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md")], ids=lambda page: page.name)
def test_link_targets_exist(page):
    text = re.sub(r"(?ms)^```.*?^```", "", page.read_text())
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
