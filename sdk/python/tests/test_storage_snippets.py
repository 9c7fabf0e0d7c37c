"""Snippets of py-code-mode's guide to executors, those with a storage, in every executor. Only imports are changed."""

import ast
import asyncio
import json
import re

import pytest

import cella
import cella.sync
from cella import _private_server as private
from cella._sync import clients
from support.engine import Engine
from support.needs import require

IMPORTS = """
from py_code_mode import Session, FileStorage
from py_code_mode.execution import InProcessExecutor, InProcessConfig
from py_code_mode.execution import SubprocessExecutor, SubprocessConfig
from py_code_mode.execution import ContainerExecutor, ContainerConfig
from pathlib import Path
import os

storage = FileStorage(base_path=Path("./data"))
"""
DEFAULT = """
# InProcessExecutor is the default
async with Session(storage=storage) as session:
    result = await session.run(agent_code)
"""
IN_PROCESS = """
config = InProcessConfig(
    default_timeout=30.0,  # Default execution timeout in seconds
    allow_runtime_deps=True  # Allow agents to install packages at runtime
)

executor = InProcessExecutor(config=config)

async with Session(storage=storage, executor=executor) as session:
    result = await session.run(agent_code)
"""
SUBPROCESS = """
config = SubprocessConfig(
    python_version="3.11",  # Python version for the subprocess
    default_timeout=120.0,  # Execution timeout
    allow_runtime_deps=False  # Lock down dependency installation
)

executor = SubprocessExecutor(config)

async with Session(storage=storage, executor=executor) as session:
    result = await session.run(agent_code)
"""
CONTAINER = """
config = ContainerConfig(
    timeout=60.0,  # Execution timeout
    allow_runtime_deps=False,  # Lock down deps for security
    auth_token="your-secret-token",  # API authentication (required for production)
)

executor = ContainerExecutor(config)

async with Session(storage=storage, executor=executor) as session:
    result = await session.run(agent_code)
"""
CONTAINER_OPTIONS = """
config = ContainerConfig(
    auth_disabled=True,  # Only for local development!
)
ContainerConfig(
    timeout=60.0,               # Execution timeout
    allow_runtime_deps=False,   # Lock down package installation
    auth_token="secret",        # Bearer token for API auth (production)
    auth_disabled=False,        # Set True for local dev only (no auth)
    network_disabled=False,     # Disable container network access
    memory_limit="512m",        # Container memory limit
    cpu_quota=None             # CPU quota (default: no limit)
)
"""
SWITCHING = """
# Development: InProcess for speed
async with Session(storage=storage) as session:
    result = await session.run(code)

# Testing: Subprocess for isolation
executor = SubprocessExecutor(SubprocessConfig())
async with Session(storage=storage, executor=executor) as session:
    result = await session.run(code)

# Production: Container for security (with auth)
executor = ContainerExecutor(ContainerConfig(auth_token=os.getenv("AUTH_TOKEN")))
async with Session(storage=storage, executor=executor) as session:
    result = await session.run(code)
"""
LIFE_CYCLE = """
# Initialization
executor = SubprocessExecutor(config)

# Session creation (executor starts)
async with Session(storage=storage, executor=executor) as session:
    # Execute code
    result = await session.run(code)
    # Session cleanup (executor stops)

# Executor is cleaned up after session ends
"""
# Counts the runs that one storage has seen, and keeps what is larger than a message.
AGENT_CODE = """
seen = artifacts.load("seen.json") if artifacts.exists("seen.json") else []
artifacts.save("seen.json", seen + [len(seen)], description="runs")
artifacts.save("large.bin", bytes(1 << 20))
workflows.create("triple", "async def run(n): return 3 * n") if not workflows.get("triple") else None
len(artifacts.load("large.bin")), len(artifacts.load("seen.json"))
"""


