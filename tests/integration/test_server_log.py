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


def test_the_log_tells_what_happened_and_neither_code_nor_secrets(serve):
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


def test_the_log_level_leaves_out_what_is_less_important(serve):
    server = serve("--log-level", "error")
    server.client().open()
    server.stop()
    assert log_of(server) == []


def test_every_request_is_told_at_the_level_debug_by_its_route(serve):
    server = serve("--log-level", "debug")
    session = server.client().open()
    session.client.get(session.path("files", "a-private-name"))
    server.stop()
    routes = [line.get("route") for line in log_of(server) if line["event"] == "request"]
    assert "/v1/sessions" in routes and "/v1/sessions/{id}/files/{path...}" in routes
    assert "a-private-name" not in server.words()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_ends_with_the_process_that_it_belongs_to(serve, how):
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


def test_a_server_of_a_process_that_is_gone_does_not_begin(serve):
    gone = subprocess.Popen(["true"])
    gone.wait()
    server = serve("--exit-with", str(gone.pid), ready=False)
    assert server.finish() == 126 and str(gone.pid) in server.words(), server.describe()


def test_programs_and_batches_are_told_as_well(serve):
    server = serve()
    client = server.client()
    assert client.post("/v1/run", code="print(1)").expect(200)["status"] == "ok"
    client.post("/v1/batch", snippets=[{"code": "print(2)"}]).expect(200)
    server.stop()
    actions = {line["action"]: line["status"] for line in log_of(server) if line["event"] == "run.ended"}
    assert actions == {"run.once": "ok", "run.batch": "ok"}
