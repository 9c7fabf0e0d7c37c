"""Checkpoints of the Python runner: a copy that sleeps, and goes on as the runner when it is woken."""

import os
import select
import signal
import socket
import time

import pytest

from driver import PATIENCE, Runner
from python_runner import INTERPRETERS, Zygote, start, version_of


@pytest.fixture(params=INTERPRETERS, ids=lambda python: "%d.%d" % version_of(python))
def session(request):
    """A fork of a zygote: it knows where the library is."""
    with Zygote(request.param) as zygote:
        with zygote.fork() as forked:
            yield forked.configure()


def take(session):
    """The copy's socket and pidfd, which came beside the last frame."""
    sock, pidfd = session.descriptors
    session.descriptors = []
    return socket.socket(fileno=sock), pidfd


def adopt(session, sock):
    return Runner.adopt(sock, session.stdout, session.stderr, checkpoints=True)


def has_ended(pidfd):
    return bool(select.select([pidfd], [], [], PATIENCE)[0])


def test_resumed_copy_has_the_state_before_the_crash(session):
    outcome = session.run("x = [1]; import os, random; old = os.getpid()", checkpoint="always")
    assert outcome.checkpoint["status"] == "taken"
    sock, pidfd = take(session)
    session.start("x.append(2); print('about to die', flush=True); os.kill(os.getpid(), 9)")
    with pytest.raises((EOFError, ConnectionError)):
        session.finish()
    assert session.stdout.take() == "about to die\n"
    with adopt(session, sock) as copy:
        assert copy.run("x").value == "[1]"
        assert copy.run("os.getpid() != old").value == "True"
        assert copy.run("print('alive')").stdout == "alive\n"
        assert copy.run("import threading; threading.main_thread().native_id == os.getpid()").value == "True"
        outcome = copy.run("y = 1", checkpoint="always")
        assert outcome.checkpoint["status"] == "taken"
        second, second_pidfd = take(copy)
        copy.pid = int(copy.run("os.getpid()").value)
        copy.start("print('on')\nwhile True: pass")
        copy.wait_for_output("on")
        copy.interrupt()
        assert copy.finish().status == "interrupted"
        copy.run("y = 2")
        with adopt(copy, second) as third:
            assert third.run("y").value == "1"
    for fd in (pidfd, second_pidfd):
        assert has_ended(fd)
        os.close(fd)


def run_with_late_checkpoint(session, code):
    session.start(code, checkpoint="auto", courtesy_ms=60_000)
    while session.receive()["type"] != "done":
        pass
    assert not select.select([session.socket], [], [], 0.1)[0]


def test_delayed_checkpoint_is_taken_before_the_next_run(session):
    run_with_late_checkpoint(session, "x = 1")
    session.start("x = 2")
    assert session.receive()["status"] == "taken"
    sock, pidfd = take(session)
    assert session.finish().status == "ok"
    with adopt(session, sock) as copy:
        assert copy.run("x").value == "1"
    os.close(pidfd)


def test_interrupt_ends_a_run_that_waits_for_a_checkpoint(session):
    run_with_late_checkpoint(session, "import time")
    os.kill(session.pid, signal.SIGSTOP)
    session.start("time.sleep(20)")
    session.interrupt()
    os.kill(session.pid, signal.SIGCONT)
    assert session.receive()["type"] == "checkpoint"
    assert session.finish().status == "interrupted"
    assert session.run("'on'").value == "'on'"


def test_checkpoint_socket_ignores_the_default_socket_timeout(session):
    assert session.run("import socket; socket.setdefaulttimeout(0.01)").status == "ok"
    outcome = session.run("x = 1", checkpoint="always")
    assert outcome.checkpoint["status"] == "taken"
    sock, pidfd = take(session)
    time.sleep(0.1)
    assert session.run("x").value == "1"
    with adopt(session, sock) as copy:
        assert copy.run("x").value == "1"
    os.close(pidfd)


def test_closed_session_takes_no_checkpoint(session):
    run_with_late_checkpoint(session, "x = 1")
    session.socket.shutdown(socket.SHUT_WR)
    with pytest.raises(EOFError):
        session.receive()


def test_a_copy_ends_with_its_socket(session):
    session.run("x = 1", checkpoint="always")
    sock, pidfd = take(session)
    assert not select.select([pidfd], [], [], 0.05)[0]
    sock.close()
    assert has_ended(pidfd)
    os.close(pidfd)
    assert session.run("x").value == "1"


