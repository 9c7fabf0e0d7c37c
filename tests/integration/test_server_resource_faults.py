"""`cella serve` on a full or read-only disk, or without descriptors."""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from server import Session, raw_connection, serve, short_directory  # noqa: F401 (fixtures)
from support.running import IS_ROOT, wait_until

# What a pool makes ahead of demand would take what the test counts on.
NO_POOL = {"sessions": {"pool_shells": 0, "pool_parked": 0}}
TOKEN = "of-the-tests-of-full-disks"


class Disk:
    """A small file system in a mount namespace of its own, where servers come and go."""

    def __init__(self, directory, size):
        self.directory = directory
        script = f'mount -t tmpfs -o size={size},mode=700 none "$0" && echo mounted && exec cat'
        # An ordinary user is the root of a user namespace there.
        flags, enter = (["-m"], []) if IS_ROOT else (["-Urm"], ["-U", "--preserve-credentials"])
        self.process = subprocess.Popen(
            ["unshare", *flags, "/bin/sh", "-c", script, directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )
        self.through = ["nsenter", "-t", str(self.process.pid), "-m", *enter]
        assert self.process.stdout.readline() == b"mounted\n"
        # Its clients are not in the user namespace that an ordinary user's servers are in, so they need a token.
        self.options = {"through": self.through, "tokens": {"test": TOKEN}}
        self.seen = pathlib.Path(f"/proc/{self.process.pid}/root{directory}")  # from outside

    def fill(self):
        with open(self.seen / "fill", "ab", buffering=0) as file:
            for size in (1 << 16, 1 << 10, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(size))

    def free(self):
        (self.seen / "fill").unlink()

    def mount(self, how):
        subprocess.run([*self.through, "mount", "-o", f"remount,bind,{how}", self.directory], check=True)

    def end(self):
        self.process.communicate()


@pytest.fixture
def disk(short_directory):
    """Where the state of a server in `short_directory` is."""
    state = short_directory / "state"
    state.mkdir(mode=0o700)
    made = Disk(state, "16m")  # an eighth of it is the bound of the registry, which stays below
    yield made
    made.end()


def refused(answer):
    """A failure of the server's, told in words that help."""
    assert answer.status in (429, 500, 503, 507), answer
    assert "full" in answer.error(answer.status)["message"], answer


# A full disk


def ask_while_full(disk, session):
    """Every run was refused, or there was room for it: the registry's file has some of its own, and ended runs leave
    some behind. Returns those that were acknowledged."""
    acknowledged, refusals = [], 0
    for number in range(100):
        assert wait_until(lambda: session.show()["status"] == "idle")
        disk.fill()
        answer = session.client.post(session.path("runs"), code="'there was room'", wait=number % 2 == 0)
        if answer.status in (200, 202):
            acknowledged.append(answer.json()["id"])
            continue
        refused(answer)
        refusals += 1
        if refusals == 20:
            return acknowledged
    raise AssertionError("the disk does not become full")


def test_full_disk_refuses_new_runs_and_keeps_stored_ones(short_directory, disk, serve):
    server = serve(directory=short_directory, **disk.options)
    client = server.client(TOKEN)
    session = client.open()
    kept = session.run_and_keep("x = 40; print('kept')")
    with session.stream("for n in range(200): print('y' * 5000)\nx += 1\ninput()", input=True) as events:
        events.until("input_request")
        disk.fill()
        # Clients that are served stay served.
        assert client.post(session.path("input"), text="go on").status in (200, 202, 204)
        assert events.until("finished")[-1]["status"] == "ok"
    acknowledged = ask_while_full(disk, session)
    refused(client.post("/v1/sessions", name="n"))
    assert session.look(kept)["stdout"] == "kept\n"
    assert client.ask("PUT", session.path("files/f"), body=b"1").status == 201
    assert client.get("/health").expect(200)["status"] == "ok"
    disk.free()
    assert session.value("x + 1") == "42"
    assert client.open().value("'anew'") == "'anew'"
    server.kill()
    after = Session(serve(directory=short_directory, **disk.options).client(TOKEN), session.description)
    assert after.show()["status"] == "lost" and after.look(kept)["stdout"] == "kept\n"
    told = {run["id"]: run["status"] for run in after.runs()}
    assert told.keys() >= {kept, *acknowledged} and set(told.values()) <= {"ok", "lost"}, (told, acknowledged)
    assert len(told) == len(acknowledged) + 3, "what was refused is there"


def test_refused_run_was_not_executed(short_directory, disk, serve):
    """A client that is refused asks again, and the code would have run twice."""
    server = serve(directory=short_directory, **disk.options)
    session = server.client(TOKEN).open()
    session.run("import time; x = 0")
    answers = [session.client.post(session.path("runs"), code="x += 1; time.sleep(0.01)") for _ in fills(disk, 60)]
    told = [answer.status for answer in answers]
    assert set(told) <= {200, 429, 500, 503, 507} and told.count(200) < 30, told
    # The first that the registry cannot take may have begun meanwhile; then that is what it is told.
    unsure = sum(answer.status == 500 and answer.error(500)["code"] == "not_recorded" for answer in answers)
    assert unsure <= told.count(200) + 1, told
    disk.free()
    assert wait_until(lambda: session.show()["status"] == "idle")
    assert told.count(200) <= int(session.value("x")) <= told.count(200) + unsure


def fills(disk, times):
    for _ in range(times):
        disk.fill()
        yield


def test_output_filling_the_disk_is_truncated_and_freed_with_its_session(short_directory, disk, serve):
    server = serve(directory=short_directory, **disk.options)
    session = server.client(TOKEN).open(limits={"output": "16m"})
    other = server.client(TOKEN).open()
    other.run("x = 1")
    result = session.run("for n in range(150): print('x' * 79999)")
    assert result["status"] == "ok" and len(result["stdout"]) == 12_000_000
    assert list(session.events(result["id"]))[-1]["type"] == "finished"
    assert session.delete().status == 204
    assert wait_until(lambda: not any(result["id"] in name for name in os.listdir(disk.seen / "runs")))
    assert other.value("x") == "1"


@pytest.fixture
def disk_of_a_container(short_directory):
    """As large as /dev/shm is in a container."""
    state = short_directory / "state"
    state.mkdir(mode=0o700)
    made = Disk(state, "64m")
    yield made
    made.end()


def test_runs_with_much_output_do_not_fill_a_small_disk(short_directory, disk_of_a_container, serve):
    disk = disk_of_a_container
    server = serve(directory=short_directory, **disk.options)
    sessions = [server.client(TOKEN).open() for _ in range(2)]
    for number in range(60):
        result = sessions[number % 2].run(f"print({number}); print('x' * 3_000_000)")
        assert result["status"] == "ok" and len(result["stdout"]) > 1_000_000, number
    output = server.client(TOKEN).get(sessions[1].path("runs", result["id"], "output") + "?limit=3")
    assert output.status == 200 and output.body == b"59\n", output


def test_full_disk_is_swept_before_a_run_is_refused(short_directory, disk, serve):
    server = serve(directory=short_directory, **disk.options)
    session = server.client(TOKEN).open()
    kept = [session.run_and_keep(f"print({number}); print('x' * 60_000)") for number in range(4)]
    assert wait_until(lambda: len(list((disk.seen / "runs").iterdir())) >= 8)
    disk.fill()
    for number in range(4):
        assert session.client.post(session.path("runs"), code="'x' * 3000").status == 200, number
    # The files of the older runs went; their Results are in the registry.
    assert session.look(kept[0])["stdout"].startswith("0\n")
    assert session.client.get(session.path("runs", kept[0], "output")).status == 409


def test_session_deleted_on_a_full_disk_stays_deleted(short_directory, disk, serve):
    server = serve(directory=short_directory, **disk.options)
    session = server.client(TOKEN).open()
    ask_while_full(disk, session)
    answer = session.delete()
    if answer.status != 204:
        return refused(answer)
    assert server.client(TOKEN).get(session.path()).status == 404
    disk.free()
    server.kill()
    assert serve(directory=short_directory, **disk.options).client(TOKEN).get(session.path()).status == 404


def test_start_on_a_full_disk_reports_it_and_keeps_the_registry(short_directory, disk, serve):
    server = serve(directory=short_directory, **disk.options)
    session = server.client(TOKEN).open()
    run = session.run_and_keep("print('kept')")
    server.kill()
    disk.fill()
    hopeless = serve(directory=short_directory, **disk.options, ready=False)
    assert hopeless.finish() == 126
    assert str(short_directory / "state") in hopeless.words() and "full" in hopeless.words(), hopeless.words()
    disk.free()
    after = Session(serve(directory=short_directory, **disk.options).client(TOKEN), session.description)
    assert after.look(run)["stdout"] == "kept\n" and after.show()["status"] == "lost"


# A disk that cannot be written


def test_start_on_a_read_only_disk_reports_it_and_keeps_the_registry(short_directory, disk, serve):
    server = serve(directory=short_directory, **disk.options)
    session = server.client(TOKEN).open()
    run = session.run_and_keep("print('kept')")
    server.kill()
    disk.mount("ro")
    hopeless = serve(directory=short_directory, **disk.options, ready=False)
    assert hopeless.finish() == 126
    assert str(short_directory / "state") in hopeless.words() and "Read-only" in hopeless.words(), hopeless.words()
    disk.mount("rw")
    after = Session(serve(directory=short_directory, **disk.options).client(TOKEN), session.description)
    assert after.look(run)["stdout"] == "kept\n" and after.show()["status"] == "lost"


def test_runs_continue_when_their_logs_do_not_fit(serve):
    server = serve()
    session = server.client().open()
    shutil.rmtree(server.state / "runs")
    result = session.run("print('x' * 3_000_000); x = 1")
    assert result["status"] == "ok" and result["truncated"]["stdout"] > 0, result
    assert list(session.events(result["id"]))[-1]["type"] == "finished"
    assert session.value("x") == "1"


# No descriptors left


def test_server_out_of_descriptors_refuses_and_recovers(serve):
    server = serve(through=["prlimit", "--nofile=400:400"], config=NO_POOL)
    client = server.client()
    with client.connect() as early, contextlib.ExitStack() as stack:
        opened = []
        while (answer := early.ask("POST", "/v1/sessions", "{}")).status == 201:
            opened.append(Session(client, answer.json()))
            assert len(opened) < 100, "the limit does not hold"
        assert answer.status in (429, 503), answer
        assert re.search("open files|descriptor", answer.error(answer.status)["message"]), answer
        for _ in range(60):
            stack.enter_context(contextlib.closing(raw_connection(server.socket)))
        assert wait_until(lambda: len(os.listdir(f"/proc/{server.pid}/fd")) == 400)
        # Clients that are connected already are served.
        for session in opened:
            run = early.ask("POST", session.path("runs"), '{"code": "1 + 1"}')
            assert run.expect(200)["value"] == "2", run
        # A session that is being made needs about twice what one that lives does.
        for session in (opened.pop(), opened.pop(), opened.pop()):
            assert early.ask("DELETE", session.path()).status == 204
    assert opened[0].value("'still here'") == "'still here'"

    def opens():
        # It hears only now of those who left.
        answer = client.post("/v1/sessions")
        assert answer.status in (201, 429), answer
        return answer.status == 201 and opened.append(Session(client, answer.json())) is None

    assert wait_until(opens)
    assert opened[-1].value("'anew'") == "'anew'"


@pytest.mark.parametrize("limit", range(380, 410, 5))
def test_server_out_of_descriptors_at_any_step_stops_on_signal(serve, limit):
    server = serve(through=["prlimit", f"--nofile={limit}:{limit}"], config=NO_POOL)
    with server.client().connect() as early:
        while early.ask("POST", "/v1/sessions", "{}").status == 201:
            pass
    server.stop()
