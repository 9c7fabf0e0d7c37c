"""Runs over HTTP: Results and streams, resuming, idempotency, cancelling, paging, input, and one-shot programs."""

import concurrent.futures
import contextlib
import json
import re
import socket
import threading

import pytest
from server import NDJSON, SSE, client, raw_connection, serve, server, session  # noqa: F401 (fixtures)
from support.leftovers import assert_no_process
from support.running import LONG, wait_until

SLOW = "import time\nprint('on', flush=True)\ntime.sleep(60)"
# One line of output for each line of a file that grows: a run whose pace the test decides.
PACED = """
import os, time
done = 0
while done < {}:
    while not os.path.exists(f'go{{done}}'): time.sleep(0.005)
    print('line', done, flush=True)
    done += 1
"""


def go(session, *steps):
    for step in steps:
        session.client.ask("PUT", session.path("files", f"go{step}"), body=b"").expect(201)


def text_of(events, kind="stdout"):
    return "".join(event["text"] for event in events if event["type"] == kind)


def parse_sse(text):
    """(id, event, document) of each message."""
    messages = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line and line[0] != ":")
        if fields:
            messages.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
    return messages


# Results


def test_a_result_has_every_field(session):
    result = session.run("import sys\nprint('out')\nprint('err', file=sys.stderr)\nopen('f', 'w').write('x')\n6 * 7")
    assert list(result) == [
        "id", "session", "status", "exit_code", "signal", "stdout", "stderr", "value", "outputs", "items", "error", "files",
        "truncated", "usage", "state", "isolation", "checkpoint",
    ]
    assert result["session"] == session.id and result["id"].startswith("run_")
    assert (result["status"], result["exit_code"], result["state"]) == ("ok", 0, "kept")
    assert (result["stdout"], result["stderr"], result["value"]) == ("out\n", "err\n", "42")
    assert result["files"] == [{"path": "f", "size": 1, "change": "created", "media_type": "application/octet-stream"}]
    assert result["items"] == [
        {"stream": "stdout", "text": "out\n"}, {"stream": "stderr", "text": "err\n"}, {"output": 0},
    ]
    assert session.look(result["id"]) == result


@pytest.mark.parametrize(
    "code, status, exit_code",
    [
        ("1/0", "error", 1), ("import sys; sys.exit(3)", "error", 3),
        ("import os; os.kill(os.getpid(), 11)", "crashed", 139),
    ],
)
def test_every_end_of_the_code_is_a_result(session, code, status, exit_code):
    result = session.run(code)
    assert (result["status"], result["exit_code"]) == (status, exit_code)


def test_unknown_language_is_a_rejected_result(session):
    result = session.run("x", language="klingon")
    assert (result["status"], result["exit_code"]) == ("rejected", 126)
    assert "klingon" in result["error"]["message"]


@pytest.mark.skipif(not LONG, reason="uses a minute of processor time")
def test_cpu_time_follows_the_timeout_of_a_run(session):
    code = "import time\nwhile time.process_time() < 63: pass"
    assert session.run(code, timeout="4m")["status"] == "ok"


def test_timeout_keeps_the_output(session):
    result = session.run(SLOW, timeout="1s")
    assert (result["status"], result["exit_code"], result["stdout"]) == ("timeout", 124, "on\n")


@pytest.mark.parametrize(
    "document, word",
    [
        ({}, "code"), ({"code": 5}, "code"), ({"code": "1", "blocks": [{"code": "2"}]}, "blocks"),
        ({"blocks": []}, "blocks"), ({"blocks": [{"language": "python"}]}, "code"), ({"kode": "1"}, "code"),
        ({"blocks": [{"code": "1", "x": 1}]}, "x"), ({"blocks": [{"code": "1"}] * 101}, "blocks"),
        ({"code": "1", "timeout": 0}, "timeout"), ({"code": "1", "timeout": "soon"}, "timeout"),
        ({"code": "1", "wait": "no"}, "wait"), ({"code": "1", "stdin": 5}, "stdin"),
        ({"code": "1", "input": 1}, "input"), ({"code": "1", "language": 7}, "language"),
        ({"code": "1", "idempotency_key": ""}, "idempotency_key"),
        ({"code": "1", "idempotency_key": "k" * 201}, "idempotency_key"),
        ({"code": "1", "cancel_on_disconnect": 0}, "cancel_on_disconnect"),
    ],
)
def test_invalid_request_is_400_and_runs_nothing(client, session, document, word):
    words = client.ask("POST", session.path("runs"), body=json.dumps(document)).error(400)
    assert word in words["message"], words
    assert client.get(session.path("runs")).expect(200)["runs"] == []


