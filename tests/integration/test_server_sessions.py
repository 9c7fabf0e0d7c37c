"""Sessions of `cella serve`: open, look at, list, delete; their state and ends; code without one; the server itself."""

import concurrent.futures
import json
import re

import pytest
from server import client, serve, server, session  # noqa: F401 (fixtures)
from support.descendants import Family
from support.leftovers import assert_no_process, processes_with
from support.running import HAS_CGROUPS, wait_until

SLEEP = "import subprocess; subprocess.Popen(['sleep', '60.{}']); None"


# Open and look at


def test_session_description_has_every_field(client):
    session = client.open(name="a-name", labels={"team": "red", "empty": ""}, max_lifetime="1h")
    told = session.description
    assert list(told) == [
        "id", "name", "labels", "executor", "status", "capabilities", "created_at", "expires_at", "isolation",
    ]
    assert re.fullmatch(r"ses_[0-9a-f]{32}", told["id"])
    assert (told["name"], told["labels"]) == ("a-name", {"team": "red", "empty": ""})
    assert (told["executor"], told["status"]) == ("sandbox", "idle")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", told["created_at"])
    assert told["created_at"] < told["expires_at"]
    assert told["isolation"]["seccomp"] is True and told["isolation"]["network"] == "none"
    shown = session.show()
    usage = shown.pop("usage")
    assert usage["alive"] is True and usage["memory"] > 0 and usage["cpu_ms"] >= 0 and usage["processes"] >= 1
    assert shown == told
    assert session.delete().status == 204


def test_an_empty_body_is_an_empty_document(client):
    answers = [client.ask("POST", "/v1/sessions", body=body) for body in (None, "", "{}")]
    opened = [answer.expect(201) for answer in answers]
    assert [told["name"] for told in opened] == [None] * 3
    assert len({told["id"] for told in opened}) == 3
    for told in opened:
        client.ask("DELETE", f"/v1/sessions/{told['id']}").expect(204)


