"""A process that the kernel does not let die must not hold up the session that it belongs to. A frozen group of cgroup v1
stands for uninterruptible sleep: what is in it does not even take SIGKILL."""

import contextlib
import os
import pathlib
import secrets
import time

import pytest
from server import serve  # noqa: F401 (fixture)
from support.descendants import Family
from support.leftovers import cgroups_of
from support.running import wait_until

FREEZER = pathlib.Path("/sys/fs/cgroup/freezer")

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not FREEZER.joinpath("tasks").exists(), reason="needs root and the freezer of cgroup v1"
)


@contextlib.contextmanager
def frozen(pids):
    group = FREEZER / f"cella-test-{secrets.token_hex(4)}"
    group.mkdir()
    state = group / "freezer.state"
    try:
        for pid in pids:
            group.joinpath("cgroup.procs").write_text(str(pid))
        state.write_text("FROZEN")
        assert wait_until(lambda: state.read_text().strip() == "FROZEN")
        yield
    finally:
        state.write_text("THAWED")
        assert wait_until(lambda: not group.joinpath("tasks").read_text().strip())
        group.rmdir()


def everything_below(pid):
    family = Family(pid)
    found, open_ = [], [pid]
    while open_:
        for child in family.children(open_.pop()):
            found.append(child)
            open_.append(child)
    return found


def test_session_whose_processes_cannot_die_is_closed_within_seconds(serve):  # noqa: F811 (fixture)
    server = serve(config={"sessions": {"pool_shells": 0, "pool_parked": 0}})
    client = server.client()
    before = set(everything_below(server.pid))
    session = client.open()
    assert session.value("1 + 1") == "2"
    # The maker and its zygote are shared; what belongs to the session alone is in its jail.
    marked = set(everything_below(server.pid)) - before
    inits = {pid for pid in marked if pid_number_inside(pid) == 1 and depth(pid) == 3}
    assert len(inits) == 1, {pid: (depth(pid), pid_number_inside(pid)) for pid in marked}
    with frozen(inits):
        start = time.monotonic()
        session.delete().expect(204)
        assert time.monotonic() - start < 20
        # And the server goes on.
        other = client.open()
        assert other.value("2 + 2") == "4"
        other.delete().expect(204)
    server.process.terminate()
    assert server.finish() == 0
    # Its group could not be removed then; the next server does that.
    server.socket.unlink(missing_ok=True)
    serve(directory=server.directory)
    assert cgroups_of([server.pid]) == []


def numbers(pid):
    """Of the process in each pid namespace that it is in, from ours down."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("NSpid:"):
            return [int(word) for word in line.split()[1:]]
    return []


def depth(pid):
    return len(numbers(pid))


def pid_number_inside(pid):
    return numbers(pid)[-1]
