"""kill -9 of `cella serve` at any moment, under load: nothing it acknowledged is forgotten, nothing of it stays."""

import concurrent.futures
import contextlib
import ctypes
import http.client
import itertools
import os
import pathlib
import random
import sqlite3
import time
from dataclasses import dataclass, field

import pytest
from server import Session, serve, short_directory  # noqa: F401 (fixtures)
from support.leftovers import assert_no_process, cgroups_of, mounts
from support.running import LONG, wait_until

KILLS = 50 if LONG else 10  # every tenth waits for the registry
ENDED = {"ok", "error", "timeout", "cancelled", "oom", "crashed", "limit", "rejected"}
GONE = (OSError, http.client.HTTPException)
CONFIG = {"allow": {"executors": ["sandbox", "local"]}}


@pytest.fixture
def orphans():
    """A process that loses its parent below this test becomes the test's child: none is missed, however late it started."""
    PR_SET_CHILD_SUBREAPER = 36
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield Orphans(set(children()))
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) == 0


def children():
    """(pid, state) of ours."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            state, parent = pathlib.Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[:2]
            if int(parent) == os.getpid():
                found[int(entry)] = state
    return found


class Orphans:
    def __init__(self, known):
        self.known = known

    def alive(self):
        """Those that have ended are waited for, which no other process does."""
        found = {}
        for pid, state in children().items():
            if pid in self.known:
                continue
            if state in "ZX":
                os.waitpid(pid, 0)
                continue
            with contextlib.suppress(OSError):
                found[pid] = pathlib.Path("/proc", str(pid), "cmdline").read_bytes()
        return found

    def assert_none(self, seconds=5.0):
        assert wait_until(lambda: not self.alive(), seconds), f"orphans: {self.alive()}"


@dataclass
class Ledger:
    """What a server acknowledged before it died."""

    sessions: dict = field(default_factory=dict)  # by id: "open", "deleting" (asked for), "deleted" (acknowledged)
    runs: list = field(default_factory=list)  # (session, run)
    answered: set = field(default_factory=set)  # runs whose Result a client has
    seen: dict = field(default_factory=dict)  # (session, run): [event] of those that were followed

    def run(self, session, run):
        self.runs.append((session.id, run))


class Load:
    """Clients that open, run, follow, upload and delete until the server is gone."""

    def __init__(self, client, token, seed):
        self.client, self.token = client, token
        self.ledger = Ledger()
        self.pool = concurrent.futures.ThreadPoolExecutor(5)
        kinds = (self._run, self._run, self._upload, self._stay_local, self._follow)
        self.working = [
            self.pool.submit(self._work, kind, random.Random(f"{seed}-{number}")) for number, kind in enumerate(kinds)
        ]

    def _work(self, kind, chance):
        with contextlib.suppress(*GONE):
            while True:
                kind(chance)

    def join(self):
        """What a client found wrong before the server died is raised here."""
        _, hanging = concurrent.futures.wait(self.working, 10)
        assert not hanging, "a client hangs on a dead server"
        self.pool.shutdown()
        for each in self.working:
            each.result()

    def _open(self, **policy):
        session = self.client.open(**policy)
        self.ledger.sessions[session.id] = "open"
        return session

    def _delete(self, session):
        self.ledger.sessions[session.id] = "deleting"
        assert session.delete().status == 204
        self.ledger.sessions[session.id] = "deleted"

    def _run(self, chance):
        codes = [
            "1", "print('x' * 100_000)", f"import subprocess; subprocess.Popen(['sleep', '60.{self.token}']); None",
            "import os; os._exit(3)", "import time; time.sleep(0.05)", "1 / 0", "while True: pass",
        ]
        session = self._open()
        for _ in range(chance.randrange(1, 5)):
            code = chance.choice(codes)
            if chance.random() < 0.5 and "while" not in code:
                result = session.run(code, timeout=5)
                self.ledger.answered.add(result["id"])
                self.ledger.run(session, result["id"])
            else:
                self.ledger.run(session, session.start(code, timeout=5))
        if chance.random() < 0.6:
            self._delete(session)

    def _upload(self, chance):
        session = self._open()
        for n in range(3):
            body = chance.randbytes(chance.randrange(400_000))
            assert self.client.ask("PUT", session.path("files", f"f{n}"), body=body).status == 201
            assert self.client.get(session.path("files", f"f{n}")).body == body
        if chance.random() < 0.6:
            self._delete(session)

    def _stay_local(self, chance):
        """Its files are in a directory of the host, and no pid namespace dies with it."""
        session = self._open(executor="local")
        code = f"import os, subprocess, sys; subprocess.Popen(['sleep', '60.{self.token}']); open('left', 'w')"
        self.ledger.run(session, session.start(code))
        self.ledger.run(session, session.start("import time; time.sleep(30)"))
        time.sleep(chance.random() * 0.1)
        self._delete(session)

    def _follow(self, chance):
        session = self._open()
        code = "import time\nfor n in range(10_000): print(n, flush=True); time.sleep(0.02)"
        seen = []
        with session.stream(code) as events, contextlib.suppress(ValueError):  # half a line is a server's last word
            for event in events:
                if not seen:
                    self.ledger.seen[session.id, event["run"]] = seen
                    self.ledger.run(session, event["run"])
                seen.append(event)


class Witness:
    """Looks whether the server that follows knows what the dead one acknowledged."""

    def __init__(self, client):
        self.client = client
        self.told = {}  # run: status

    def check(self, ledger, last_events=None):
        """The last are by run what the dead one's registry had; without them the events are not looked at."""
        for session, fate in ledger.sessions.items():
            self._check_session(session, fate)
        for session, run in ledger.runs:
            if ledger.sessions[session] == "open":
                assert self.told.get(run) in ENDED | {"lost"}, (session, run, self.told.get(run))
        if last_events is not None:
            for (session, run), seen in ledger.seen.items():
                self._check_last_events(session, run, seen, last_events.get(run, 0))

    def _check_session(self, session, fate):
        answer = self.client.get(f"/v1/sessions/{session}")
        if answer.status == 404 and fate != "open":
            return
        assert fate != "deleted", f"{session} was deleted and is back: {answer}"
        assert answer.expect(200)["status"] == "lost", answer
        for run in self.client.get(f"/v1/sessions/{session}/runs").expect(200)["runs"]:
            assert run["session"] == session, run
            self.told[run["id"]] = run["status"]

    def _check_last_events(self, session, run, seen, last):
        assert self.told[run] == "lost", run
        kept = {event["n"]: event for event in Session(self.client, {"id": session}).events(run)}
        expected = {event["n"]: event for event in seen}
        assert all(expected.get(n, event) == event for n, event in kept.items()), (kept, expected)
        if last:
            assert kept and max(kept) >= last, (sorted(kept), last)
            assert sorted(kept) == list(range(min(kept), max(kept) + 1)), sorted(kept)