@pytest.mark.parametrize(
    "document, key",
    [
        ({"exectuor": "sandbox"}, "executor"), ({"limits": {"memroy": "1g"}}, "memory"), ({"executor": 5}, "executor"),
        ({"executor": "spaceship"}, "executor"), ({"limits": {"memory": "lots"}}, "limits.memory"),
        ({"limits": {"timeout": 0}}, "limits.timeout"), ({"limits": []}, "limits"), ({"env": {"A": 5}}, "env"),
        ({"labels": {"a b": "c"}}, "labels"), ({"name": "no/slash"}, "name"), ({"network": "mars"}, "network"),
        ({"mounts": [{"target": "/a"}]}, "mounts[0]"), ({"checkpoint": "maybe"}, "checkpoint"),
        ({"best_effort": "yes"}, "best_effort"), ({"idle_timeout": -1}, "idle_timeout"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_invalid_document_error_names_the_key(client, document, key):
    words = client.post("/v1/sessions", **document).error(400)
    assert words["code"] == "invalid" and key in words["message"], words


def test_limits_of_the_document_are_enforced(client):
    session = client.open(limits={"timeout": "300ms", "output": 100})
    assert session.run("while True: pass")["status"] == "timeout"
    result = session.run("print('x' * 1000)", timeout="10s")
    assert result["status"] == "ok" and result["truncated"]["stdout"] > 0
    assert session.description["isolation"]["limits"]["timeout"]["value"] == 0.3
    session.delete().expect(204)


def test_guest_has_variables_of_the_document_but_none_of_the_server(client, environment):
    session = client.open(env={"GREETING": "hello"})
    assert session.value("import os; os.environ['GREETING']") == "'hello'"
    assert session.value(f"{environment['HOME']!r} in os.environ.values()") == "False"
    session.delete().expect(204)


def test_sessions_are_isolated_from_each_other(client):
    one, two = client.open(), client.open()
    one.run("x = 1; open('f', 'w').write('one')")
    assert two.run("x")["error"]["name"] == "NameError"
    assert two.value("import os; os.listdir('.')") == "[]"
    for session in (one, two):
        session.delete().expect(204)


# Lists


def test_sessions_are_listed_in_pages_newest_first(serve):
    client = serve().client()
    opened = [client.open(name=f"s{n}").id for n in range(5)]
    seen, after = [], ""
    for _ in range(5):
        page = client.get(f"/v1/sessions?limit=2&after={after}").expect(200)
        assert len(page["sessions"]) <= 2
        seen += [each["id"] for each in page["sessions"]]
        after = page["next"]
        if after is None:
            break
    assert seen == opened[::-1]


@pytest.mark.parametrize("limit", ["0", "-1", "1001", "x", "", "1x"])
def test_rejects_invalid_page_limit(client, limit):
    assert "limit" in client.get(f"/v1/sessions?limit={limit}").error(400)["message"]


def test_list_has_the_status_of_each_session(client, session):
    run = session.start("import time; time.sleep(60)")
    session.wait_running(run)
    told = {each["id"]: each["status"] for each in client.get("/v1/sessions").expect(200)["sessions"]}
    assert told[session.id] == session.show()["status"] == "running"
    session.cancel(run).expect(202)


# Ends


def test_deleted_session_leaves_nothing(client, token):
    session = client.open()
    session.run(SLEEP.format(token))
    assert wait_until(lambda: processes_with(token))
    session.delete().expect(204)
    assert_no_process(token)
    for method, path in (
        ("GET", ()), ("DELETE", ()), ("POST", ("interrupt",)), ("GET", ("files",)), ("GET", ("checkpoints",)),
    ):
        assert client.ask(method, session.path(*path)).error(404)["code"] == "not_found"
    client.post(session.path("runs"), code="1").error(404)


def test_a_deleted_session_is_not_listed(client):
    session = client.open()
    session.delete().expect(204)
    listed = [each["id"] for each in client.get("/v1/sessions?limit=1000").expect(200)["sessions"]]
    assert session.id not in listed


def test_runs_of_a_deleted_session_are_404(client):
    session = client.open()
    run = session.run("1")["id"]
    session.delete().expect(204)
    assert client.get(session.path("runs")).status == 404
    assert client.get(session.path("runs", run)).status == 404


def test_deleting_a_session_ends_current_and_queued_runs(client):
    session = client.open()
    with concurrent.futures.ThreadPoolExecutor(1) as pool, session.stream("import time; time.sleep(60)") as events:
        events.until("started")
        waiting = pool.submit(session.run, "'never'")
        assert wait_until(lambda: len(client.get(session.path("runs")).expect(200)["runs"]) == 2)
        session.delete().expect(204)
        assert list(events)[-1]["status"] == "cancelled"
        result = waiting.result(timeout=10)
    assert (result["status"], result["exit_code"], result["value"]) == ("cancelled", 125, None)


def test_concurrent_deletes_of_a_session_succeed(client):
    session = client.open()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        codes = {answer.status for answer in pool.map(lambda _: session.delete(), range(4))}
    assert 204 in codes and codes <= {204, 404}


@pytest.mark.parametrize("policy", [{"idle_timeout": "200ms"}, {"max_lifetime": "200ms"}], ids=lambda p: list(p)[0])
def test_session_ends_at_idle_timeout_and_max_lifetime(client, policy):
    session = client.open(**policy)
    # It says why once it has ended altogether.
    assert wait_until(lambda: session.show().get("closed_because"))
    assert session.show()["status"] == "closed"
    assert client.post(session.path("runs"), code="1").status in (404, 409)


def test_a_run_keeps_an_idle_session_alive(client):
    session = client.open(idle_timeout="1s")
    assert session.value("import time; time.sleep(2); 'here'") == "'here'"


@pytest.mark.parametrize("session_id", ["ses_" + "0" * 32, "x", "%00", "..%2f..", "a" * 3000])
def test_an_unknown_session_is_not_found(client, session_id):
    answer = client.get(f"/v1/sessions/{session_id}")
    assert answer.status in (404, 400), answer
    answer.error(answer.status)


# What is done to a session


def test_state_is_kept_until_reset(client, session):
    session.run("x = 41; open('kept', 'w').write('file')")
    assert session.value("x + 1") == "42"
    assert client.post(session.path("reset")).expect(200) == {"reset": True}
    assert session.run("x")["error"]["name"] == "NameError"
    assert session.value("open('kept').read()") == "'file'"


def test_crash_rolls_the_session_back(session):
    session.run("x = 1")
    result = session.run("x = 2; import os; os.kill(os.getpid(), 9)")
    assert (result["status"], result["state"]) == ("crashed", "rolled_back")
    assert session.value("x") == "1"


def test_checkpoints_are_saved_listed_rolled_back_and_dropped(client, session):
    session.run("x = 'early'")
    assert client.post(session.path("checkpoints"), name="one").expect(201) == {"name": "one"}
    session.run("x = 'late'")
    assert "one" in json.dumps(client.get(session.path("checkpoints")).expect(200)["checkpoints"])
    assert client.post(session.path("checkpoints", "one", "rollback")).expect(200)["state"] == "rolled_back"
    assert session.value("x") == "'early'"
    client.ask("DELETE", session.path("checkpoints", "one")).expect(204)
    assert client.get(session.path("checkpoints")).expect(200)["checkpoints"] == []
    client.post(session.path("checkpoints", "one", "rollback")).error(404)
    client.ask("DELETE", session.path("checkpoints", "one")).error(404)


@pytest.mark.parametrize("document", [{}, {"name": 5}, {"name": ""}, {"name": "a/b"}, {"name": "a", "more": 1}])
def test_a_checkpoint_needs_a_name(client, session, document):
    client.ask("POST", session.path("checkpoints"), body=json.dumps(document)).error(400)


def test_interrupt_ends_the_run_and_keeps_the_state(client, session):
    session.run("x = 1")
    with session.stream("x = 2\nprint('on', flush=True)\nimport time; time.sleep(60)") as events:
        events.until("stdout")
        assert client.post(session.path("interrupt")).expect(200) == {"interrupted": True}
        assert list(events)[-1]["error"]["name"] == "KeyboardInterrupt"
    assert session.value("x") == "2"
    assert client.post(session.path("interrupt")).expect(200) == {"interrupted": False}


def test_complete_and_inspect_answer(client, session):
    session.run("apples = 3")
    answer = client.post(session.path("complete"), code="appl", cursor=4)
    assert "apples" in json.dumps(answer.expect(200))
    told = client.post(session.path("inspect"), code="apples", cursor=6)
    assert "int" in json.dumps(told.expect(200))
    for wrong in ({}, {"code": 5}, {"code": "a", "cursor": -1}, {"code": "a", "cursor": "b"}, {"kode": "a"}):
        client.ask("POST", session.path("complete"), body=json.dumps(wrong)).error(400)


# Without a session


def test_one_shot_run_returns_a_result(client):
    result = client.post("/v1/run", code="print(input())", stdin="hello").expect(200)
    assert (result["status"], result["stdout"], result["session"], result["state"]) == ("ok", "hello\n", None, "none")
    result = client.post("/v1/run", code="while True: pass", policy={"limits": {"timeout": "200ms"}}).expect(200)
    assert result["status"] == "timeout"
    client.post("/v1/run", blocks=[{"code": "1"}, {"code": "2"}]).error(400)
    client.post("/v1/run", code="1", policy={"nonsense": 1}).error(400)


def test_batch_streams_results_as_snippets_end(client):
    snippets = [{"code": f"print({n})", "expected": str(n)} for n in range(8)] + [{"code": "print(1)", "expected": "2"}]
    answer = client.post("/v1/batch", snippets=snippets, concurrency=3).expect(200)
    told = {line["index"]: line for line in map(json.loads, answer.splitlines())}
    assert [told[n]["passed"] for n in range(9)] == [True] * 8 + [False]
    assert told[3]["result"]["stdout"] == "3\n"
    for wrong in ({"snippets": 5}, {"snippets": [5]}, {"snippets": [{}]}, {"snippets": [], "concurrency": 0}):
        client.post("/v1/batch", **wrong).error(400)


# The server itself


def test_health_has_version_and_status(client):
    told = client.get("/health").expect(200)
    assert told["status"] == "ok" and re.match(r"\d+\.\d+", told["version"])


def metrics(client):
    lines = client.get("/metrics").expect(200).decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def test_metrics_count_sessions_and_runs(client):
    before = metrics(client)
    session = client.open()
    session.run("1")
    session.run("1/0")
    after = metrics(client)
    grown = {name: after[name] - before[name] for name in after if after[name] != before.get(name)}
    assert after['cella_sessions{executor="sandbox"}'] >= 1  # one of an earlier test may have ended meanwhile
    assert grown['cella_runs_accepted_total{executor="sandbox"}'] == 2
    for status in ("ok", "error"):
        assert grown['cella_runs_total{executor="sandbox",status="%s"}' % status] == 1
    assert after['cella_session_memory_bytes{executor="sandbox"}'] > 0 or not HAS_CGROUPS
    assert grown['cella_run_seconds_bucket{executor="sandbox",le="+Inf"}'] == 2
    assert grown['cella_session_start_seconds_count{executor="sandbox"}'] == 1
    assert not any('executor="local"' in name for name in after)  # this server does not allow it
    session.delete().expect(204)


def test_metrics_count_refusals(server, client):
    before = metrics(client)
    server.client("nobody-has-this").get("/v1/sessions").error(401)
    client.post("/v1/sessions", executor="local").error(403)
    after = metrics(client)
    assert after["cella_refused_access_total"] == before["cella_refused_access_total"] + 2


def test_metrics_count_one_shot_runs(client):
    before = metrics(client)
    assert client.post("/v1/run", code="print(1)").expect(200)["status"] == "ok"
    after = metrics(client)
    for name in ('cella_runs_accepted_total{executor="sandbox"}', 'cella_runs_total{executor="sandbox",status="ok"}'):
        assert after[name] == before[name] + 1, name


def test_unsupported_method_is_405_with_the_allowed_ones(client, session):
    answer = client.ask("PATCH", session.path())
    answer.error(405)
    assert answer.headers["allow"] == "GET, DELETE"


def test_head_returns_the_headers_of_get(client):
    with client.connect() as connection:
        head = connection.ask("HEAD", "/health")
        assert (head.status, head.body) == (200, b"")
        assert int(head.headers["content-length"]) > 0
        # And the connection is still in step.
        assert connection.ask("GET", "/health").json()["status"] == "ok"


def test_many_sessions_open_and_close(server, client):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(lambda n: client.open(name=f"many-{n}"), range(24)))
        values = list(pool.map(lambda pair: pair[1].value(f"{pair[0]} * 2"), enumerate(opened)))
        assert values == [str(n * 2) for n in range(24)]
        family = Family(server.pid)
        assert {answer.status for answer in pool.map(lambda each: each.delete(), opened)} == {204}
    assert wait_until(lambda: len(family.alive()) < len(family.members) - 20), family.alive()
