"""Every case against every executor that has what the case needs."""

import os
import pathlib
import tempfile

import pytest
from case_file import read_cases
from drivers import CELLS, EVERYWHERE, CppLibrary, PlainProcess, command_line_drivers
from http_driver import Http
from judge import judge_operation, judge_run
from shared_process import is_fit_for_a_shared_process
from support import cella as program
from support.leftovers import cgroups_of, mounts
from support.running import LONG

CASES = read_cases(pathlib.Path(__file__).parent / "cases")
HOME = tempfile.TemporaryDirectory(prefix="cella-home-")
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": HOME.name, "LANG": "C.UTF-8"}
# What cella.h has: no questions about names.
CPP = CELLS - {"questions"}
LIBRARY_DRIVERS = [
    CppLibrary("sandbox", EVERYWHERE | CPP | {"checkpoint", "jail", "storage"}, program.program(), ENVIRONMENT),
    CppLibrary("inprocess", CPP, program.program(), ENVIRONMENT, rolls_back=False),
]
DRIVERS = [
    *command_line_drivers(program.program(), ENVIRONMENT),
    Http("inprocess", CELLS | {"deps"}, program.program(), ENVIRONMENT, PlainProcess.different),
    *LIBRARY_DRIVERS,
]


@pytest.fixture(scope="session", autouse=True)
def ended_drivers():
    yield
    for driver in DRIVERS:
        driver.end()


# Drivers whose sessions take a tenth of a second or more to start: `make test` runs every fourth or eighth case there,
# not the same with and without a jail.
SAMPLED = {"subprocess-jail": (8, 2)}


def is_sampled(driver, number):
    every, first = SAMPLED.get(driver.label, (4, 0))
    return not driver.needs or number % every == first


# Of the languages that the cases use.
STATELESS = ("c", "ruby", "sh")


def applies(case, driver):
    if case.name in driver.different:
        return False
    if driver.label == "inprocess-cpp" and not is_fit_for_a_shared_process(case):
        return False
    return set(case.needs) <= driver.capabilities and driver.name in case.settings.get("executors", driver.name).split()


# What holds a limit, and what a crash leaves, depends on who runs it: an ordinary user may have no cgroups.
LIMITS = {"memory", "pids", "disk"}


def marks_of(case, driver):
    if driver.needs:
        return [pytest.mark.needs(driver.needs)]
    if driver in LIBRARY_DRIVERS:
        reason = "needs cella-repl-cpp: build it first"
        return [pytest.mark.skipif(not driver.exists and "CELLA_TESTS_MUST_RUN" not in os.environ, reason=reason)]
    return [pytest.mark.as_user] if {"jail", "checkpoint"} & set(case.needs) or LIMITS & set(case.settings) else []


PAIRS = [
    pytest.param(driver, case, id=f"{driver.label or driver.name}-{case.name}", marks=marks_of(case, driver))
    for driver in DRIVERS
    for number, case in enumerate(CASES)
    if applies(case, driver) and (LONG or is_sampled(driver, number))
]


def take_step(session, step, keeps_state, rolls_back=True):
    """What was not as expected, in words."""
    if step.name != "run":
        return judge_operation(session.operate(step.name, step.code or " ".join(step.words)), step)
    settings = dict(step.settings)
    code = step.code
    if "repeat" in settings:
        code = (code + "\n") * settings.pop("repeat")
    language = step.words[0] if step.words else "python"
    result = session.run(code, language=language, replies=step.replies, reactions=step.reactions, **settings)
    return judge_run(result, step, keeps_state and language not in STATELESS, rolls_back)


@pytest.mark.parametrize("driver, case", PAIRS)
def test_contract(cella, driver, case):
    before = mounts()
    session = driver.open(case.settings)
    try:
        for number, step in enumerate(case.steps, 1):
            wrong = take_step(session, step, "state" in driver.capabilities, driver.rolls_back)
            if wrong:
                place = f"{case.origin}, step {number} ({step.name}):\n{step.code[:500]}\n\n"
                pytest.fail(place + "\n".join(wrong), pytrace=False)
        session.close()
    finally:
        session.abandon()
    assert mounts() == before


def test_every_case_that_is_different_somewhere_exists():
    known = {case.name for case in CASES}
    assert not set().union(*(driver.different for driver in DRIVERS)) - known


def test_every_needed_capability_is_defined():
    # Of these sdk/python/tests/test_contract_of_namespaces.py has the drivers.
    known = {"tools", "manycalls"}.union(*(driver.capabilities for driver in DRIVERS))
    unknown = {need for case in CASES for need in case.needs} - known
    assert not unknown, f"no executor has {unknown}: a word misspelt?"


def test_every_case_ends_with_a_successful_run():
    """The last step is a run that succeeds, and that is not the one which did the damage."""
    for case in CASES:
        last = case.steps[-1]
        fails = any(expectation.path == "status" and expectation.wanted != "ok" for expectation in last.expectations)
        assert last.name == "run" and not fails and len(case.steps) > 1, f"{case.origin}: {case.name}"