def test_blocks_run_in_order_until_one_fails(client, session):
    blocks = [
        {"code": "print('one'); x = 1"}, {"language": "bash", "code": "echo two"}, {"code": "print('three', x); 1/0"},
        {"code": "print('four')"},
    ]
    result = client.post(session.path("runs"), blocks=blocks).expect(200)
    assert result["stdout"] == "one\ntwo\nthree 1\n"
    assert (result["status"], result["error"]["name"]) == ("error", "ZeroDivisionError")


def test_stdin_of_the_request_is_passed(session):
    assert session.value("import sys; sys.stdin.read()", stdin="first\nsecond") == "'first\\nsecond'"
    assert session.value("sys.stdin.read()") == "''"


def test_input_request_is_answered_during_the_run(client, session):
    with session.stream("name = input('who? '); print('hello', name)", input=True) as events:
        request = events.until("input_request")[-1]
        assert request["prompt"] == "who? "
        client.post(session.path("input"), text="Ada").expect(200)
        rest = list(events)
    assert text_of(rest) == "hello Ada\n"
    with session.stream("input()", input=True) as events:
        events.until("input_request")
        client.ask("POST", session.path("input"), body='{"eof": true}').expect(200)
        assert list(events)[-1]["error"]["name"] == "EOFError"


def test_caught_interrupt_prevents_the_following_blocks(client, session):
    caught = "import time\ntry:\n    print('on', flush=True); time.sleep(60)\nexcept KeyboardInterrupt:\n    seen = 1"
    blocks = [{"language": "python", "code": caught}, {"language": "python", "code": "second = 1"}]
    with client.stream("POST", session.path("runs"), blocks=blocks) as events:
        events.until("stdout")
        client.post(session.path("interrupt")).expect(200)
        last = list(events)[-1]
    assert (last["status"], last["error"]["name"]) == ("error", "KeyboardInterrupt"), last
    assert session.value("seen, 'second' in globals()") == "(1, False)"


def test_concurrent_large_inputs_are_delivered_in_sequence(client, session):
    code = "import time; print('on', flush=True); time.sleep(1); [(len(t), set(t)) for t in (input(), input(), input())]"
    with session.stream(code, input=True) as events:
        events.until("stdout")
        answers = [
            threading.Thread(target=client.post, args=[session.path("input")], kwargs={"text": letter * (1 << 20)})
            for letter in "aaa"
        ]
        for answer in answers:
            answer.start()
        value = next(event for event in events if event["type"] == "value")
        for answer in answers:
            answer.join()
    assert value["text"] == repr([(1 << 20, {"a"})] * 3)


def test_input_without_a_request_is_refused(client, session):
    assert 400 <= client.post(session.path("input"), text="unasked").status < 500
    client.ask("POST", session.path("input"), body='{"text": 5}').error(400)


# Streams