def registered(server):
    """Which event of each run is the last that the registry has."""
    with contextlib.closing(sqlite3.connect(f"file:{server.state}/registry.db?mode=ro", uri=True)) as database:
        last = "SELECT id, max(run_events.number) FROM run_events JOIN runs ON runs.seq = run GROUP BY id"
        return dict(database.execute(last))


def wait_for_moment(chance, number, server, ledger):
    """Mostly soon; now and then when the registry has been told of events that a client has seen. Returns the last of
    those that it has."""
    time.sleep(chance.uniform(0, 0.35))
    if number % 10 != 9:
        return {}
    assert wait_until(lambda: any(len(events) > 20 for events in list(ledger.seen.values())))
    seen = {run: events[-1]["n"] for (_, run), events in list(ledger.seen.items()) if events}
    assert wait_until(lambda: all(registered(server).get(run, 0) >= n for run, n in seen.items())), seen
    return registered(server)


def assert_nothing_stays(server, pids, before):
    """Once a server that follows has opened a session: it has swept what the dead ones could not."""
    assert cgroups_of(pids) == [] and mounts() == before
    # The directory of a session that was just deleted goes with the answer that says so.
    assert wait_until(lambda: os.listdir(server.temporary) == []), (os.listdir(server.temporary), server.pid)
    files = {name for name in os.listdir(server.state) if not name.startswith("registry.db")}
    assert files <= {"runs", "environments"}
    assert os.listdir(server.state / "runs") == []


