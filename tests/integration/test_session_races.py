"""Races and unlikely orders of events in sessions."""

import json
import os
import signal
import subprocess
import time

import pytest
from support.cella import PYTHON
from support.leftovers import assert_no_process
from support.running import wait_until
from support.session_tree import SessionTree

pytestmark = pytest.mark.as_user


def raw_session(cella, environment, *flags):
    """Without a thread that reads: the test decides when that happens."""
    return subprocess.Popen(
        [str(cella.binary), "repl", "--json", "--python", str(PYTHON), *flags],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
    )


def lines(*requests):
    return b"".join(json.dumps(request).encode() + b"\n" for request in requests)


def test_concurrent_answers_are_not_interleaved(cella, environment):
    session = raw_session(cella, environment)
    work = {"code": "print('x' * 300_000)", "events": True}
    session.stdin.write(lines(*({"id": number, **work} for number in range(4)), {"id": 9, "op": "checkpoints"}))
    session.stdin.close()
    time.sleep(0.5)  # the pipe is full by now
    answers = [json.loads(line) for line in session.stdout]
    assert session.wait(20) == 0
    results = [answer for answer in answers if "result" in answer]
    assert [result["id"] for result in results] == [0, 1, 2, 3]
    assert all(len(result["result"]["stdout"]) == 300_001 for result in results)


def test_cancelled_run_is_answered_although_its_events_were_not_read(cella, environment):
    session = raw_session(cella, environment)
    session.stdin.write(lines({"id": 1, "code": "while True: print('x' * 1000)", "events": True}))
    session.stdin.flush()
    time.sleep(1)
    session.stdin.write(lines({"id": 2, "op": "cancel"}, {"id": 3, "code": "6 * 7"}))
    session.stdin.close()
    time.sleep(1)
    results = {answer["id"]: answer["result"] for answer in map(json.loads, session.stdout) if "result" in answer}
    assert session.wait(20) == 0
    assert results[1]["status"] == "cancelled"
    assert results[3]["value"] == "42"


def test_displays_before_a_crash_are_kept(open_session):
    session = open_session()
    result = session.run("for i in range(60): display('x' * 1500)\nprint('last')\nimport os, sys; sys.stdout.flush(); os._exit(0)")
    assert (len(result["outputs"]), result["stdout"], result["state"]) == (60, "last\n", "rolled_back")


def test_processor_time_is_counted_for_each_run(open_session):
    session = open_session("--cpu-time", "2s")
    burn = "import time\nend = time.process_time() + 0.8\nwhile time.process_time() < end: pass"
    for _ in range(4):
        assert session.run(burn)["status"] == "ok"
    session.run("kept = 1")
    assert session.run("while True: pass")["status"] == "limit"
    assert session.value("kept") == "1"


def test_limit_breach_reported_late_rolls_back(open_session):
    session = open_session("--cpu-time", "500ms")
    session.run("kept = 1")
    run = session.send(code="while True: pass")
    time.sleep(0.1)
    os.kill(session.pid, signal.SIGSTOP)
    time.sleep(1.2)  # jails with a watchdog of their own kill the run in this time
    os.kill(session.pid, signal.SIGCONT)
    result = session.answer(run)["result"]
    assert (result["status"], result["state"]) == ("limit", "rolled_back")
    assert session.value("kept") == "1"


LEAVE_THE_GROUP = """
import os, time
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    time.sleep(60)
    os._exit(0)
while os.getpgid(child) != child: time.sleep(0.001)
os.setpgid(0, child)
assert os.getpgid(0) != os.getpid()
end = time.monotonic() + 20
while time.monotonic() < end:
    pause = time.monotonic() + 0.08
    while time.monotonic() < pause:
        pass
    time.sleep(0.03)
"""


def test_cpu_time_of_processes_that_leave_the_process_group_is_counted(open_session):
    session = open_session("--cpu-time", "500ms")
    # What goes on from a checkpoint does not lead a session of processes: it may leave its group.
    session.run("x = 1")
    assert session.run("import os; os._exit(1)")["state"] == "rolled_back"
    result = session.run(LEAVE_THE_GROUP)
    assert (result["status"], result["state"]) == ("limit", "lost")
    assert result["usage"]["wall_ms"] < 15000


def test_oom_kill_of_an_earlier_run_is_not_attributed_to_a_later_run(open_session):
    session = open_session("--memory", "100m", "--best-effort")
    eater = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'b = bytearray(10**9); b[:] = b\"x\" * 10**9']).returncode"
    assert session.run(eater)["status"] == "ok"
    result = session.run("raise ValueError('mine')")
    assert (result["status"], result["error"]["name"]) == ("error", "ValueError")


def test_cancel_before_the_run_starts_is_honoured(open_session):
    session = open_session()
    first = session.send(code="sleep 20", language="bash")
    session.send(op="cancel")
    begin = time.monotonic()
    assert session.answer(first)["result"]["status"] == "cancelled"
    assert time.monotonic() - begin < 10
    assert session.value("1 + 1") == "2"


def test_stop_signal_does_not_wait_for_queued_runs(open_session):
    session = open_session()
    session.run("1")
    for _ in range(4):
        session.send(code="import time; time.sleep(30)")
    time.sleep(0.3)
    begin = time.monotonic()
    os.kill(session.pid, signal.SIGTERM)
    session.finish(10)
    assert time.monotonic() - begin < 8


LEAVE_WHEN_TOLD = """
import os, threading, time
x = 1
def leave():
    while not os.path.exists('go'): time.sleep(0.01)
    os._exit(3)
threading.Thread(target=leave).start()
"""


def test_state_lost_between_runs_is_reported(open_session, tmp_path):
    session = open_session("--checkpoint", "off", "--workdir", tmp_path)
    session.run(LEAVE_WHEN_TOLD)
    tree = SessionTree(session.pid)
    assert tree.guests
    (tmp_path / "go").touch()
    assert wait_until(lambda: not set(tree.guests) & tree.family.alive().keys())
    result = session.run("'x' in globals()")
    assert (result["value"], result["state"]) == ("False", "lost")
    assert session.run("1")["state"] == "kept"


def test_processes_of_a_crashed_run_are_ended(open_session, token):
    session = open_session()
    session.run("import subprocess")
    result = session.run(f"subprocess.Popen(['sleep', '77.{token}'])\nimport os; os._exit(3)")
    assert (result["exit_code"], result["state"]) == (3, "rolled_back")
    assert_no_process(token)


def test_runs_of_other_languages_do_not_extend_the_cpu_time_watch(open_session):
    """Without cgroups init watches the processor time of the run's group: a program's must end with it."""
    session = open_session("--cpu-time", "2s")
    session.run("x = 1\nimport subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', 'while True: pass'])")
    assert session.run("true", language="sh")["status"] == "ok"
    time.sleep(3.5)
    assert session.value("child.kill(); x") == "1"
