"""The wheel where there are no build tools: `make test-wheel`. Not in the default set: systems are fetched first."""

import os
import re

import pytest
from clean_machine import PATH, CleanMachine, make_system

import cella
from conftest import REPOSITORY
from support.running import wait_until

SUITES = ("bookworm", "trixie")
HOMES = {"root": "/root", "ada": "/home/ada"}

SYNCHRONOUS = """
from cella.sync import Session
with Session() as session:
    session.run("x = 6")
    print(session.run("x * 7").value, session.run("echo $((6 * 7))", language="bash").stdout.strip())
    isolation = session.run("import os; print(os.getuid())").isolation
    print(isolation["executor"], isolation["seccomp"], isolation["network"])
"""

ASYNCHRONOUS = """
import asyncio
from cella import Session
async def main():
    async with Session() as session:
        await session.run("x = 6")
        crashed = await session.run("import os; x = 0; os.kill(os.getpid(), 11)")
        print(crashed.status, crashed.state, (await session.run("x * 7")).value)
asyncio.run(main())
"""


@pytest.fixture(scope="session")
def wheel():
    made = REPOSITORY / f"dist/cella-{cella.__version__}-py3-none-manylinux_2_34_{os.uname().machine}.whl"
    assert made.is_file(), f"there is no {made}: `make wheel` makes it"
    return made


@pytest.fixture(scope="module", params=SUITES)
def machine(request, wheel):
    assert os.geteuid() == 0, "systems are made and entered by root: sudo make test-wheel"
    made = CleanMachine(make_system(request.param, REPOSITORY / "build" / "clean-roots"))
    try:
        made.succeed("useradd", "--create-home", "--key", "HOME_MODE=0700", "ada")
        made.put(wheel, f"/opt/{wheel.name}")
        yield made
    finally:
        made.close()


class Person:
    """A user with a virtual environment below a private home."""

    def __init__(self, machine, name):
        self.machine, self.name, self.home = machine, name, HOMES[name]
        self.environment = f"{self.home}/venv"

    def succeed(self, *command):
        path = f"{self.environment}/bin:{PATH}"
        return self.machine.succeed(*command, user=self.name, home=self.home, path=path)

    def files(self):
        return self.succeed("find", self.environment, "-ipath", "*cella*").split()


@pytest.fixture(scope="module", params=HOMES)
def person(request, machine, wheel):
    someone = Person(machine, request.param)
    someone.succeed("python3", "-m", "venv", someone.environment)
    someone.succeed("pip", "install", "--no-index", f"/opt/{wheel.name}")
    someone.succeed("mkdir", "-p", f"{someone.home}/.cache")
    return someone


@pytest.fixture(autouse=True)
def nothing_stays_there(person):
    before = person.machine.state()
    yield
    assert wait_until(lambda: person.machine.state() == before and not person.machine.cgroups(), 10), (
        before, person.machine.state(), person.machine.cgroups(),
    )


def test_the_machine_has_python_and_no_build_tools(machine):
    tools = "cc gcc g++ clang ld as make cmake ninja node git cella"
    found = machine.run("sh", "-c", f"for tool in {tools}; do command -v $tool; done; true")
    assert (found.exit_code, found.stdout) == (0, "")


def test_the_command_is_on_path(person):
    assert person.succeed("cella", "version") == f"cella {cella.__version__}\n"
    assert person.succeed("cella", "run", "-c", "print(1)") == "1\n"
    assert person.succeed("sh", "-c", "echo 2 | cella run -c 'print(input())'") == "2\n"


def test_a_synchronous_session(person):
    assert person.succeed("python", "-c", SYNCHRONOUS) == "42 42\nsandbox True none\n"


def test_an_asynchronous_session(person):
    assert person.succeed("python", "-c", ASYNCHRONOUS) == "crashed rolled_back 42\n"


def test_the_runners_were_compiled_when_installed(person):
    compiled = [path for path in person.files() if re.search(r"/cella_runner/__pycache__/\w+\.cpython-\d+\.pyc$", path)]
    assert len(compiled) == len([path for path in person.files() if re.search(r"/cella_runner/\w+\.py$", path)]) > 10


def test_uninstalling_leaves_nothing(person):
    """The last of them: what sessions wrote beside the programs would be found here."""
    assert person.files()
    person.succeed("pip", "uninstall", "--yes", "cella")
    assert person.files() == []