@pytest.fixture
def snippets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CELLA_STATE_DIR", str(tmp_path / "state"))
    names = {"agent_code": AGENT_CODE, "code": AGENT_CODE}

    async def run(*codes):
        for code in codes:
            changed = re.sub(r"\bpy_code_mode\b", "cella", code)
            compiled = compile(changed, "<snippet>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            answer = eval(compiled, names)
            if asyncio.iscoroutine(answer):
                await answer
        return names

    return lambda *codes: asyncio.run(run(IMPORTS, *codes))


def stop_server():
    """The next session starts a new one, which reads the variables of that time."""
    for client in list(clients._clients.values()):
        client.close()
    private.stop()


@pytest.fixture
def engine(monkeypatch):
    """One that has the default image, which here is that of the tests."""
    made = Engine(require("docker"))
    monkeypatch.setenv("DOCKER_HOST", made.host)
    stop_server()
    status, answer = made.call("POST", f"/images/{made.image}/tag?repo=python&tag=3-slim")
    assert status == 201, answer
    yield made
    stop_server()
    made.call("DELETE", "/images/python:3-slim?noprune=true")


def seen(directory):
    return json.loads((directory / "data/artifacts/seen.json").read_text())


@pytest.mark.parametrize("snippet", [DEFAULT, IN_PROCESS], ids=["default", "in-process"])
def test_snippet_of_a_session(snippets, tmp_path, snippet):
    for count in (1, 2):
        assert snippets(snippet)["result"].value == f"({1 << 20}, {count})"
    assert seen(tmp_path) == [0, 1]


@pytest.mark.needs("network-index")
def test_snippets_of_the_subprocess_executor(snippets, tmp_path):
    require("network-index")
    assert snippets(SUBPROCESS)["result"].value == f"({1 << 20}, 1)"
    assert snippets("config = SubprocessConfig()", LIFE_CYCLE)["result"].value == f"({1 << 20}, 2)"
    assert seen(tmp_path) == [0, 1]


@pytest.mark.needs("docker")
def test_snippets_of_the_container_executor(engine, snippets, tmp_path):
    for count in (1, 2):
        result = snippets(CONTAINER, CONTAINER_OPTIONS)["result"]
        assert result.error is None and result.value == f"({1 << 20}, {count})"
    assert seen(tmp_path) == [0, 1]


@pytest.mark.needs("docker")
@pytest.mark.needs("network-index")
def test_executors_share_a_storage_when_they_are_switched(engine, snippets, tmp_path, monkeypatch):
    require("network-index")
    monkeypatch.setenv("AUTH_TOKEN", "a-token-of-the-operator")
    assert snippets(SWITCHING)["result"].value == f"({1 << 20}, 3)"
    assert seen(tmp_path) == [0, 1, 2]
    with cella.sync.Session(cella.FileStorage(tmp_path / "data")) as session:
        assert session.workflows.invoke("triple", 2) == 6


# The packages of the storage


@pytest.mark.needs("network-index")
@pytest.mark.parametrize("start", [True, False], ids=["sync_deps_on_start", "deps.sync"])
def test_requirements_of_the_storage_are_installed(tmp_path, monkeypatch, start):
    require("network-index")
    monkeypatch.setenv("CELLA_STATE_DIR", str(tmp_path / "state"))
    data = tmp_path / "data"
    data.mkdir()
    (data / "requirements.txt").write_text("# what the agents use\nhumanize>=4\n\n")
    executor = cella.SandboxExecutor(python_version="/usr/bin/python3")
    with cella.sync.Session(cella.FileStorage(data), executor, sync_deps_on_start=start) as session:
        if not start:
            assert session.run("import humanize").error is not None
            assert session.run("[each.split('=')[0] for each in deps.sync().added]").value == "['humanize']"
        assert session.run("import humanize; humanize.__name__, deps.list()").value == "('humanize', ['humanize>=4'])"
        assert session.deps.list() == ["humanize>=4"]


@pytest.mark.needs("docker")
@pytest.mark.needs("network-index")
def test_requirements_of_the_storage_are_installed_for_a_container(tmp_path, monkeypatch):
    settings = require("docker")
    require("network-index")
    monkeypatch.setenv("CELLA_STATE_DIR", str(tmp_path / "state"))
    data = tmp_path / "data"
    data.mkdir()
    (data / "requirements.txt").write_text("humanize\n")
    executor = cella.ContainerExecutor(
        auth_disabled=True, engine=settings["DOCKER_HOST"], image=settings["CELLA_TEST_IMAGE"], allow_runtime_deps=True
    )
    with cella.sync.Session(cella.FileStorage(data), executor, sync_deps_on_start=True) as session:
        assert session.run("import humanize; humanize.__name__").value == "'humanize'"
