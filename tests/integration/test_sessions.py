"""The life of a session beyond its runs: its requests, its processes, and every way in which it may end."""

import json
import os
import random
import signal
import subprocess
import time

import pytest
from support.cella import PYTHON
from support.descendants import Family
from support.leftovers import cgroups_of, mounts, scratch_of
from support.running import HAS_CGROUPS, IS_ROOT, wait_until
from support.session_tree import SessionTree

EXECUTORS = pytest.mark.parametrize("executor", ["sandbox", "local"])

# Processes that do not want to go: in sessions of their own, deaf to polite signals.
STUBBORN = """
import os, signal, subprocess, time
for n in range(2):
    if os.fork() == 0:
        os.setsid()
        for number in (1, 2, 15): signal.signal(number, signal.SIG_IGN)
        if os.fork() == 0: time.sleep(60)
        time.sleep(60)
"""
JAIL_HAS_ENDED = "the session's jail has ended and its state is lost: open a new session"


def assert_nothing_stays(run, session, family, before):
    family.assert_gone()
    assert mounts() == before
    # The next start sweeps what the dead one could not.
    assert run.shell("true", "--executor", "local", with_env={"TMPDIR": session.temporary})["status"] == "ok"
    assert cgroups_of([session.pid]) == []
    assert scratch_of([session.pid], session.temporary) == []


def start_everything(session):
    """State in every language, a checkpoint, background processes, a thread."""
    session.run("x = 1")
    assert session.ask(op="checkpoint", name="one") == {"id": 2, "ok": True}
    session.run("y=2; sleep 60 &", language="bash")
    session.run("var z = 3; setInterval(() => {}, 10); undefined", language="javascript")
    session.run(STUBBORN)
    session.run("import threading; threading.Thread(target=time.sleep, args=(60,)).start()")


# Requests and answers


def test_runs_are_answered_in_order(open_session):
    session = open_session()
    session.run("order = []")
    numbers = [session.send(code=f"order.append({n})") for n in range(100)]
    last = session.send(code="order == list(range(100))")
    assert [session.next_answer()["id"] for _ in range(101)] == [*numbers, last]
    assert session.value("len(order)") == "100"


def test_interrupt_overtakes_queued_runs(open_session):
    session = open_session()
    slow = session.send(code="print('ready', flush=True)\nimport time; time.sleep(60)", events=True)
    queued = session.send(code="'queued'")
    while session.answer(slow)["event"]["type"] != "stdout":
        pass
    assert session.ask(op="interrupt").get("ok") is True
    answers = [session.answer(slow)]
    while "result" not in answers[-1]:
        answers.append(session.answer(slow))
    assert answers[-1]["result"]["error"]["name"] == "KeyboardInterrupt"
    assert session.answer(queued)["result"]["value"] == "'queued'"


SLEEPERS = {
    "python": "import time; time.sleep(20)",
    "javascript": "await new Promise(r => setTimeout(r, 20000))",
    "bash": "sleep 20",
    "ruby": "sleep 20",
}


@pytest.mark.parametrize("language", SLEEPERS)
def test_interrupt_sent_directly_after_a_run_is_not_lost(open_session, language):
    # The first time an interpreter is still to be started; afterwards it waits, and has not begun.
    session = open_session()
    start = time.monotonic()
    for wait in (0, 0, 0.0005, 0.001, 0.002, 0.004):
        run = session.send(code=SLEEPERS[language], language=language)
        time.sleep(wait)
        assert session.ask(op="interrupt").get("ok") is True
        result = session.answer(run)["result"]
        assert result["state"] == ("none" if language == "ruby" else "kept"), result
        assert result["status"] == ("cancelled" if language == "ruby" else "error"), result
        if language != "ruby":
            assert result["error"]["name"] == "KeyboardInterrupt"
    assert time.monotonic() - start < 20


SLEEPS_THROUGH_SIGINT = """
import signal, threading, time
threading.Thread(target=threading.Event().wait, daemon=True).start()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # so that the other thread gets it
x = 1
print("ready", flush=True)
time.sleep(30)
"""


