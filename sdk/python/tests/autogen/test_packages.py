"""pip in blocks of the jailed executor: what it adds is there for later blocks and calls."""

from __future__ import annotations

import asyncio
import pathlib
import venv

import pytest
from autogen_core.code_executor import FunctionWithRequirements, FunctionWithRequirementsStr
from lab import OURS, Lab, execute

pytestmark = pytest.mark.needs("network-index")

FIND = "import importlib.util\nprint(importlib.util.find_spec('cowsay') is not None)"


@pytest.fixture(autouse=True)
def state(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELLA_STATE_DIR", str(tmp_path / "state"))


def test_pip_block_installs_for_later_blocks_and_calls(sandbox: Lab) -> None:
    async def calls() -> None:
        async with sandbox.make() as executor, sandbox.make() as other:
            result = await execute(executor, ("sh", "pip install cowsay"), ("python", FIND))
            assert (result.exit_code, result.output) == (0, "True\n"), result.output
            assert (await execute(executor, ("sh", f'python3 -c "{FIND.replace(chr(10), ";")}"'))).output == "True\n"
            assert (await execute(other, ("python", FIND))).output == "False\n"
            # The session of a call that was killed is not used again.
            slow = sandbox.make(timeout=1)
            slow._places = executor._places
            assert (await execute(slow, ("python", "while True: pass"))).exit_code == 124
            assert (await execute(executor, ("python", FIND))).output == "True\n"
            await executor.restart()
            assert (await execute(executor, ("python", FIND))).output == "False\n"

    asyncio.run(calls())


@pytest.mark.parametrize("kind", OURS)
def test_block_of_the_seed_installs_matplotlib(kind: str, tmp_path: pathlib.Path) -> None:
    """As AutoGen's documentation has it: an environment in the working directory, a block with pip, code that draws."""
    work_dir = tmp_path / "coding"
    work_dir.mkdir()
    builder = venv.EnvBuilder(with_pip=True)
    builder.create(work_dir / ".venv")
    context = builder.ensure_directories(work_dir / ".venv")
    draw = """
import matplotlib
matplotlib.use("agg")
import matplotlib.pyplot as plt
plt.plot([1, 2])
plt.savefig("plot.png")
print(matplotlib.__name__)
"""

    async def calls() -> None:
        lab = Lab(kind, work_dir)
        async with lab.make(virtual_env_context=context, timeout=180) as executor:
            assert (await execute(executor, ("python", "import matplotlib"))).exit_code == 1
            installed = await execute(executor, ("bash", "pip install matplotlib"))
            assert installed.exit_code == 0, installed.output
            drawn = await execute(executor, ("python", draw))
            assert drawn.exit_code == 0 and drawn.output.endswith("matplotlib\n"), drawn.output
            assert (work_dir / "plot.png").read_bytes().startswith(b"\x89PNG")

    asyncio.run(calls())


def _functions(*packages: str) -> list[FunctionWithRequirementsStr]:
    text = "def speak() -> str:\n    return cowsay.__name__"
    return [FunctionWithRequirements.from_str(text, python_packages=list(packages), global_imports=["cowsay"])]


def test_packages_of_functions_are_those_of_all_calls_of_the_executor(sandbox: Lab) -> None:
    speak = "from functions import speak\nprint(speak())"
    hear = "import socket\ntry:\n    socket.create_connection(('1.1.1.1', 53), 1)\nexcept OSError:\n    print('none')"

    async def calls() -> None:
        async with sandbox.make(functions=_functions("cowsay>=5"), timeout=60) as executor, sandbox.make() as other:
            assert (await execute(executor, ("python", speak))).output == "cowsay\n"
            assert (await execute(executor, ("python", hear))).output == "none\n"
            assert (await execute(other, ("python", FIND))).output == "False\n"
            assert (await execute(executor, ("sh", "pip install -q six"), ("python", "import six"))).exit_code == 0
            await executor.restart()
            assert (await execute(executor, ("python", speak))).output == "cowsay\n"
            assert (await execute(executor, ("python", "import six"))).exit_code == 1
            await executor.stop()
            assert (await execute(executor, ("python", speak))).output == "cowsay\n"

    asyncio.run(calls())


def test_package_of_functions_that_the_index_lacks_is_an_error(sandbox: Lab) -> None:
    with pytest.raises(ValueError, match=r"Pip install failed.*cella-no-such-package-8f3a"):
        sandbox.python("print(1)", functions=_functions("cella-no-such-package-8f3a"), timeout=60)


def test_pip_block_that_fails_is_the_result(sandbox: Lab) -> None:
    result = sandbox.run(("sh", "pip install cella-no-such-package-8f3a"), ("python", "print(1)"))
    assert result.exit_code == 1 and "cella-no-such-package-8f3a" in result.output
