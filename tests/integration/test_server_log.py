"""What `cella serve` tells its operator, and whom it belongs to."""

import contextlib
import json
import signal
import subprocess

import pytest
from server import serve  # noqa: F401 (fixture)
from support.descendants import Family


def log_of(server):
    """Every line but those that tell where it listens."""
    return [json.loads(line) for line in server.words().splitlines() if not line.startswith("listening on ")]


@contextlib.contextmanager
def sleeper():
    process = subprocess.Popen(["sleep", "600"])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_log_has_events_but_no_code_or_secrets(serve):
    server = serve(tokens={"alice": "a-very-secret-token"}, tcp=True)
    client = server.tcp_client("a-very-secret-token")
    session = client.open(env={"KEY": "hidden-in-the-environment"})
    session.run("print('told-by-' + 'the-guest')", stdin="typed-in")
    assert server.tcp_client("a-wrong-token").get("/v1/sessions").status == 401
    session.delete()
    server.stop()
    events = {line["event"]: line for line in log_of(server)}
    assert {"session.opened", "run.ended", "session.ended", "request.refused", "draining"} <= events.keys(), events
    assert events["run.ended"]["status"] == "ok" and events["run.ended"]["client"] == "alice"
    assert events["run.ended"]["session"] == events["session.opened"]["session"] == session.id
    assert events["request.refused"]["status"] == 401 and events["request.refused"]["level"] == "warning"
    for secret in ("secret-token", "wrong-token", "hidden-in", "told-by", "the-guest", "typed-in"):
        assert secret not in server.words()


def test_log_level_filters_messages(serve):
    server = serve("--log-level", "error")
    server.client().open()
    server.stop()
    assert log_of(server) == []


def test_debug_level_logs_every_request_by_route(serve):
    server = serve("--log-level", "debug")
    session = server.client().open()
    session.client.get(session.path("files", "a-private-name"))
    server.stop()
    routes = [line.get("route") for line in log_of(server) if line["event"] == "request"]
    assert "/v1/sessions" in routes and "/v1/sessions/{id}/files/{path...}" in routes
    assert "a-private-name" not in server.words()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_exit_with_ends_the_server_with_that_process(serve, how):
    with sleeper() as owner:
        server = serve("--exit-with", str(owner.pid))
        session = server.client().open()
        session.wait_running(session.start("import time; time.sleep(600)"))
        family = Family(server.pid)
        owner.send_signal(how)
        owner.wait()
        assert server.finish(10) == 0, server.describe()
        family.assert_gone()
        server.assert_nothing_stays()


def test_exit_with_rejects_a_process_that_has_ended(serve):
    gone = subprocess.Popen(["true"])
    gone.wait()
    server = serve("--exit-with", str(gone.pid), ready=False)
    assert server.finish() == 126 and str(gone.pid) in server.words(), server.describe()


def test_one_shot_and_batch_runs_are_logged(serve):
    server = serve()
    client = server.client()
    assert client.post("/v1/run", code="print(1)").expect(200)["status"] == "ok"
    client.post("/v1/batch", snippets=[{"code": "print(2)"}]).expect(200)
    server.stop()
    actions = {line["action"]: line["status"] for line in log_of(server) if line["event"] == "run.ended"}
    assert actions == {"run.once": "ok", "run.batch": "ok"}
