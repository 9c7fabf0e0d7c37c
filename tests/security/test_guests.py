"""Every attack twice: outside it must succeed, so that it is one; in the jail it must end as its case says."""

import concurrent.futures
import json
import os
import pathlib
import platform
import re
import signal

import conftest
import pytest
from cases import ALL
from support.cella import PYTHON, run_bounded
from support.victims import Scene

HERE = pathlib.Path(__file__).resolve().parent
CONTROL = HERE.parent / "support" / "control.py"
IS_ROOT = os.geteuid() == 0

INSIDE = [case for case in ALL if case.machine in ("", platform.machine()) and (IS_ROOT or not case.root_victim)]
OUTSIDE = [case for case in INSIDE if IS_ROOT or not case.root_only]


def bundle(guest):
    """One file that carries guests/attack.py along."""
    library = (HERE / "guests" / "attack.py").read_text()
    return (
        "import sys as _sys, types as _types\n"
        "_module = _sys.modules['attack'] = _types.ModuleType('attack')\n"
        f"exec(compile({library!r}, 'attack.py', 'exec'), _module.__dict__)\n"
        f"exec(compile({(HERE / 'guests' / (guest + '.py')).read_text()!r}, '{guest}.py', 'exec'))\n"
    )


def verdict(stdout, exit_code):
    words = re.findall(r"^RESULT: (.*)$", stdout, re.MULTILINE)
    if words:
        return words[-1]
    if 128 < exit_code < 128 + signal.NSIG:
        return f"signal {signal.Signals(exit_code - 128).name}"
    return f"no result, exit {exit_code}"


def write_source(case, scene):
    path = scene.directory / f"{case.guest}.py"
    path.write_text(bundle(case.guest))
    # Some controls give up root before they read it.
    path.chmod(0o644)
    return path


def run_outside(case):
    with Scene(case.victims) as scene:
        scratch = scene.directory / "scratch"
        scratch.mkdir()
        args = scene.fill(case.args if case.control_args is None else case.control_args)
        argv = [PYTHON, str(write_source(case, scene)), *args]
        spec = {"argv": argv, "scratch": str(scratch), "cwd": scene.cwd, "share": case.share, **dict(case.control)}
        finished = run_bounded([PYTHON, "-I", "-S", str(CONTROL), json.dumps(spec)], **scene.start())
        return verdict(finished.text(), finished.exit_code), finished


def run_inside(case, cella):
    with Scene(case.victims) as scene:
        source = write_source(case, scene)
        finished = cella.run_python(source, *scene.fill(case.args), flags=scene.flags, cwd=scene.cwd, **scene.start())
        scene.verify()
        return verdict(finished.result()["stdout"], finished.exit_code), finished


@pytest.fixture(scope="session")
def attacks(request):
    """Runs what was selected on all cores; a test waits for its own case. Returns test name -> future."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        futures = {}
        for item in request.session.items:
            if getattr(item, "originalname", "") == "test_attack_succeeds_outside":
                futures[item.name] = pool.submit(run_outside, item.callspec.params["case"])
            elif getattr(item, "originalname", "") == "test_jail_withstands":
                cella = request.getfixturevalue("cella")
                futures[item.name] = pool.submit(run_inside, item.callspec.params["case"], cella)
        yield futures
        for future in futures.values():
            future.cancel()


def by_name(cases):
    return pytest.mark.parametrize("case", cases, ids=[case.name for case in cases])


@by_name(OUTSIDE)
def test_attack_succeeds_outside(case, attacks, request):
    word, finished = attacks[request.node.name].result()
    if word == "unbuilt" and case.may_be_unbuilt:
        conftest.UNBUILT.append(case.name)
        return
    assert word == "ok", f"{case.attack}: proves nothing here, outside the guest saw {word}\n{finished.describe()}"


@by_name(INSIDE)
def test_jail_withstands(case, attacks, request):
    word, finished = attacks[request.node.name].result()
    wanted = " or ".join(case.expect)
    assert word in case.expect, f"{case.attack}: {case.layer} gives {wanted}, but got {word}\n{finished.describe()}"


def test_every_guest_is_used():
    files = {path.stem for path in (HERE / "guests").glob("*.py")} - {"attack"}
    used = {case.guest for case in ALL}
    assert len(used) >= 50
    assert len({case.name for case in ALL}) == len(ALL), "two cases have one name"
    # The daemon has no case: it is the guest of test_cleanup.py.
    assert files == used | {"daemon"}
