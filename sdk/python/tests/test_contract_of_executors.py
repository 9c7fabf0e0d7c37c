"""Every case of the engine's contract, through this package. The synchronous twin is made from the asynchronous one, so
that two cases of each file are enough for it; `make test-long` runs all of them."""

import collections
import pathlib
import sys

import pytest

from conftest import REPOSITORY
from contract_driver import PackageDriver

sys.path.append(str(REPOSITORY / "tests" / "contract"))

from drivers import CELLS, EVERYWHERE
from support.running import LONG
from test_contract import CASES, take_step

DRIVERS = [
    PackageDriver(twin, executor, capabilities)
    for twin in ("async", "sync")
    for executor, capabilities in (
        ("sandbox", EVERYWHERE | CELLS | {"checkpoint", "deps", "jail"}), ("local", EVERYWHERE),
        ("inprocess", CELLS - {"magics"}),
    )
]


# The code shares the process of this test: what would end it, its directory, its signal handlers, its descriptors and
# its children are not the session's. The rows that are left out say so in docs/executors.md.
INPROCESS_FILES = ("display", "errors", "input", "interrupts", "output", "questions", "state", "values")
NOT_INPROCESS = {
    "a module of the workspace shows its own lines", "getpass sends a password request",
    "code may catch an interrupt and go on", "an interrupt reaches a subprocess that the code waits for",
    "signal handlers of the code work", "an alarm in a later run calls its handler",
    "writes below Python are captured, in order", "output of subprocesses is captured, in order",
    "Python's own output comes before a subprocess even unflushed", "C's own buffers are flushed",
    "a character split over two writes is complete", "a hundred megabytes of output do not fill memory",
    "invalid UTF-8 is replaced", "output beyond the limit keeps head and tail and counts the rest",
    "a thread that prints after its run does not disturb the next", "classes of a cell can be pickled",
    "reset forgets everything but the files", "reset ends background processes and threads",
    "the working directory is kept, and files are there", "environment variables that code sets are kept",
    # pytest has hooks of its own for these two
    "an exception in a thread is printed on stderr and ends nothing", "warnings go to stderr",
    "files are shared by the runs of a session", "the same warning in a later cell is seen again",
}


def is_fit_for_this_process(case):
    file = pathlib.PurePath(case.origin.partition(":")[0]).stem
    return (file in INPROCESS_FILES and case.name not in NOT_INPROCESS) or case.name.startswith("sys.exit")


def applies(case, driver):
    if driver.executor == "inprocess" and not is_fit_for_this_process(case):
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