def test_killed_servers_lose_no_acknowledged_run_and_leave_nothing(short_directory, orphans, serve, token):
    seed = int(os.environ.get("CELLA_TEST_SEED") or random.randrange(1 << 32))
    print(f"CELLA_TEST_SEED={seed}")  # shown when it fails; with it the same moments come again
    chance = random.Random(seed)
    before = mounts()
    temporary = short_directory / "tmp"
    temporary.mkdir()

    def start(**options):
        return serve(directory=short_directory, config=CONFIG, with_env={"TMPDIR": str(temporary)}, **options)

    pids, ledgers = [], []
    for number in range(KILLS):
        if number % 5 == 4:
            # While it starts, and takes over what the one before it left.
            starting = start(ready=False)
            time.sleep(chance.uniform(0, 0.06))
            starting.kill()
            orphans.assert_none()
            pids.append(starting.pid)
        server = start()
        load = Load(server.client(), token, chance.random())
        assert wait_until(lambda load=load: load.ledger.runs or any(each.done() for each in load.working))
        last_events = wait_for_moment(chance, number, server, load.ledger)
        server.kill()
        load.join()
        orphans.assert_none()
        assert_no_process(token)
        pids.append(server.pid)
        ledgers.append(load.ledger)
        after = start()
        for executor in ("sandbox", "local"):
            fresh = after.client().open(executor=executor)
            assert fresh.run("print(1 + 1)")["stdout"] == "2\n"
            assert fresh.delete().status == 204
        assert_nothing_stays(after, pids, before)
        Witness(after.client()).check(load.ledger, last_events)
        after.kill()
        pids.append(after.pid)
        orphans.assert_none()
    last = start()
    witness = Witness(last.client())
    for ledger in ledgers:
        witness.check(ledger)
    runs = [run for ledger in ledgers for run in ledger.runs]
    answered = set().union(*(ledger.answered for ledger in ledgers))
    lost = sum(witness.told.get(run) == "lost" for run in answered)
    print(f"{len(runs)} runs; lost after their Result was told: {lost} of {len(answered)}")
    assert len(runs) > KILLS and any(ledger.seen for ledger in ledgers)
    last.stop()


@pytest.mark.parametrize("after", [None, 0, 2])
def test_events_of_a_lost_run_start_at_the_requested_number(short_directory, serve, after):
    server = serve(directory=short_directory)
    session = server.client().open()
    code = "import time\nfor n in range(5): print(n, flush=True); time.sleep(0.05)\ntime.sleep(60)"
    with session.stream(code) as live:
        seen = list(itertools.islice(live, 6))
    run = seen[0]["run"]
    assert wait_until(lambda: registered(server).get(run, 0) >= seen[-1]["n"]), registered(server)
    server.kill()
    lost = Session(serve(directory=short_directory).client(), session.description)
    assert lost.look(run)["status"] == "lost"
    assert list(lost.events(run, after)) == [event for event in seen if after is None or event["n"] > after]


def test_starting_server_sweeps_directories_of_a_dead_one(short_directory, serve):
    temporary = short_directory / "tmp"
    temporary.mkdir()
    options = {"directory": short_directory, "config": CONFIG, "with_env": {"TMPDIR": str(temporary)}}
    server = serve(**options)
    server.client().open(executor="local")
    assert len(os.listdir(temporary)) == 1
    server.kill()
    serve(**options)
    assert os.listdir(temporary) == []
