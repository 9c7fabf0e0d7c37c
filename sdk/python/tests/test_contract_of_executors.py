"""Every case of the engine's contract, through this package. The synchronous twin is made from the asynchronous one, so
that two cases of each file are enough for it; `make test-long` runs all of them."""

import collections
import sys

import pytest

from conftest import REPOSITORY
from contract_driver import PackageDriver

sys.path.append(str(REPOSITORY / "tests" / "contract"))

from drivers import CELLS, EVERYWHERE
from shared_process import is_fit_for_a_shared_process
from support.running import LONG
from test_contract import CASES, take_step

DRIVERS = [
    PackageDriver(twin, executor, capabilities)
    for twin in ("async", "sync")
    for executor, capabilities in (
        ("sandbox", EVERYWHERE | CELLS | {"checkpoint", "deps", "jail"}), ("local", EVERYWHERE),
        ("inprocess", CELLS | {"deps"}),
    )
]


def applies(case, driver):
    if driver.executor == "inprocess" and not is_fit_for_a_shared_process(case):
        return False
    executors = case.settings.get("executors", driver.executor).split()
    return set(case.needs) <= driver.capabilities and driver.executor in executors


def cases_for(driver):
    """All that apply; of the synchronous twin a sample, unless there is time."""
    seen = collections.Counter()
    for case in CASES:
        if applies(case, driver):
            file = case.origin.partition(":")[0]
            seen[file] += 1
            if LONG or driver.twin == "async" or seen[file] <= 2:
                yield case


PAIRS = [
    pytest.param(driver, case, id=f"{driver.name}-{case.name}") for driver in DRIVERS for case in cases_for(driver)
]


@pytest.mark.parametrize("driver, case", PAIRS)
def test_contract(driver, case):
    session = driver.open(case.settings)
    try:
        for number, step in enumerate(case.steps, 1):
            wrong = take_step(session, step, "state" in driver.capabilities)
            if wrong:
                place = f"{case.origin}, step {number} ({step.name}):\n{step.code[:500]}\n\n"
                pytest.fail(place + "\n".join(wrong), pytrace=False)
    finally:
        session.abandon()
