"""Every case against every executor that has what the case needs."""

import pathlib
import tempfile

import pytest
from case_file import read_cases
from drivers import command_line_drivers
from judge import judge_operation, judge_run
from support import cella as program
from support.leftovers import cgroups_of, mounts

CASES = read_cases(pathlib.Path(__file__).parent / "cases")
HOME = tempfile.TemporaryDirectory(prefix="cella-home-")
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": HOME.name, "LANG": "C.UTF-8"}
DRIVERS = command_line_drivers(program.program(), ENVIRONMENT)


# Of the languages that the cases use.
STATELESS = ("c", "ruby", "sh")


def applies(case, driver):
    return set(case.needs) <= driver.capabilities and driver.name in case.settings.get("executors", driver.name).split()


# What holds a limit, and what a crash leaves, depends on who runs it: an ordinary user may have no cgroups.
LIMITS = {"memory", "pids", "disk"}


def marks_of(case):
    return [pytest.mark.as_user] if {"jail", "checkpoint"} & set(case.needs) or LIMITS & set(case.settings) else []


PAIRS = [
    pytest.param(driver, case, id=f"{driver.name}-{case.name}", marks=marks_of(case))
    for driver in DRIVERS
    for case in CASES
    if applies(case, driver)
]


def take_step(session, step, keeps_state):
    """What was not as expected, in words."""
    if step.name != "run":
        return judge_operation(session.operate(step.name, step.code or " ".join(step.words)), step)
    settings = dict(step.settings)
    code = step.code
    if "repeat" in settings:
        code = (code + "\n") * settings.pop("repeat")
    language = step.words[0] if step.words else "python"
    result = session.run(code, language=language, replies=step.replies, reactions=step.reactions, **settings)
    return judge_run(result, step, keeps_state and language not in STATELESS)


@pytest.mark.parametrize("driver, case", PAIRS)
def test_contract(cella, driver, case):
    before = mounts()
    session = driver.open(case.settings)
    try:
        for number, step in enumerate(case.steps, 1):
            wrong = take_step(session, step, "state" in driver.capabilities)
            if wrong:
                place = f"{case.origin}, step {number} ({step.name}):\n{step.code[:500]}\n\n"
                pytest.fail(place + "\n".join(wrong), pytrace=False)
        session.close()
    finally:
        session.abandon()
    assert mounts() == before


def test_every_need_is_known():
    known = set().union(*(driver.capabilities for driver in DRIVERS))
    unknown = {need for case in CASES for need in case.needs} - known
    assert not unknown, f"no executor has {unknown}: a word misspelt?"


def test_every_case_ends_with_proof_that_the_session_works():
    """The last step is a run that succeeds, and that is not the one which did the damage."""
    for case in CASES:
        last = case.steps[-1]
        fails = any(expectation.path == "status" and expectation.wanted != "ok" for expectation in last.expectations)
        assert last.name == "run" and not fails and len(case.steps) > 1, f"{case.origin}: {case.name}"