@pytest.mark.parametrize("headers", [NDJSON, SSE], ids=["ndjson", "sse"])
def test_stream_numbers_all_events(session, headers):
    with session.stream("print('a', flush=True)\ndisplay(1)\n'value'", headers=headers) as stream:
        if headers is SSE:
            assert stream.response.getheader("Content-Type").startswith("text/event-stream")
            messages = parse_sse(stream.response.read().decode())
            assert [(number, kind) for number, kind, _ in messages] == [(e["n"], e["type"]) for _, _, e in messages]
            events = [event for _, _, event in messages]
        else:
            assert stream.response.getheader("Content-Type") == "application/x-ndjson"
            events = list(stream)
    assert [event["n"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events] == ["started", "stdout", "display", "value", "finished"]
    result = session.look(events[0]["run"])
    assert (result["status"], result["value"], result["stdout"]) == ("ok", "'value'", "a\n")


def test_events_arrive_during_the_run(session):
    with session.stream(PACED.format(2)) as events:
        for step in range(2):
            go(session, step)
            assert events.until("stdout")[-1]["text"] == f"line {step}\n"
        assert events.until("finished")


def test_reconnected_stream_misses_no_event(session):
    with session.stream(PACED.format(6)) as events:
        go(session, 0)
        seen = events.until("stdout")
    run = seen[0]["run"]
    for step in range(1, 5):
        go(session, step)
        with session.events(run, after=seen[-1]["n"]) as events:
            seen += events.until("stdout")
    go(session, 5)
    with session.events(run, after=seen[-1]["n"]) as events:
        seen += list(events)
    assert [event["n"] for event in seen] == list(range(len(seen)))
    assert text_of(seen) == "".join(f"line {n}\n" for n in range(6))
    assert seen[-1]["type"] == "finished"
    with session.events(run) as events:
        assert list(events) == seen


def test_last_event_id_header_resumes_a_stream(session):
    run = session.run("for n in range(3): print(n, flush=True)")["id"]
    with session.events(run, headers={**SSE, "Last-Event-ID": "1"}) as stream:
        messages = parse_sse(stream.response.read().decode())
    assert messages[0][0] == 2 and messages[-1][1] == "finished"


def test_concurrent_followers_get_equal_events(session):
    run = session.start(PACED.format(3))
    with contextlib.ExitStack() as stack, concurrent.futures.ThreadPoolExecutor(5) as pool:
        streams = [stack.enter_context(session.events(run)) for _ in range(5)]
        lists = [pool.submit(list, stream) for stream in streams]
        go(session, 0, 1, 2)
        told = [each.result(timeout=20) for each in lists]
    assert told[0][-1]["type"] == "finished" and all(each == told[0] for each in told)


@pytest.mark.parametrize("after", ["x", "-1", "1.5", "99999999999999999999999"])
def test_rejects_invalid_after_parameter(client, session, after):
    run = session.run("1")["id"]
    assert "after" in client.get(session.path("runs", run, "events") + f"?after={after}").error(400)["message"]


def test_events_after_the_last_number_are_empty(session):
    run = session.run("1")["id"]
    for after in (1000, 2**64 - 1):
        with session.events(run, after=after) as events:
            assert list(events) == []


def assert_whole_or_refused(answer):
    """A stream that lacks its end must not look like one that is complete."""
    if answer.status == 409:
        return answer.error(409)
    kinds = [json.loads(line)["type"] for line in answer.expect(200).splitlines()]
    assert kinds == ["started", "stdout", "value", "finished"]


def test_old_run_has_its_result_and_all_or_no_events(client, session):
    code = "print('first', flush=True)\n'value'"
    result = session.run(code, idempotency_key="old")
    for n in range(40):
        session.run(f"{n}")
    assert session.look(result["id"]) == result
    assert session.run(code, idempotency_key="old") == result
    assert_whole_or_refused(client.get(session.path("runs", result["id"], "events")))
    body = json.dumps({"code": code, "idempotency_key": "old"})
    assert_whole_or_refused(client.ask("POST", session.path("runs"), body=body, headers=NDJSON))


# Without waiting


def test_run_with_wait_false_is_queued_and_executed(client, session):
    first = session.start(PACED.format(1))
    second = session.start("print('second')")
    session.wait_running(first)
    assert session.look(second)["status"] == "queued"
    go(session, 0)
    assert session.ended(second)["stdout"] == "second\n"
    assert session.look(first)["stdout"] == "line 0\n"


def test_list_of_runs_has_their_statuses(client, session):
    session.run("1/0")
    running = session.start(SLOW)
    session.start("1")
    session.wait_running(running)
    told = [each["status"] for each in client.get(session.path("runs")).expect(200)["runs"]]
    session.cancel(running).expect(202)
    assert told == ["error", "running", "queued"]


def test_runs_are_listed_in_order_in_pages(client, session):
    ran = [session.run(str(n))["id"] for n in range(5)]
    seen, after = [], ""
    while after is not None:
        page = client.get(session.path("runs") + f"?limit=2&after={after}").expect(200)
        seen += [each["id"] for each in page["runs"]]
        after = page["next"]
    assert seen == ran


def test_full_queue_is_429(serve):
    session = serve(config={"sessions": {"max_queued_runs": 2}}).client().open()
    running = session.start(SLOW)
    session.wait_running(running)
    for _ in range(2):
        session.start("1")
    answer = session.client.post(session.path("runs"), code="1", wait=False)
    answer.error(429)
    assert int(answer.headers["retry-after"]) >= 1
    session.cancel(running).expect(202)


def test_run_continues_after_its_connection_closes(session, token):
    code = f"import subprocess; print('on', flush=True); subprocess.run(['sleep', '0.3{token}']); 'whole'"
    with session.stream(code) as events:
        run = events.until("stdout")[0]["run"]
    assert session.ended(run)["value"] == "'whole'"


@pytest.mark.parametrize("headers", [NDJSON, {}], ids=["stream", "result"])
def test_cancel_on_disconnect_ends_the_run(session, token, headers):
    code = f"import subprocess; subprocess.run(['sleep', '60.{token}'])"
    with session.client.connect() as connection:
        body = json.dumps({"code": code, "cancel_on_disconnect": True})
        connection.request("POST", session.path("runs"), body, headers)
        runs = session.path("runs")
        assert wait_until(lambda: session.client.get(runs).json()["runs"])
        run = session.client.get(runs).json()["runs"][0]["id"]
        session.wait_running(run)
    assert session.ended(run)["status"] == "cancelled"
    assert_no_process(token)


# The same request again


def test_repeated_idempotency_key_returns_the_same_run(client, session):
    session.run("count = 0")
    document = {"code": "count += 1\ncount", "idempotency_key": "once"}
    results = [client.post(session.path("runs"), **document).expect(200) for _ in range(3)]
    assert results[0]["value"] == "1" and all(result == results[0] for result in results)
    assert session.value("count") == "1"


def test_repeated_idempotency_key_joins_the_current_run(client, session):
    session.run("count = 0")
    code = "count += 1\n" + PACED.format(1) + "count"
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        answers = [pool.submit(session.run, code, idempotency_key="k") for _ in range(3)]
        run = session.start(code, idempotency_key="k")
        session.wait_running(run)
        go(session, 0)
        results = [answer.result(timeout=20) for answer in answers]
    assert {result["id"] for result in results} == {run} and results[0]["value"] == "1"


def test_idempotency_key_with_other_code_is_409(client, session):
    session.run("1", idempotency_key="k")
    for other in ({"code": "2"}, {"code": "1", "language": "bash"}):
        assert client.post(session.path("runs"), idempotency_key="k", **other).error(409)["code"]


def test_idempotency_keys_are_per_session(client, session):
    assert session.run("1", idempotency_key="k")["id"] != client.open().run("1", idempotency_key="k")["id"]


# Cancel


def test_cancel_ends_a_run_with_all_of_its_processes(session, token):
    session.run("x = 1")
    code = f"x = 2; import subprocess; p = subprocess.Popen(['sleep', '60.{token}'])\nprint('on', flush=True); p.wait()"
    with session.stream(code) as events:
        run = events.until("stdout")[0]["run"]
        assert session.cancel(run).expect(202) == {"id": run, "cancelled": True}
        assert list(events)[-1]["status"] == "cancelled"
    result = session.look(run)
    assert (result["status"], result["exit_code"], result["stdout"]) == ("cancelled", 125, "on\n")
    assert_no_process(token)
    assert session.value("x") in ("1", "2")
    assert session.cancel(run).expect(200)["cancelled"] is False


def test_cancelled_queued_run_never_starts(session):
    first = session.start(PACED.format(1))
    second = session.start("open('trace', 'w')")
    third = session.start("'third'")
    session.wait_running(first)
    session.cancel(second).expect(202)
    go(session, 0)
    assert session.ended(third)["value"] == "'third'"
    assert session.look(first)["status"] == "ok" and session.look(second)["exit_code"] == 125
    assert session.value("import os; os.path.exists('trace')") == "False"


def test_cancelled_queued_run_ends_at_once(session):
    running, queued = session.start(SLOW), session.start("1")
    session.wait_running(running)
    session.cancel(queued).expect(202)
    try:
        assert session.ended(queued, seconds=2)["status"] == "cancelled"
    finally:
        session.cancel(running).expect(202)


def test_unknown_run_is_404(client, session):
    foreign = client.open().run("1")["id"]
    for run in ("run_" + "0" * 32, foreign):
        session.cancel(run).error(404)
        for path in ((), ("events",), ("output",), ("outputs", "0?type=text/plain")):
            client.get(session.path("runs", run, *path)).error(404)


# All that was written and shown

LARGE = """
import base64, os
class Picture:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"image/png": base64.b64encode(b"png" * 1_000_000).decode(), "text/plain": "<Picture>"}
for _ in range(%d): display(Picture())
"""


def test_representations_of_outputs_can_be_fetched(client, session):
    result = session.run(LARGE % 9 + "print('said'); 42")
    path = session.path("runs", result["id"], "outputs")
    assert [list(output["mime"]) for output in result["outputs"][7:9]] == [["image/png", "text/plain"], ["text/plain"]]
    assert result["outputs"][8]["left_out"] == {"image/png": 4_000_000} and result["truncated"]["outputs"] == 1
    assert session.look(result["id"]) == result
    for index in (0, 8):
        answer = client.get(f"{path}/{index}?type=image/png")
        assert answer.expect(200) == b"png" * 1_000_000
        # A guest chooses the content: no browser shall run it.
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-disposition"] == "attachment"
    assert client.get(f"{path}/9?type=text/plain").expect(200) == b"42"
    for wrong, status in (("0", 400), ("x?type=a", 400), ("10?type=a", 404), ("0?type=a", 404), ("-1?type=a", 400)):
        client.get(f"{path}/{wrong}").error(status)
    client.get(session.path("runs", "run_" + "0" * 32, "outputs", "0?type=a")).error(404)


def test_forgotten_run_names_its_large_outputs(client, session):
    result = session.run(LARGE % 1)
    for _ in range(40):
        session.run("None")
    stored = session.look(result["id"])
    assert stored["outputs"] == [{"mime": {"text/plain": "<Picture>"}, "metadata": {}, "left_out": {"image/png": 4_000_000}}]
    path = session.path("runs", result["id"], "outputs", "0")
    assert client.get(f"{path}?type=text/plain").expect(200) == b"<Picture>"
    assert client.get(f"{path}?type=image/png").error(409)["code"] == "closed"



def test_output_beyond_the_cap_can_be_paged_through(client):
    session = client.open(limits={"output": "64k"})
    result = session.run("import sys\nfor n in range(300_000): print(n)\nprint('e', file=sys.stderr)")
    whole = "".join(f"{n}\n" for n in range(300_000)).encode()
    assert result["status"] == "ok" and result["truncated"]["stdout"] > 0
    assert result["stdout"].startswith("0\n1\n") and result["stdout"].endswith("299999\n")
    path = session.path("runs", result["id"], "output")
    pages = b""
    while True:
        answer = client.get(f"{path}?stream=stdout&offset={len(pages)}&limit=500000")
        if not answer.expect(200):
            break
        assert answer.headers["x-cella-stream-size"] == str(len(whole))
        pages += answer.body
    assert pages == whole
    assert client.get(f"{path}?stream=stderr").expect(200) == b"e\n"
    for wrong in ("stream=value", "offset=-1", "offset=x", "limit=x", f"offset={len(whole) + 1}"):
        client.get(f"{path}?{wrong}").error(400)
    session.delete().expect(204)


def test_cancelled_queued_run_has_a_finished_event(session):
    first = session.start("import time; time.sleep(600)")
    session.wait_running(first)
    second = session.start("'never'")
    assert session.cancel(second).status in (200, 202, 204)
    with session.events(second) as events:
        told = list(events)
    assert [event["type"] for event in told] == ["finished"] and told[0]["status"] == "cancelled", told
    session.cancel(first)


def test_disconnecting_client_ends_its_batch(serve):
    server = serve()
    client = server.client()
    seen = lambda: server.client().get("/metrics").expect(200).decode()  # noqa: E731
    with client.stream("POST", "/v1/batch", snippets=[{"code": "1"}, {"code": "import time; time.sleep(600)"}]) as lines:
        assert next(iter(lines))["index"] == 0
        assert wait_until(lambda: '\ncella_runs_accepted_total{executor="sandbox"} 2\n' in seen(), 10), seen()  # it may be about to begin
        assert '\ncella_runs_running{executor="sandbox"} 1\n' in seen()
    assert wait_until(lambda: 'cella_runs_total{executor="sandbox",status="cancelled"} 1' in seen(), 10), seen()


def test_session_is_ended_if_its_client_disconnects_while_it_opens(serve):
    server = serve()
    client = server.client()
    for _ in range(3):
        with contextlib.closing(raw_connection(server.socket)) as connection:
            connection.sendall(b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
            connection.shutdown(socket.SHUT_RDWR)
            # One that was told of before is the client's own to end.
            if said := connection.recv(65536):
                opened = json.loads(said.partition(b"\r\n\r\n")[2])["id"]
                assert client.ask("DELETE", f"/v1/sessions/{opened}").status == 204
    seen = lambda: client.get("/metrics").expect(200).decode()  # noqa: E731
    assert wait_until(lambda: re.search(r'start_seconds_count{executor="sandbox"} 3$', seen(), re.MULTILINE), 20), seen()
    assert wait_until(lambda: '\ncella_sessions{executor="sandbox"} 0\n' in "\n" + seen(), 10), seen()


def test_variables_keep_the_order_of_their_keys(session):
    value = {"z": 1, "a": [{"y": 1.50, "b": None}], "m": {}}
    result = session.run("repr(x)", variables={"x": value})
    assert eval(result["value"]) == repr(value), result