def test_interrupt_ends_a_sleep_that_starts_after_the_signal(open_session):
    # Without a second thread it happens now and then: Python has looked for signals, this one comes, and then Python
    # begins to sleep. What it has noted of the signal is the same here.
    session = open_session()
    run = session.send(code=SLEEPS_THROUGH_SIGINT, events=True)
    while session.answer(run)["event"]["type"] != "stdout":
        pass
    start = time.monotonic()
    assert session.ask(op="interrupt").get("ok") is True
    while "result" not in (answer := session.answer(run)):
        pass
    assert (answer["result"]["error"]["name"], answer["result"]["state"]) == ("KeyboardInterrupt", "kept")
    assert time.monotonic() - start < 10
    assert session.ask(code="x")["result"]["value"] == "1"


NAPS = {
    "python": "import time; print('on', flush=True); time.sleep({})",
    "javascript": "console.log('on'); require('child_process').execSync('sleep {}')",
    "bash": "echo on; sleep {}",
}


@pytest.mark.parametrize("language", NAPS)
def test_delayed_interrupt_does_not_reach_the_next_run(open_session, language):
    """The jail's init sends the signal, at its own pace: here it is stopped until the next run would be on."""
    session = open_session()
    session.run("1")
    init = SessionTree(session.pid).inits[0]
    first = session.send(code=NAPS[language].format(0.5), language=language, events=True)
    while session.answer(first)["event"]["type"] != "stdout":
        pass
    os.kill(init, signal.SIGSTOP)
    try:
        assert session.ask(op="interrupt").get("ok") is True
        second = session.send(code=NAPS[language].format(1), language=language)
        time.sleep(1.0)
    finally:
        os.kill(init, signal.SIGCONT)
    assert session.answer(second)["result"]["status"] == "ok"


def test_operations_are_queued_behind_runs(open_session):
    session = open_session()
    session.send(code="x = 'early'")
    session.send(op="checkpoint", name="a")
    session.send(code="x = 'late'")
    session.send(op="rollback", name="a")
    last = session.send(code="x")
    assert session.answer(last)["result"]["value"] == "'early'"


def test_events_arrive_during_the_run(open_session):
    session = open_session()
    code = "import sys\nprint('a', flush=True)\nprint('b', file=sys.stderr, flush=True)\ndisplay(1)\n'value'"
    number = session.send(code=code, events=True)
    events = []
    while "event" in (answer := session.answer(number)):
        events.append(answer["event"])
    assert [event["n"] - events[0]["n"] for event in events] == list(range(len(events)))
    kinds = [event["type"] for event in events]
    assert kinds[0] == "started" and kinds[-1] == "finished"
    assert sorted(kinds[1:-1]) == ["display", "stderr", "stdout", "value"]
    # Output of one stream, displays and the value keep their order; the two streams race.
    assert [kind for kind in kinds if kind != "stderr"] == ["started", "stdout", "display", "value", "finished"]
    assert events[-1]["status"] == answer["result"]["status"] == "ok"


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense", b"[]", b"null", b"5", b'"text"', b"{", b'{"op": "no_such_operation"}', b'{"code": "\xff"}',
        b"[" * 5000,
    ],
    ids=["word", "list", "null", "number", "text", "half", "operation", "bytes", "nested"],
)
def test_malformed_line_is_refused_and_the_next_is_served(open_session, line):
    session = open_session()
    session.process.stdin.write(line + b"\n")
    session.process.stdin.flush()
    answer = session.next_answer()
    assert answer["error"]["code"] == "invalid", answer
    assert "op" in answer["error"]["message"]
    assert session.value("1 + 1") == "2"


@pytest.mark.parametrize(
    "wrong",
    [{}, {"code": 5}, {"op": 5}, {"code": "1", "language": 5}, {"code": "1", "stdin": 5}],
    ids=["nothing", "code", "operation", "language", "stdin"],
)
def test_rejects_request_with_wrong_types(open_session, wrong):
    session = open_session()
    answer = session.ask(**wrong)
    assert answer.get("error", {}).get("code") == "invalid", answer
    assert session.value("1 + 1") == "2"


