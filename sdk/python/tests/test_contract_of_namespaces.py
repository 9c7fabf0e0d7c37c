"""The contract's cases about what code has of its caller (tools, artifacts, workflows, values, packages), in every
executor whose code is Python."""

import asyncio
import collections
import shutil
import sys
import tempfile
import threading
import time

import pytest

import cella
import cella.sync
from conftest import REPOSITORY
from contract_driver import AsyncConversation, Conversation, PackageDriver
from support.needs import require
from support.running import LONG

sys.path.append(str(REPOSITORY / "tests" / "contract"))

from drivers import CELLS
from test_contract import CASES, take_step

END = threading.Event()


def lend(session):
    """What the cases say of the functions."""

    @session.tool
    def add(a: int, b: int = 2) -> int:
        """Adds two numbers."""
        return a + b

    @session.tool
    def echo(value):
        return value

    @session.tool
    async def later(value):
        await asyncio.sleep(0.01)
        return value

    @session.tool
    def fail(text: str):
        raise KeyError(text)

    @session.tool
    def nan():
        return float("nan")

    @session.tool
    def large(n: int) -> str:
        return "x" * n

    @session.tool(timeout=0.2)
    def slow():
        END.wait(20)

    @session.tool
    def hang():
        # In the synchronous twin the thread that waits for the run serves the call, and cannot leave it.
        for _ in range(200):
            time.sleep(0.01)

    @session.tool
    def nested():
        answer = session.run("1")
        return asyncio.run(answer) if asyncio.iscoroutine(answer) else answer


FIELDS = {
    "sandbox": lambda: {"python_version": "/usr/bin/python3"},
    "inprocess": dict,
    "subprocess": lambda: {"python_version": require("jupyter")["JUPYTER_PYTHON"]},
    "subprocess-jail": lambda: {"python_version": require("jupyter")["JUPYTER_PYTHON"], "jail": True},
    "container": lambda: container_fields(require("docker")),
}
# cmake/Tests.cmake reads these marks.
JUPYTER, DOCKER = pytest.mark.needs("jupyter"), pytest.mark.needs("docker")
MARKS = {"subprocess": JUPYTER, "subprocess-jail": JUPYTER, "container": DOCKER}


def container_fields(engine):
    fields = {"engine": engine["DOCKER_HOST"], "image": engine["CELLA_TEST_IMAGE"]}
    return {**fields, "auth_disabled": True, "allow_runtime_deps": True}


class ToolDriver(PackageDriver):
    def __init__(self, twin, place, capabilities):
        super().__init__(twin, place.partition("-")[0], capabilities)
        self.name = f"{twin}-{place}"
        self.place = place

    def open(self, settings):
        fields = FIELDS[self.place]()
        made = cella_executor(self.executor, {**fields, **timeout_of(self.executor, settings)})
        directory = tempfile.mkdtemp(prefix="cella-storage-") if "storage" in settings else None
        kind = WithStorage if self.twin == "sync" else AsyncWithStorage
        try:
            conversation = kind(made, directory)
        except BaseException:
            shutil.rmtree(directory or "", ignore_errors=True)
            raise
        lend(conversation._session)
        return conversation


class WithStorage(Conversation):
    """Of a session whose storage lasts as long as it."""

    def __init__(self, executor, directory):
        self._directory = directory
        super().__init__(executor)

    def make(self, executor):
        storage = None if self._directory is None else cella.FileStorage(self._directory)
        return self.kind(storage, executor)

    kind = staticmethod(cella.sync.Session)

    def close(self):
        super().close()
        shutil.rmtree(self._directory or "", ignore_errors=True)


class AsyncWithStorage(WithStorage, AsyncConversation):
    kind = staticmethod(cella.Session)


def timeout_of(executor, settings):
    if "timeout" not in settings:
        return {}
    return {"timeout" if executor == "container" else "default_timeout": settings["timeout"]}


def cella_executor(name, fields):
    kinds = {
        "sandbox": cella.SandboxExecutor, "inprocess": cella.InProcessExecutor, "subprocess": cella.SubprocessExecutor,
        "container": cella.ContainerExecutor,
    }
    return kinds[name](**fields)


# Ten thousand calls are made where they are fast.
DRIVERS = [
    ToolDriver(twin, place, CELLS | {"tools", "storage", "deps"} | more)
    for twin in ("async", "sync")
    for place, more in (
        ("sandbox", {"manycalls", "jail"}), ("inprocess", {"manycalls"}), ("subprocess", set()),
        ("subprocess-jail", set()), ("container", set()),
    )
    if LONG or twin == "async" or place in ("sandbox", "inprocess")
]
# IPython shows another line of %pip in tracebacks.
PIP_LINES = {"pip does not take what the operator decides"}
DIFFERENT = {
    # Code in this process has functions of the package in the place of a socket. Its children are the caller's:
    # their pip would install into the caller's environment.
    "inprocess": PIP_LINES | {
        "an unknown operation is an error", "child processes reach the storage", "pip is a command of shell scripts",
        "threads and child processes reach deps",
    },
    "subprocess": PIP_LINES,
    "subprocess-jail": PIP_LINES,
}
NAMESPACES = {"tools", "variables", "storage", "deps"}


def applies(case, driver):
    return (
        NAMESPACES & set(case.needs)
        and set(case.needs) <= driver.capabilities
        and case.name not in DIFFERENT.get(driver.place, ())
    )


PAIRS = [
    pytest.param(
        driver, case, id=f"{driver.name}-{case.name}",
        marks=[MARKS[driver.place]] if driver.place in MARKS else [],
    )
    for driver in DRIVERS
    for case in CASES
    if applies(case, driver)
]


@pytest.mark.parametrize("driver, case", PAIRS)
def test_contract_of_namespaces(driver, case):
    session = driver.open(case.settings)
    try:
        assert session._session.supports("calls")
        for number, step in enumerate(case.steps, 1):
            wrong = take_step(session, step, True, False)
            if wrong:
                place = f"{case.origin}, step {number} ({step.name}):\n{step.code[:500]}\n\n"
                pytest.fail(place + "\n".join(wrong), pytrace=False)
    finally:
        session.abandon()


def test_forty_cases_of_the_namespaces_run_in_every_executor():
    spaces = ("tools", "storage", "deps")
    asked = [pair.values for pair in PAIRS if pair.values[0].twin == "async"]
    counted = {
        space: collections.Counter(driver.place for driver, case in asked if space in case.needs) for space in spaces
    }
    assert all(set(each) == set(FIELDS) for each in counted.values()), counted
    assert min(sum(counted.values(), collections.Counter()).values()) >= 40, counted
