"""Kernels that a server keeps ready: given away once, replaced, and gone with the server."""

import os
import re
import signal
import time

import pytest
from server import serve  # noqa: F401
from support.needs import require
from support.running import wait_until

pytestmark = pytest.mark.needs("jupyter")

WHERE = "import os, sys; print(os.getpid(), sys.prefix, 'used' in globals()); used = 1"


@pytest.fixture
def policy():
    return {"executor": "subprocess", "python": require("jupyter")["JUPYTER_PYTHON"], "system_packages": True}


@pytest.fixture
def started(serve):  # noqa: F811
    def start(**sessions):
        config = {
            "allow": {"executors": ["sandbox", "subprocess"], "pythons": ["/"], "whole_machine": True},
            "sessions": {"prestart": False, **sessions},
        }
        return serve(config=config)

    return start


def ready(client):
    text = client.get("/metrics").expect(200).decode()
    counted = re.findall(r"^cella_pooled_sessions{.*} (\S+)$", text, re.MULTILINE)
    assert counted, "a metric with another name: this proves nothing"
    return sum(map(int, counted))


def where(session):
    pid, prefix, used = session.run(WHERE)["stdout"].split()
    assert used == "False"
    return int(pid), prefix


def started_at(pid):
    """In clock ticks since the machine started."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return int(file.read().rpartition(")")[2].split()[19])


def test_second_session_gets_a_kernel_that_was_ready(started, policy):
    client = started().client()
    first = client.open(**policy)
    where(first)
    assert wait_until(lambda: ready(client) > 0, 30)
    asked = time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")
    pid, prefix = where(client.open(**policy))
    assert started_at(pid) < asked
    others = {where(client.open(**policy))[1] for _ in range(2)}
    assert len(others | {prefix}) == 3


def test_other_policies_get_no_foreign_kernel(started, policy):
    client = started().client()
    client.open(**policy)
    assert wait_until(lambda: ready(client) > 0, 30)
    other = client.open(**policy, env={"OTHER": "1"})
    assert other.run("import os; print(os.environ['OTHER'])")["stdout"] == "1\n"
    private = client.open(**policy, workdir="/tmp")
    assert private.run("import os; print(os.getcwd())")["stdout"] == "/tmp\n"


def test_ready_kernel_that_died_is_not_given_away(started, policy):
    server = started()
    client = server.client()
    first = client.open(**policy)
    own, _ = where(first)
    assert wait_until(lambda: ready(client) > 0, 30)
    kernels = [
        int(pid) for pid in os.listdir("/proc") if pid.isdigit() and int(pid) != own and is_kernel_of(server, pid)
    ]
    assert kernels
    for pid in kernels:
        os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in kernels), 10)
    assert client.open(**policy).run("print(6 * 7)")["stdout"] == "42\n"


def is_kernel_of(server, pid):
    # By its directory: a kernel that was forked has the command line of its zygote.
    try:
        place = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return False
    return place.endswith("/workspace") and f"-{server.pid}-" in place


def test_none_are_kept_where_the_operator_wants_none(started, policy):
    client = started(pool_parked=0).client()
    where(client.open(**policy))
    where(client.open(**policy))
    assert ready(client) == 0


def test_server_that_stops_ends_what_is_ready(started, policy):
    server = started()
    client = server.client()
    where(client.open(**policy))
    assert wait_until(lambda: ready(client) > 0, 30)
    server.stop()  # nothing of it stays