@pytest.mark.parametrize("timeout", [0, -1, "soon", "", [], True])
def test_rejects_invalid_timeout(open_session, timeout):
    session = open_session()
    answer = session.ask(code="x = 1", timeout=timeout)
    assert answer["error"]["code"] == "invalid" and "timeout" in answer["error"]["message"], answer
    assert session.value("'x' in globals()") == "False"


def test_request_ids_may_be_any_json_value(open_session):
    session = open_session()
    for number in ("text", 0, -1.5, [1, {"a": None}], {"b": "c"}, True):
        session.process.stdin.write(json.dumps({"id": number, "code": "7"}).encode() + b"\n")
        session.process.stdin.flush()
        answer = session.next_answer()
        assert answer["id"] == number and answer["result"]["value"] == "7"
    session.process.stdin.write(b'{"code": "8"}\n\n   \n')
    session.process.stdin.flush()
    answer = session.next_answer()
    assert "id" not in answer and answer["result"]["value"] == "8"


# Ends


@EXECUTORS
def test_end_of_input_ends_the_session(open_session, executor):
    session = open_session("--executor", executor)
    if executor == "sandbox":
        start_everything(session)
        assert len(SessionTree(session.pid).guests) >= 2
        if HAS_CGROUPS:
            assert cgroups_of([session.pid]), "the test looks in the wrong place"
    else:
        session.run("print(1)")
        assert scratch_of([session.pid]), "the test looks in the wrong place"
    session.close()


@EXECUTORS
def test_requests_before_the_end_of_input_are_answered(open_session, executor):
    session = open_session("--executor", executor)
    numbers = [session.send(code=f"print({n})") for n in range(5)]
    session.process.stdin.write(b'{"id": "unfinished line", "code": "print(6)"}')
    session.end_input()
    assert session.finish() == 0
    assert [session.answer(number)["result"]["stdout"] for number in numbers] == [f"{n}\n" for n in range(5)]
    assert session.answer("unfinished line")["result"]["stdout"] == "6\n"


def test_session_without_requests_ends(open_session):
    open_session().close()


@EXECUTORS
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda n: n.name)
def test_signal_cancels_the_run_and_ends_the_session(run, open_session, executor, number):
    before = mounts()
    session = open_session("--executor", executor)
    asked = session.send(code=STUBBORN + "print('ready', flush=True)\ntime.sleep(60)", events=True)
    while session.answer(asked)["event"]["type"] != "stdout":
        pass
    family = session.family()
    session.process.send_signal(number)
    answer = session.answer(asked)
    while "event" in answer:
        answer = session.answer(asked)
    assert answer["result"]["status"] == "cancelled", answer
    session.finish()
    assert session.stderr == b""
    assert cgroups_of([session.pid]) == []
    assert_nothing_stays(run, session, family, before)


def test_signal_ends_an_idle_session(run, open_session):
    before = mounts()
    session = open_session()
    session.run("x = 1")
    family = session.family()
    session.process.send_signal(signal.SIGTERM)
    session.finish()
    assert cgroups_of([session.pid]) == []
    assert_nothing_stays(run, session, family, before)


def test_closed_reader_ends_the_session(cella, environment):
    before = mounts()
    words = [cella.binary, "repl", "--json", "--python", PYTHON]
    with subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            process.stdin.write(json.dumps({"code": STUBBORN}).encode() + b"\n")
            process.stdin.flush()
            assert b"result" in process.stdout.readline()
            family = Family(process.pid)
            process.stdout.close()
            process.stdin.write(b'{"code": "1"}\n')
            process.stdin.flush()
            assert wait_until(lambda: process.poll() is not None, 5), "it goes on without a reader"
        finally:
            process.kill()
    assert cgroups_of([process.pid]) == []
    family.assert_gone()
    assert mounts() == before


