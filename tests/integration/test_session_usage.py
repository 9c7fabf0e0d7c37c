"""What a session uses now: over HTTP, on the command line and in the REPL."""

import os

import pytest
from server import serve  # noqa: F401 - a fixture
from support.cella import run_bounded
from support.running import wait_until

pytestmark = pytest.mark.as_user

EVERY = {"allow": {"executors": ["sandbox", "local", "inprocess"]}}
MEGABYTES = "x = bytearray(100 << 20); x[::4096] = b'1' * len(x[::4096])"
BURN = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
CHILDREN = "import subprocess; kept = [subprocess.Popen(['sleep', '60']) for _ in range(3)]"


@pytest.fixture
def client(serve):  # noqa: F811
    return serve(config=EVERY).client()


@pytest.mark.parametrize("executor", ["sandbox", "inprocess"])
def test_usage_follows_what_the_interpreter_does(client, executor):
    session = client.open(executor=executor)
    fresh = session.show()["usage"]
    assert fresh["alive"] is True and fresh["processes"] == 1
    assert 0 < fresh["memory"] < 100 << 20 and fresh["cpu_ms"] >= 0
    for code in (MEGABYTES, BURN, CHILDREN):
        assert session.run(code)["status"] == "ok"
    used = session.show()["usage"]
    assert used["memory"] - fresh["memory"] > 90 << 20
    assert used["cpu_ms"] - fresh["cpu_ms"] > 250
    assert used["processes"] == 4
    session.run("for each in kept: each.kill(), each.wait()\ndel x")
    assert session.show()["usage"]["processes"] == 1
    session.delete()


@pytest.mark.parametrize("executor", ["sandbox", "local", "inprocess"])
def test_usage_is_measured_while_a_run_is_on(client, executor):
    session = client.open(executor=executor)
    run = session.start("import time; time.sleep(60)")
    session.wait_running(run)
    assert wait_until(lambda: session.show()["usage"]["processes"] == 1, 10), session.show()
    assert session.show()["status"] == "running" and session.show()["usage"]["alive"] is True
    session.cancel(run)
    session.ended(run)
    session.delete()


def test_interpreter_that_ended_between_runs_is_not_alive(client):
    session = client.open(executor="inprocess")
    pid = int(session.value("import os; os.getpid()"))
    os.kill(pid, 9)
    assert wait_until(lambda: session.show()["usage"]["alive"] is False), session.show()
    assert session.value("1") == "1"
    assert session.show()["usage"]["alive"] is True
    session.delete()


def test_lists_and_closed_sessions_are_not_measured(client):
    session = client.open()
    listed = client.get("/v1/sessions").expect(200)["sessions"]
    assert [each["id"] for each in listed] == [session.id] and "usage" not in listed[0]
    session.delete()
    assert client.get(session.path()).status == 404


def test_session_show_prints_what_the_session_uses(cella, client):
    session = client.open()
    env = {**os.environ, "CELLA_URL": f"unix:{client.address}"}
    shown = run_bounded([str(cella.binary), "session", "show", session.id], env=env).stdout.decode()
    rows = dict(line.split(None, 1) for line in shown.splitlines() if len(line.split()) > 1)
    assert (rows["id"], rows["executor"], rows["status"], rows["alive"]) == (session.id, "sandbox", "idle", "yes")
    assert int(rows["memory"]) > 0 and rows["processes"].strip() == "1"
    document = run_bounded([str(cella.binary), "session", "show", "--json", session.id], env=env)
    assert b'"usage":{"alive":true' in document.stdout
    session.delete()


@pytest.mark.parametrize("executor", ["sandbox", "local", "inprocess"])
def test_repl_answers_what_the_session_uses(open_session, executor):
    session = open_session("--executor", executor)
    told = session.ask(op="info")
    assert (told["executor"], told["status"], told["usage"]["alive"]) == (executor, "idle", True)
    assert "files" in told["capabilities"] and told["isolation"]["executor"] == executor


def test_limits_of_time_hold_during_runs_and_isolation_says_so(client):
    session = client.open(limits={"cpu_time": "500ms"})
    burn = "import subprocess, sys; kept = subprocess.Popen([sys.executable, '-c', 'while True: pass'])"
    limits = session.run(burn)["isolation"]["limits"]
    assert {name for name, limit in limits.items() if limit.get("during") == "runs"} == {"timeout", "cpu_time"}
    assert wait_until(lambda: session.show()["usage"]["cpu_ms"] > 1200, 20), session.show()
    assert session.value("kept.poll() is None") == "True", "what a run left behind is not held to its limit"
    session.delete()
