"""Clocks that are elsewhere, or jump, around `cella serve`. The system's own clock is not a test's to set: what a jump
of it would do to the registry is done to the registry."""

import contextlib
import os
import pathlib
import signal
import sqlite3
import subprocess
import threading
import time

import pytest
from server import Session, serve, short_directory  # noqa: F401 (fixtures)
from support.leftovers import CGROUPS
from support.running import HAS_CGROUPS, IS_ROOT, wait_until

BOTH = {"allow": {"executors": ["sandbox", "local"]}}
YEAR = 365 * 24 * 3600
TOKEN = "outside-" + "x" * 32


class Island:
    """A pid namespace with servers of its own. Whether a process is alive is judged by clocks, so servers with other
    clocks must neither judge those of the machine nor be judged by them."""

    def __init__(self, serve):
        self._serve, self._started = serve, []
        flags, enter = ([], []) if IS_ROOT else (["-Ur"], ["-U", "--preserve-credentials"])
        script = "echo ready && exec cat"
        self.process = subprocess.Popen(
            ["unshare", *flags, "-m", "-p", "--fork", "--mount-proc", "/bin/sh", "-c", script],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )
        assert self.process.stdout.readline() == b"ready\n"
        self.init = child_of(self.process.pid)
        self._enter = ["nsenter", "-t", str(self.init), "-m", "-p", *enter]
        self.name = os.stat(f"/proc/{self.init}/ns/pid").st_ino

    def serve(self, *through, **options):
        """The tests' clients are outside of its namespaces, so they need a token."""
        server = self._serve(through=[*self._enter, *through], tokens={"test": TOKEN}, **options)
        self._started.append(server)
        return server

    def signal(self, server, number):
        """nsenter stays before the server, and ends as that does."""
        os.kill(child_of(server.pid), number)
        return server.finish()

    def groups(self):
        """Of all its servers, alive or dead. Those of others come and go meanwhile."""
        mine = f"cella-{self.name}-"
        return sorted(
            pathlib.Path(parent, name)
            for parent, names, _ in os.walk(CGROUPS) for name in names if name.startswith(mine)
        )

    def end(self):
        """Ends the processes that are left. No server outside may judge their groups."""
        os.kill(self.init, signal.SIGKILL)
        self.process.communicate()
        for server in self._started:
            server.finish()
        assert wait_until(self._remove_groups), self.groups()

    def _remove_groups(self):
        for path in self.groups():
            with contextlib.suppress(OSError):
                path.rmdir()
        return not self.groups()


def child_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


@pytest.fixture
def island(serve):
    made = Island(serve)
    yield made
    made.end()


def shifted(seconds):
    """A command whose argument has another monotonic clock."""
    return ["unshare", "-T", "--monotonic", str(seconds), "--boottime", str(seconds)]


def uptime():
    return int(time.clock_gettime(time.CLOCK_BOOTTIME))


@pytest.mark.parametrize("shift", [lambda: 10 * YEAR, lambda: 2 - uptime()], ids=["ten years up", "just booted"])
def test_timeouts_hold_with_a_shifted_boot_clock(short_directory, island, shift):
    server = island.serve(*shifted(shift()), directory=short_directory)
    session = server.client(TOKEN).open()
    brief = server.client(TOKEN).open(idle_timeout="500ms")
    started = time.monotonic()
    assert session.run("while True: pass", timeout=1)["status"] == "timeout"
    assert 0.9 < time.monotonic() - started < 5
    assert wait_until(lambda: server.client(TOKEN).get(brief.path()).json().get("status") == "closed", 5)
    assert session.value("1 + 1") == "2"
    # The next one is from long before or after.
    assert island.signal(server, signal.SIGKILL) == 137
    after = island.serve(directory=short_directory)
    lost = Session(after.client(TOKEN), session.description)
    assert lost.show()["status"] == "lost"
    assert lost.client.open().value("'works'") == "'works'"
    assert island.signal(after, signal.SIGTERM) == 0
    assert island.groups() == []


def test_server_with_a_shifted_boot_clock_sweeps_no_living_server(short_directory, island):
    temporary = short_directory / "tmp"
    temporary.mkdir()
    options = {"config": BOTH, "with_env": {"TMPDIR": str(temporary)}}
    server = island.serve(**options)
    session, local = server.client(TOKEN).open(), server.client(TOKEN).open(executor="local")
    session.run("x = 1")
    groups, directories = set(island.groups()), set(os.listdir(temporary))
    assert directories and bool(groups) == HAS_CGROUPS
    other = island.serve(*shifted(1000), **options)
    for executor in ("sandbox", "local"):
        assert other.client(TOKEN).open(executor=executor).run("print(1)")["status"] == "ok"
    assert set(island.groups()) >= groups and set(os.listdir(temporary)) >= directories
    assert session.value("x") == "1"
    assert local.run("print(1)")["status"] == "ok"


@pytest.mark.parametrize("years", [-10, 10])
def test_registry_with_timestamps_of_another_time_is_usable(short_directory, serve, years):
    """As if the system's clock had been set between two servers."""
    server = serve(directory=short_directory)
    session = server.client().open()
    run = session.run_and_keep("print('kept')")
    session.start("while True: pass")
    server.kill()
    with contextlib.closing(sqlite3.connect(server.state / "registry.db")) as database:
        columns = {"sessions": ["created_at", "closed_at"], "runs": ["created_at", "started_at", "ended_at"]}
        for table, names in columns.items():
            moved = ", ".join(f"{name} = {name} + {years * YEAR * 1000}" for name in names)
            database.execute(f"UPDATE {table} SET {moved}")
        database.commit()
    client = serve(directory=short_directory).client()
    after = Session(client, session.description)
    if years > 0:
        assert after.show()["status"] == "lost" and after.look(run)["stdout"] == "kept\n"
    else:
        # Older than the thirty days that things are kept.
        assert wait_until(lambda: client.get(after.path("runs", run)).status == 404)
    fresh = client.open()
    assert fresh.value("1 + 1") == "2"
    assert client.get("/v1/sessions").expect(200)["sessions"][0]["id"] == fresh.id


def test_stopped_and_continued_server_works(serve):
    """As a machine that was suspended: nothing happened, and all at once it is later than every deadline."""
    server = serve()
    session, brief = server.client().open(), server.client().open(idle_timeout="1s")
    session.run("x = 1")
    answers = []

    def wait_for(code, **more):
        answers.append(session.run(code, **more))

    clients = [
        threading.Thread(target=wait_for, args=("import time; time.sleep(0.3); x",)),
        threading.Thread(target=wait_for, args=("while True: pass",), kwargs={"timeout": 1}),
    ]
    for each in clients:
        each.start()
    assert wait_until(lambda: len(session.runs()) == 3)
    server.process.send_signal(signal.SIGSTOP)
    time.sleep(2.5)
    server.process.send_signal(signal.SIGCONT)
    for each in clients:
        each.join(15)
        assert not each.is_alive(), "a client waits for ever"
    assert sorted(answer["status"] for answer in answers) == ["ok", "timeout"], answers
    assert session.value("x") == "1"
    assert wait_until(lambda: server.client().get(brief.path()).json().get("status") == "closed", 5)