@EXECUTORS
def test_kill_with_all_languages_running_leaves_nothing(run, open_session, tmp_path, executor):
    before = mounts()
    session = open_session("--executor", executor, with_env={"TMPDIR": str(tmp_path)})
    if executor == "sandbox":
        start_everything(session)
    asked = session.send(code=STUBBORN + "print('ready', flush=True)\ntime.sleep(60)", events=True)
    while session.answer(asked)["event"]["type"] != "stdout":
        pass
    family = session.family()
    session.process.kill()
    session.finish()
    assert_nothing_stays(run, session, family, before)


def test_kill_during_start_leaves_nothing(run, open_session):
    before = mounts()
    chance = random.Random(7)
    for step in range(30):
        session = open_session()
        session.send(code=STUBBORN)
        time.sleep(step * 0.004 + chance.random() * 0.004)
        family = session.family()
        session.process.kill()
        session.finish()
        family.assert_gone()
    assert_nothing_stays(run, session, family, before)


# Helpers that die


def test_killed_zygote_is_replaced_and_its_sessions_continue(open_session):
    session = open_session()
    session.run("x = 'kept'")
    tree = SessionTree(session.pid)
    os.kill(tree.zygotes[0], signal.SIGKILL)
    assert wait_until(lambda: tree.zygotes[0] not in tree.family.alive())
    assert session.value("x") == "'kept'"
    assert session.ask(op="reset").get("ok") is True
    assert session.value("'x' in globals()") == "False"
    assert SessionTree(session.pid).zygotes != tree.zygotes


def test_crash_after_a_zygote_was_killed_is_reported_as_a_crash(open_session):
    """Its exit status is unknown then; the state is brought back all the same."""
    session = open_session("--checkpoint", "always")
    session.run("x = 'kept'")
    tree = SessionTree(session.pid)
    os.kill(tree.zygotes[0], signal.SIGKILL)
    assert wait_until(lambda: tree.zygotes[0] not in tree.family.alive())
    result = session.run("import os; os.abort()")
    assert (result["status"], result["state"]) == ("crashed", "rolled_back"), result
    assert "channel" not in (result["error"] or {}).get("message", ""), "the code did nothing of the kind"
    assert session.value("x") == "'kept'"


@pytest.mark.parametrize("helper", ["maker", "init"])
def test_killed_init_ends_the_session_with_a_message(open_session, helper):
    session = open_session()
    session.run("x = 1")
    tree = SessionTree(session.pid)
    os.kill(tree.maker if helper == "maker" else tree.inits[0], signal.SIGKILL)
    assert wait_until(lambda: not set(tree.guests) & tree.family.alive().keys()), "its guests outlive it"
    for code in ("x", "x"):
        result = session.run(code)
        assert (result["status"], result["state"]) == ("rejected", "lost"), result
        assert result["error"]["message"] == JAIL_HAS_ENDED
    assert session.ask(op="reset")["error"] == {"code": "closed", "message": JAIL_HAS_ENDED}


@pytest.mark.parametrize("helper", ["maker", "init"])
def test_init_killed_during_a_run_ends_the_run(open_session, helper):
    session = open_session()
    asked = session.send(code="import time\nprint('ready', flush=True)\ntime.sleep(60)", events=True)
    while session.answer(asked)["event"]["type"] != "stdout":
        pass
    tree = SessionTree(session.pid)
    os.kill(tree.maker if helper == "maker" else tree.inits[0], signal.SIGKILL)
    answer = session.answer(asked)
    while "event" in answer:
        answer = session.answer(asked)
    result = answer["result"]
    assert (result["status"], result["state"], result["stdout"]) == ("crashed", "lost", "ready\n"), result
    assert session.run("1")["error"]["message"] == JAIL_HAS_ENDED


# Time


