"""Interrupts, cancels and answers to input() over HTTP and WebSocket: each is for one run, and the answer says whether there was one."""

import concurrent.futures
import contextlib
import secrets
import sqlite3

import pytest
from channel import Channel
from server import client, serve, server, session  # noqa: F401 (fixtures)
from support.running import wait_until

SLOW = "kept = {}\nprint('on', flush=True)\nimport time\ntime.sleep(60)"


def new_id():
    return "run_" + secrets.token_hex(16)


@pytest.fixture
def pool():
    with concurrent.futures.ThreadPoolExecutor(8) as executor:
        yield executor


def interrupt(session, run):  # noqa: F811
    return session.client.post(session.path("runs", run, "interrupt"))


def test_run_with_a_chosen_id_is_interrupted_while_its_answer_is_awaited(client, session, pool):  # noqa: F811
    run = new_id()
    answer = pool.submit(session.run, SLOW.format(1), id=run)
    assert wait_until(lambda: client.get(session.path("runs", run)).status == 200)
    session.wait_running(run)
    assert interrupt(session, run).expect(200) == {"id": run, "interrupted": True}
    result = answer.result(20)
    assert (result["id"], result["status"], result["state"]) == (run, "error", "kept")
    assert result["error"]["name"] == "KeyboardInterrupt"
    assert interrupt(session, run).expect(200) == {"id": run, "interrupted": False}
    assert session.value("'next'") == "'next'"
    interrupt(session, new_id()).error(404)


@pytest.mark.parametrize("word, told", [("interrupt", "interrupted"), ("cancel", "cancelled")])
def test_stop_of_a_run_that_is_being_accepted_is_not_lost(server, client, session, pool, word, told):  # noqa: F811
    run = new_id()
    where = session.path("runs", run, word)
    answers = []

    def is_known():
        answers.append(pool.submit(client.post, where))
        with contextlib.suppress(concurrent.futures.TimeoutError):  # one that came too early waits for the registry
            return answers[-1].result(0.5).status != 404
        return False

    with contextlib.closing(sqlite3.connect(server.state / "registry.db", isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        answer = pool.submit(session.run, "import time; time.sleep(60)", id=run, timeout=15)
        assert wait_until(is_known)
        assert answers[-1].result().json() == {"id": run, told: True}
        database.execute("ROLLBACK")
    result = answer.result(25)
    assert result["status"] == ("error" if word == "interrupt" else "cancelled"), result
    assert session.value("'next'") == "'next'"


def test_interrupt_of_a_waiting_run_is_its_own(session):  # noqa: F811
    first, second = session.start(SLOW.format(1)), session.start("print('never')")
    session.wait_running(first)
    assert interrupt(session, second).expect(200)["interrupted"] is True
    assert session.look(first)["status"] == "running"
    session.cancel(first).expect(202)
    result = session.ended(second)
    assert (result["status"], result["stdout"], result["error"]["name"]) == ("error", "", "KeyboardInterrupt")


def test_id_of_an_earlier_run_is_409_also_at_the_same_moment(client, session, pool):  # noqa: F811
    session.run("count = 0")
    for number in range(1, 11):
        run = new_id()
        asked = [pool.submit(client.post, session.path("runs"), code="count += 1; count", id=run) for _ in range(4)]
        answers = [each.result(20) for each in asked]
        results = [answer.json() for answer in answers if answer.status == 200]
        assert [(result["id"], result["value"]) for result in results] == [(run, str(number))], answers
        for answer in answers:
            if answer.status != 200:
                assert run in answer.error(409)["message"]
    client.post(client.open().path("runs"), code="1", id=run).error(409)
    assert session.value("count") == "10"


def test_repeated_request_with_id_and_key_joins_its_run(session, pool):  # noqa: F811
    session.run("count = 0")
    for number in range(1, 11):
        words = {"id": new_id(), "idempotency_key": f"k{number}"}
        asked = [pool.submit(session.run, "count += 1; count", **words) for _ in range(4)]
        results = [each.result(20) for each in asked]
        assert {(result["id"], result["value"]) for result in results} == {(words["id"], str(number))}


@pytest.mark.parametrize("bad", ["", "run_", "run_" + "a" * 15, "run_" + "a" * 65, "ran_" + "a" * 20, "run_../../../../etc/x", 5])
def test_malformed_id_is_400(client, session, bad):  # noqa: F811
    assert client.post(session.path("runs"), code="1", id=bad).error(400)["message"].startswith("id")


def test_cancelled_waiting_run_gives_its_place_and_its_quota_back_at_once(serve):  # noqa: F811
    client = serve(config={"quota": {"concurrent_runs": 2}, "sessions": {"max_queued_runs": 1}}).client()
    session = client.open()
    running, waiting = session.start(SLOW.format(1)), session.start("2")
    session.wait_running(running)
    client.post(session.path("runs"), code="3").error(429)
    session.cancel(waiting).expect(202)
    assert session.ended(waiting, seconds=2)["status"] == "cancelled"
    third = session.start("3")
    assert session.look(running)["status"] == "running"
    session.cancel(running).expect(202)
    assert session.ended(third)["value"] == "3"


# The channel


@pytest.fixture
def channel(client, session):  # noqa: F811
    with contextlib.closing(Channel(client, session)) as opened:
        yield opened


def begin(channel, code, **more):
    channel.send(type="run", code=code, ref="run", **more)
    return channel.until(type="accepted")["run"]


def test_channel_answers_whether_it_stopped_a_run(channel, session):  # noqa: F811
    channel.send(type="interrupt", ref=1)
    assert channel.until(ref=1) == {"type": "answer", "ref": 1, "run": None, "interrupted": False}
    first = begin(channel, SLOW.format(1))
    session.wait_running(first)
    channel.send(type="interrupt", ref=2)
    assert channel.until(ref=2) == {"type": "answer", "ref": 2, "run": first, "interrupted": True}
    assert session.ended(first)["error"]["name"] == "KeyboardInterrupt"
    second, third = begin(channel, SLOW.format(2)), begin(channel, "'third'")
    session.wait_running(second)
    channel.send(type="interrupt", ref=3, run=first)
    assert channel.until(ref=3) == {"type": "answer", "ref": 3, "run": first, "interrupted": False}
    channel.send(type="cancel", ref=4, run=third)
    assert channel.until(ref=4) == {"type": "answer", "ref": 4, "run": third, "cancelled": True}
    assert session.ended(third)["status"] == "cancelled" and session.look(second)["status"] == "running"
    for word, named in (("interrupt", new_id()), ("cancel", 5)):
        channel.send(type=word, ref=5, run=named)
        assert channel.until(ref=5)["error"]["code"] == "not_found"
    session.cancel(second).expect(202)
    assert session.ended(second)["status"] == "cancelled" and session.value("kept") in ("1", "2")


# Input

ASKS = "input('first? ')"


def test_answer_to_an_earlier_run_does_not_reach_the_next(client, session, channel):  # noqa: F811
    over = session.run("1", input=True)["id"]
    run = session.start(ASKS, input=True)
    client.post(session.path("input"), text="late", run=over).error(400)
    channel.send(type="input", text="late", run=over, ref=1)
    assert channel.until(ref=1)["type"] == "refused"
    client.post(session.path("input"), text="x", run=new_id()).error(404)
    client.post(session.path("input"), text="x", run=5).error(400)
    client.post(session.path("input"), text="mine", run=run).expect(200)
    assert session.ended(run)["value"] == "'mine'"
    run = begin(channel, ASKS, input=True)
    channel.send(type="input", text="by the channel", run=run)
    assert session.ended(run)["value"] == "'by the channel'"
