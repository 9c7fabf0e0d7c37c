"""One piece of code over all five executors: what is the same when the executor is switched, and the lifecycle."""

import pytest

import cella
from cella.execution import (
    ContainerExecutor,
    InProcessExecutor,
    LocalExecutor,
    SandboxExecutor,
    SubprocessExecutor,
)
from support.engine import Engine
from support.needs import require
from support.running import wait_until


def container():
    engine = Engine(require("docker"))
    return ContainerExecutor(engine=engine.host, image=engine.image, auth_disabled=True, timeout=20)


def subprocess_kernel():
    return SubprocessExecutor(python_version=require("jupyter")["JUPYTER_PYTHON"], default_timeout=20)


EXECUTORS = {
    "inprocess": lambda: InProcessExecutor(default_timeout=20),
    "local": lambda: LocalExecutor(default_timeout=20),
    "sandbox": lambda: SandboxExecutor(default_timeout=20),
    "subprocess": subprocess_kernel,
    "container": container,
}
MARKS = {"subprocess": [pytest.mark.needs("jupyter")], "container": [pytest.mark.needs("docker")]}
EACH = [pytest.param(make, id=name, marks=MARKS.get(name, [])) for name, make in EXECUTORS.items()]


@pytest.mark.parametrize("make", EACH)
def test_executors_can_be_switched_and_have_one_lifecycle(make, open_session, wait, twin):
    executor = make()
    session = open_session(executor=executor)
    assert session.executor == executor.config.executor
    # What it says before it is open holds afterwards.
    before = {word for word in ("state", "value", "input", "timeout") if session.supports(word)}
    wait(session.open())
    assert before == {word for word in ("state", "value", "input", "timeout") if session.supports(word)}
    assert not session.supports("no such word") and session.supports("timeout")

    result = wait(session.run("import sys; x = 20; print('out'); print('err', file=sys.stderr)"))
    assert (result.status, result.exit_code, result.stdout, result.stderr) == ("ok", 0, "out\n", "err\n")
    if session.supports("state"):
        assert wait(session.run("x + 1")).value == "21"
        failed = wait(session.run("1 / 0"))
        assert (failed.error.name, failed.state) == ("ZeroDivisionError", "kept")
    failed = wait(session.run("raise SystemExit(3)"))
    assert (failed.status, failed.exit_code) == ("error", 3)
    stopped = wait(session.run("import time\nfor _ in range(600): time.sleep(0.05)", timeout=0.3))
    assert (stopped.status, stopped.exit_code) == ("timeout", 124)
    assert wait(session.run("print('again')")).stdout == "again\n"

    info = wait(session.info())
    assert (info["executor"], info["status"]) == (session.executor, "idle")
    usage = info["usage"]
    assert usage["alive"] is True and set(usage) == {"alive", "memory", "cpu_ms", "processes"}
    if session.supports("state"):
        assert usage["memory"] > 0 and usage["cpu_ms"] > 0 and usage["processes"] >= 1, usage
        wait(session.reset())
        assert wait(session.run("x")).error.name == "NameError"
        assert wait(session.info())["usage"]["alive"] is True

    twin.close(session)
    with pytest.raises(cella.SessionClosed):
        wait(session.run("1"))


def test_usage_in_this_process_follows_its_threads(open_session, wait):
    session = open_session(executor=InProcessExecutor())
    wait(session.run("import time; end = time.thread_time() + 0.2\nwhile time.thread_time() < end: pass"))
    usage = wait(session.info())["usage"]
    assert usage["alive"] is True and usage["processes"] == 1
    assert usage["cpu_ms"] >= 200 and usage["memory"] > 1 << 20

    def grown():
        return wait(session.info())["usage"]["cpu_ms"] > usage["cpu_ms"] + 50

    burn = "def burn():\n    while not over: pass\nover = False\n"
    wait(session.run(burn + "import threading\nthreading.Thread(target=burn).start()"))
    assert wait_until(grown, 10)
    wait(session.run("over = True"))