def test_idle_session_ends_and_reports_the_reason(open_session):
    session = open_session("--idle-timeout", "300ms")
    long = session.send(code="import time\nprint('on', flush=True)\ntime.sleep(2)", events=True)
    while session.answer(long)["event"]["type"] != "stdout":
        pass
    # While it runs: after it there may be no time left for this.
    tree = SessionTree(session.pid)
    short = session.send(code="1")
    assert session.answer(short)["result"]["value"] == "1", "a run is not idleness"
    assert wait_until(lambda: not set(tree.guests) & tree.family.alive().keys(), 5)
    answer = session.ask(code="1")
    assert answer["error"]["code"] == "closed" and "idle" in answer["error"]["message"], answer


def test_session_ends_after_max_lifetime_even_during_a_run(open_session):
    session = open_session("--max-lifetime", "1500ms")
    result = session.run("import time; time.sleep(60)")
    assert result["status"] == "cancelled", result
    answer = session.ask(code="1")
    assert answer["error"]["code"] == "closed" and "lived" in answer["error"]["message"], answer


# Side by side


def test_concurrent_sessions_are_isolated(open_session):
    sessions = [open_session() for _ in range(8)]
    for number, session in enumerate(sessions):
        session.send(code=f"me = '{number}'\nfor place in ('', '/tmp/'): open(place + 'mine', 'w').write(me)")
    for number, session in enumerate(sessions):
        assert session.value("[me, open('mine').read(), open('/tmp/mine').read()]") == str([str(number)] * 3)
        assert int(session.value("import os; sum(name.isdigit() for name in os.listdir('/proc'))")) < 8
    for session in sessions[::2]:
        session.close()
    for number, session in list(enumerate(sessions))[1::2]:
        assert session.value("me") == repr(str(number))


def test_session_over_its_cpu_time_does_not_end_others(open_session):
    burner, other = open_session("--cpu-time", "300ms"), open_session()
    asked = burner.send(code="while True: pass")
    for n in range(20):
        assert other.value(str(n)) == str(n)
    result = burner.answer(asked)["result"]
    assert result["status"] == "limit" and "--cpu-time" in result["error"]["message"], result
    assert burner.value("'here'") == "'here'", "each run has its own"


def test_long_session_does_not_grow(open_session):
    """Neither in processes nor in descriptors, whatever its runs do."""
    session = open_session("--checkpoint", "always")
    crash = "import os; os.abort()"
    work = ["x = 1", crash, "x", "1/0", "import subprocess; subprocess.run(['true'])", "display(x)"]

    def round_of_runs():
        for code in work:
            session.run(code)
        session.run("true", language="bash")
        session.run("puts 1", language="ruby")
        session.ask(op="checkpoint", name="a")
        session.ask(op="rollback", name="a")
        session.ask(op="drop", name="a")
        session.run("1")

    def size():
        tree = SessionTree(session.pid)
        # The jail's own processes show their descriptors to root only.
        counted = [session.pid, tree.maker, tree.inits[0], tree.zygotes[0]] if IS_ROOT else [session.pid]
        return [len(tree.family.alive()), *(len(os.listdir(f"/proc/{pid}/fd")) for pid in counted)]

    def settled():
        """Checkpoints are taken after the answer, and what is discarded ends in its own time."""
        last, since = size(), time.monotonic()
        while time.monotonic() - since < 0.5:
            time.sleep(0.05)
            if size() != last:
                last, since = size(), time.monotonic()
        return last

    for _ in range(2):
        round_of_runs()
    session.ask(op="reset")
    session.run("1")
    before = settled()
    for _ in range(10):
        round_of_runs()
    session.ask(op="reset")
    session.run("1")
    # Less may well be there, where something took long to end before the first count.
    grown = lambda: any(now > then for now, then in zip(size(), before, strict=True))  # noqa: E731
    assert wait_until(lambda: not grown(), 10), f"before {before}, now {size()}"


def test_value_of_an_assignment_is_one_where_it_is_asked_for(open_session):
    assert open_session().run("x = 6 * 7")["value"] is None
    asked = open_session("--value-of", "last_expr_or_assign")
    assert asked.run("x = 6 * 7")["value"] == "42"
    assert asked.run("import os; os.abort()")["state"] == "rolled_back"
    assert asked.run("y = x + 1")["value"] == "43"