def test_waiting_copy_gets_no_signals_and_is_no_child(session):
    session.run("import os, signal; x = 1", checkpoint="always")
    sock, pidfd = take(session)
    signal.pidfd_send_signal(pidfd, signal.SIGINT)
    signal.pidfd_send_signal(pidfd, signal.SIGTERM)
    assert not select.select([pidfd], [], [], 0.05)[0]
    assert session.run("os.wait()").error["name"] == "ChildProcessError"
    sock.close()
    os.close(pidfd)


def test_checkpoint_frame_has_all_fields(session):
    outcome = session.run("1", checkpoint="off")
    assert outcome.of("checkpoint") == []
    assert session.descriptors == []
    frame = session.run("1", checkpoint="auto").checkpoint
    assert frame["status"] == "taken" and frame["fork_us"] > 0 and frame["run"] == "run_2"
    close_copy(session)
    frame = session.ask({"type": "checkpoint", "name": "before the change", "run": None})
    assert (frame["status"], frame["name"], frame["run"]) == ("taken", "before the change", None)
    sock, pidfd = take(session)
    session.run("x = 5")
    with adopt(session, sock) as copy:
        assert copy.run("x").error["name"] == "NameError"
    os.close(pidfd)


def close_copy(session):
    sock, pidfd = take(session)
    sock.close()
    os.close(pidfd)


def test_checkpoints_leak_no_descriptors(session):
    count = "import os; len(os.listdir('/proc/self/fd'))"
    session.run("1", checkpoint="always")
    close_copy(session)
    before = session.run(count).value
    for _ in range(5):
        session.run("1", checkpoint="always")
        close_copy(session)
    assert session.run(count).value == before


def test_copy_ends_only_when_its_own_socket_closes(session):
    session.run("1", checkpoint="always")
    first = take(session)
    session.ask({"type": "checkpoint", "name": "kept", "run": None})
    named = take(session)
    session.run("2", checkpoint="always")
    second = take(session)
    first[0].close()
    assert has_ended(first[1])
    assert not select.select([named[1], second[1]], [], [], 0.05)[0]
    for sock, pidfd in (first, named, second):
        sock.close()
        os.close(pidfd)


def test_checkpoint_is_skipped_while_threads_run(session):
    session.run("import threading; e = threading.Event(); t = threading.Thread(target=e.wait); t.start()")
    assert session.run("1", checkpoint="always").checkpoint["status"] == "skipped: 2 threads are running"
    session.run("e.set(); t.join()")
    deadline = time.monotonic() + PATIENCE
    while session.run("1", checkpoint="always").checkpoint["status"] != "taken":
        # join() returns a little before the thread is gone from the kernel
        assert time.monotonic() < deadline


def test_automatic_checkpoint_is_skipped_if_it_is_costly(session):
    session.run("import cella_runner.hooks; s = cella_runner.hooks.session().checkpoints")
    session.run("s._last_cost = 9000; s._last_resident = 1")
    assert session.run("1", checkpoint="auto").checkpoint["status"].endswith("MB would take too long")
    assert session.run("1", checkpoint="always").checkpoint["status"] == "taken"
    session.run("s._last_cost = 9000; s._last_resident = 1 << 40")
    assert session.run("1", checkpoint="auto").checkpoint["status"] == "taken"


NINE_MILLISECONDS_EACH = """
import cella_runner.checkpoint, itertools
class Slow:
    process_time_ns = itertools.count(0, 9_000_000).__next__
cella_runner.checkpoint.time = Slow
"""


def test_checkpoint_is_skipped_after_two_slow_ones_not_after_one(session):
    session.run("1", checkpoint="always")
    session.run(NINE_MILLISECONDS_EACH)
    statuses = [session.run("1", checkpoint="auto").checkpoint["status"] for _ in range(3)]
    assert statuses[:2] == ["taken", "taken"]
    assert statuses[2].endswith("MB would take too long")


def test_missing_library_is_the_reason_for_a_skipped_checkpoint():
    with start(INTERPRETERS[0]) as plain:
        plain.configure()
        status = plain.run("1", checkpoint="auto").checkpoint["status"]
        assert status.startswith("skipped: the checkpoint library is not there")
        assert plain.run("2").value == "2"


def test_event_loop_tasks_continue_in_the_copy(session):
    session.run("import asyncio\nasync def f():\n    await asyncio.sleep(0.01)\n    return 'slept'\n")
    session.run("await asyncio.sleep(0); task = asyncio.ensure_future(f())", checkpoint="always")
    sock, pidfd = take(session)
    session.start("os = __import__('os'); os._exit(1)")
    with adopt(session, sock) as copy:
        assert copy.run("await task").value == "'slept'"
    os.close(pidfd)
