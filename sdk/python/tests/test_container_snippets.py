"""ContainerExecutor as py-code-mode documents it, and TaskWeaver's mode Container: with only the imports changed."""

import asyncio
import json
import os
import secrets

import pytest

import cella
from support.engine import Engine, default_images
from support.needs import require
from support.running import wait_until

pytestmark = pytest.mark.needs("docker")


@pytest.fixture(scope="module")
def engine():
    return Engine(require("docker"))


@pytest.fixture(autouse=True)
def surroundings(engine, monkeypatch, tmp_path):
    """The engine is found as Docker's own programs find it, and has the images that the snippets do not name."""
    monkeypatch.setenv("DOCKER_HOST", engine.host)
    monkeypatch.setenv("CELLA_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    with default_images(engine, "python:3-slim"):
        yield
        assert wait_until(lambda: not engine.containers())


agent_code = "import os; open('made', 'w').write('x'); (6 * 7, os.getcwd(), os.path.exists('/.dockerenv'))"
ANSWER = "(42, '/workspace', True)"


def test_locked_executor_with_a_token():
    storage = cella.FileStorage("data")

    async def example():
        from cella import ContainerConfig, ContainerExecutor, Session

        config = ContainerConfig(
            timeout=60.0,  # Execution timeout
            allow_runtime_deps=False,  # Lock down deps for security
            auth_token="your-secret-token",  # API authentication (required for production)
        )

        executor = ContainerExecutor(config)

        async with Session(storage=storage, executor=executor) as session:
            result = await session.run(agent_code)
        return result  # noqa: RET504

    assert asyncio.run(example()).value == ANSWER


def test_development_without_a_token():
    from cella import ContainerConfig, ContainerExecutor, Session

    async def example():
        config = ContainerConfig(
            auth_disabled=True,  # Only for local development!
        )
        async with Session(executor=ContainerExecutor(config)) as session:
            return await session.run(agent_code)

    assert asyncio.run(example()).value == ANSWER


def test_all_options():
    from cella import ContainerConfig, ContainerExecutor, Session

    config = ContainerConfig(
        timeout=60.0,               # Execution timeout
        allow_runtime_deps=False,   # Lock down package installation
        auth_token="secret",        # Bearer token for API auth (production)
        auth_disabled=False,        # Set True for local dev only (no auth)
        network_disabled=False,     # Disable container network access
        memory_limit="512m",        # Container memory limit
        cpu_quota=None             # CPU quota (default: no limit)
    )

    async def example():
        async with Session(executor=ContainerExecutor(config)) as session:
            return await session.run(agent_code), await session.info()

    result, info = asyncio.run(example())
    assert result.value == ANSWER
    isolation = info["isolation"]
    assert isolation["network"] == "bridge" and isolation["limits"]["memory"]["value"] == 512 << 20
    assert "secret" not in json.dumps(isolation)


def test_same_code_runs_with_another_executor(monkeypatch):
    from cella import ContainerConfig, ContainerExecutor, InProcessExecutor, Session

    storage = cella.FileStorage("data")
    code = "total = sum(range(10)); total"
    monkeypatch.setenv("AUTH_TOKEN", secrets.token_hex(8))

    async def example():
        # Development: InProcess for speed
        async with Session(storage=storage, executor=InProcessExecutor()) as session:
            first = await session.run(code)

        # Production: Container for security (with auth)
        executor = ContainerExecutor(ContainerConfig(auth_token=os.getenv("AUTH_TOKEN")))
        async with Session(storage=storage, executor=executor) as session:
            await session.artifacts.save("total", 45)
            result = await session.run(code)
            return first.value, result.value, await session.artifacts.load("total")

    assert asyncio.run(example()) == ("45", "45", 45)
