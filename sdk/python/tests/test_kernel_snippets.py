"""SubprocessExecutor as py-code-mode documents it: its snippets, with only the imports changed."""

import asyncio
import os
import venv

import pytest

import cella
from support.running import wait_until

pytestmark = pytest.mark.needs("network-index")


@pytest.fixture(scope="module", autouse=True)
def state(tmp_path_factory):
    """Environments of their own, without those of the user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CELLA_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        yield


def test_locked_session_of_a_named_version(tmp_path):
    from cella import FileStorage, Session
    from cella.execution import SubprocessConfig, SubprocessExecutor

    storage = FileStorage(tmp_path / "data")
    agent_code = "import sys; (sys.version_info[:2], sys.prefix != sys.base_prefix, sys.prefix)"

    async def example():
        config = SubprocessConfig(
            python_version="3.11",  # Python version for the subprocess
            default_timeout=120.0,  # Execution timeout
            allow_runtime_deps=False,  # Lock down dependency installation
        )

        executor = SubprocessExecutor(config)

        async with Session(storage=storage, executor=executor) as session:
            result = await session.run(agent_code)
        return result  # noqa: RET504

    result = asyncio.run(example())
    assert result.error is None, result.error
    version, own, prefix = eval(result.value)
    assert version == (3, 11) and own
    # The server removes it once the session's processes are gone.
    assert wait_until(lambda: not os.path.exists(prefix), 10)


def test_switching_and_life_cycle_with_a_storage(tmp_path):
    from cella import FileStorage, Session, SubprocessConfig, SubprocessExecutor

    storage = FileStorage(tmp_path / "data")
    config = SubprocessConfig()
    code = "artifacts.save('kept.json', {'n': 1})"

    async def example():
        # Testing: Subprocess for isolation
        executor = SubprocessExecutor(SubprocessConfig())
        async with Session(storage=storage, executor=executor) as session:
            first = await session.run(code)

        # Initialization
        executor = SubprocessExecutor(config)

        # Session creation (executor starts)
        async with Session(storage=storage, executor=executor) as session:
            # Execute code
            second = await session.run("import sys; (artifacts.load('kept.json'), sys.prefix)")
            # Session cleanup (executor stops)

        # Executor is cleaned up after session ends
        return first, second

    first, second = asyncio.run(example())
    assert first.error is None and second.error is None, (first.error, second.error)
    loaded, prefix = eval(second.value)
    assert loaded == {"n": 1}
    assert wait_until(lambda: not os.path.exists(prefix), 10)


def test_all_options():
    from cella import SubprocessConfig

    SubprocessConfig(
        python_version="3.11",  # Python version (default: current version)
        default_timeout=120.0,  # Default timeout in seconds
        allow_runtime_deps=True,  # Allow runtime package installation
        venv_dir=None,  # Custom venv directory (default: temp dir)
    )


def test_default_configuration_and_life_cycle():
    from cella import Session, SubprocessConfig, SubprocessExecutor

    code = "1 + 1"

    async def example():
        executor = SubprocessExecutor(SubprocessConfig())
        async with Session(executor=executor) as session:
            return await session.run(code)

    assert asyncio.run(example()).value == "2"


def test_agents_crash_does_not_affect_the_caller(open_session, wait):
    session = open_session(cella.SubprocessExecutor())
    died = wait(session.run("import os; os.kill(os.getpid(), 11)"))
    assert (died.status, died.state) == ("crashed", "lost")
    assert wait(session.run("'still here'")).value == "'still here'"


def test_kept_environment_has_the_version_that_is_asked_for(open_session, wait, tmp_path):
    place = str(tmp_path / "venv")
    session = open_session(cella.SubprocessExecutor(venv_dir=place, value_of="last_expr_or_assign"))
    assert wait(session.run("import sys; where = sys.prefix")).value == repr(place)
    with pytest.raises(cella.ApiError, match=r"not 3\.7"):
        wait(open_session(cella.SubprocessExecutor(venv_dir=place, python_version="3.7")).run("1"))


def test_venv_without_ipykernel_is_refused_in_a_locked_session(open_session, wait, tmp_path):
    venv.create(tmp_path / "v", with_pip=False)
    with pytest.raises(cella.CellaError, match="-m pip install ipykernel"):
        wait(open_session(cella.SubprocessExecutor(venv_dir=str(tmp_path / "v"), allow_runtime_deps=False)).run("1"))
