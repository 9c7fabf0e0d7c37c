"""Cancel, interrupt, Ctrl-C: the run really ends, and the session stays."""

import asyncio
import os
import signal
import threading
import time

import pytest

import cella
import cella.sync
from children import Child
from serving import TOKEN, serving
from support.leftovers import processes_with
from support.running import wait_until

# A child process of the guest, which is found from outside by its argument.
SPIN = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'while True: pass', '{token}'])"
FOREVER = "x = 1\nprint('on', flush=True)\nimport time\nwhile True: time.sleep(0.01)"


def spinning(token):
    return SPIN.format(token=token)


def test_cancelled_task_kills_the_run_and_keeps_the_session(token):
    async def main():
        async with cella.Session() as session:
            await session.run("x = 41")
            task = asyncio.ensure_future(session.run(spinning(token)))
            while not processes_with(token):
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            start = time.monotonic()
            while processes_with(token):
                assert time.monotonic() - start < 5
                await asyncio.sleep(0.01)
            assert (await session.run("x + 1", timeout=5)).value == "42"

    asyncio.run(main())


def test_wait_for_timeout_kills_the_run(token):
    async def main():
        async with cella.Session() as session:
            await session.run("x = 41")
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(session.run(spinning(token)), 0.5)
            assert (await session.run("x + 1", timeout=5)).value == "42"
            assert wait_until(lambda: not processes_with(token), 10)

    asyncio.run(main())


def test_cancelled_stream_kills_the_run_and_keeps_the_session():
    async def main():
        async with cella.Session() as session:
            await session.run("x = 41")

            async def follow(seen):
                async for event in session.stream(FOREVER):
                    seen.append(event.type)

            seen = []
            task = asyncio.ensure_future(follow(seen))
            while "stdout" not in seen:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await session.run("x", timeout=5)).value in ("1", "41")

    asyncio.run(main())


def test_leaving_a_stream_ends_the_run(twin, session, wait):
    stream = session.stream(FOREVER)
    for event in twin.each(stream):
        if event.type == "stdout":
            break
    twin.close(stream)
    assert wait(session.run("'next'", timeout=5)).value == "'next'"


def in_thread(work):
    """A thread whose answer can be waited for."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(work()))
    thread.start()

    def answer():
        thread.join(20)
        assert not thread.is_alive()
        return answers[0]

    return answer


def test_cancel_works_from_another_thread(open_session, wait, twin):
    session = open_session()
    wait(session.run("x = 41"))
    on = threading.Event()

    def cancel():
        assert on.wait(20)
        if twin.name == "sync":
            return session.cancel()
        return asyncio.run(session.cancel())

    answer = in_thread(cancel)
    result = wait(session.run(FOREVER, on_stdout=lambda text: on.set()))
    assert answer() == 1
    assert (result.status, result.exit_code) == ("cancelled", 125)
    assert wait(session.run("'alive'")).value == "'alive'"


def test_cancel_ends_queued_runs(session, wait):
    runs = [wait(session.start(FOREVER)) for _ in range(4)]
    assert wait(session.cancel()) == 4
    assert [wait(run.result()).status for run in runs] == ["cancelled"] * 4
    assert wait(session.cancel()) == 0
    assert wait(session.run("1")).ok


def test_cancelled_queued_stream_has_a_result():
    async def main():
        async with cella.Session() as session:
            first = await session.start(FOREVER)
            stream = session.stream("2")

            async def follow():
                return [event.type async for event in stream]

            task = asyncio.ensure_future(follow())
            while len((await session.client.list_runs(session.id))["runs"]) < 2:
                await asyncio.sleep(0.01)
            runs = (await session.client.list_runs(session.id))["runs"]
            second = next(run["id"] for run in runs if run["id"] != first.id)
            assert await session.client.cancel_run(session.id, second)
            await asyncio.wait_for(task, 10)
            assert stream.result.status == "cancelled"
            await first.cancel()

    asyncio.run(main())


def test_interrupt_keeps_the_state(session, wait, twin):
    def interrupt():
        assert on.wait(20)
        return session.interrupt() if twin.name == "sync" else asyncio.run(session.interrupt())

    on = threading.Event()
    answer = in_thread(interrupt)
    result = wait(session.run(FOREVER, on_stdout=lambda text: on.set()))
    assert answer() is True
    assert (result.status, result.error.name, result.state) == ("error", "KeyboardInterrupt", "kept")
    assert wait(session.run("x")).value == "1"
    assert wait(session.interrupt()) is False


def test_interrupt_of_a_run_never_reaches_another(session, wait, twin):
    first = wait(session.start(FOREVER))
    for event in twin.each(first.events()):
        if event.type == "stdout":
            break
    assert wait(first.interrupt()) is True
    assert wait(first.result()).error.name == "KeyboardInterrupt"
    second = wait(session.start(FOREVER))
    assert wait(first.interrupt()) is False
    assert wait(second.status()) in ("queued", "running")
    assert wait(second.cancel()) is True
    assert wait(second.result()).status == "cancelled"


WAITING = """
    import os, signal, threading, time
    import cella, cella.sync
    session = cella.sync.Session(%s)
    session.run("x = 41")
    other = session.start("import time; time.sleep(2); x += 1")

    def press_ctrl_c():
        while len(session.client.list_runs(session.id)["runs"]) < 3:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press_ctrl_c).start()
    try:
        session.run("x = 0"%s)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    print("other", other.result().status, flush=True)
    print("value", session.run("x").value, flush=True)
    session.close()
"""


@pytest.mark.parametrize(
    "place, how",
    [("", ""), ("", ", on_stderr=print"), ("cella.InProcessExecutor()", "")],
    ids=["plain", "stream", "inprocess"],
)
def test_ctrl_c_while_a_run_waits_does_not_reach_the_run_that_is_on(place, how):
    with Child(WAITING % (place, how)) as child:
        assert child.answer("value") == "42"
        assert child.finish() == 0, child.describe()
        assert "interrupted" in child.said and "other ok" in child.said, child.said


CTRL_C = """
    import cella.sync
    session = cella.sync.Session()
    session.run("x = 41")
    try:
        session.run(%r%s)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    print("value", session.run("x + 1").value, flush=True)
    session.close()
"""


@pytest.mark.parametrize("how", ["", ", on_stderr=print"], ids=["plain", "stream"])
def test_ctrl_c_interrupts_the_run_and_the_session_is_kept(how, token):
    code = "x += 1\n" + spinning(token)
    with Child(CTRL_C % (code, how)) as child:
        assert wait_until(lambda: processes_with("while True: pass\0" + token), 20), child.describe()
        os.kill(child.pid, signal.SIGINT)
        assert child.answer("value") == "43"
        assert child.finish() == 0, child.describe()
        assert "interrupted" in child.said
    assert wait_until(lambda: not processes_with(token), 5)


def test_ctrl_c_ends_code_that_ignores_sigint(token):
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + spinning(token)
    with Child(CTRL_C % (code, "")) as child:
        assert wait_until(lambda: processes_with("while True: pass\0" + token), 20), child.describe()
        start = time.monotonic()
        os.kill(child.pid, signal.SIGINT)
        assert child.answer("value") == "42"
        assert time.monotonic() - start < 15
        assert child.finish() == 0, child.describe()


def test_closed_session_raises_session_closed(twin, wait):
    session = twin.api.Session()
    wait(session.run("1"))
    twin.close(session)
    twin.close(session)
    with pytest.raises(cella.SessionClosed, match="closed"):
        wait(session.run("1"))


def test_closing_a_session_ends_its_runs(twin, wait, token):
    session = twin.api.Session()
    wait(session.start(spinning(token)))
    assert wait_until(lambda: processes_with(token), 10)
    twin.close(session)
    assert wait_until(lambda: not processes_with(token), 5)


def test_session_ended_by_its_timeout_reports_the_reason(open_session, wait):
    session = open_session(cella.SandboxExecutor(idle_timeout="1500ms"))
    wait(session.run("1"))
    assert wait_until(lambda: wait(session.client.get_session(session.id))["status"] == "closed", 10)
    with pytest.raises(cella.SessionClosed, match="ended"):
        wait(session.run("1"))


def test_break_out_of_a_stream_cancels_the_run(open_session, twin, wait):
    session = open_session()

    def leave():
        for event in twin.each(session.stream(FOREVER)):
            if event.type == "stdout":
                break

    leave()
    start = time.monotonic()
    assert wait(session.run("'next'")).value == "'next'"
    assert time.monotonic() - start < 10


@pytest.fixture
def stopped_server(own_places, monkeypatch):
    """Of this test alone: it answers nothing until the test ends."""
    from cella import _private_server as private
    from cella._async import exchange
    from cella._sync import exchange as blocking

    for module in (exchange, blocking):
        monkeypatch.setattr(module, "_PROBE", 0.5)
        monkeypatch.setattr(module, "_INTERRUPT_GRACE", 0.5)
    monkeypatch.setattr(private, "_current", None)
    stopped = []

    def stop():
        stopped.append(private._current._pid)
        os.kill(stopped[0], signal.SIGSTOP)

    yield stop
    os.kill(stopped[0], signal.SIGCONT)
    private.stop()


def test_stopped_server_is_noticed_within_the_deadline(stopped_server, twin, wait):
    session = twin.api.Session()
    wait(session.run("1"))
    stopped_server()
    start = time.monotonic()
    with pytest.raises(cella.ConnectionFailed, match="did not answer in time"):
        wait(session.run("1", timeout=1))
    assert time.monotonic() - start < 15


def test_stopped_server_is_noticed_during_an_upload(stopped_server, twin, wait, monkeypatch):
    """More than fits into the buffers of the connection."""
    import importlib

    session = twin.api.Session()
    wait(session.run("1"))
    stopped_server()
    exchanges = importlib.import_module(f"cella._{twin.name}.exchange").Exchanges
    begin = exchanges.begin

    def impatient(self, method, where, body, extra, interrupted, patience, probes):
        return begin(self, method, where, body, extra, interrupted, 1.0, probes)

    monkeypatch.setattr(exchanges, "begin", impatient)
    with pytest.raises(cella.ConnectionFailed, match="did not answer in time"):
        wait(session.upload("large", b"x" * (32 << 20)))


def test_ctrl_c_is_bounded_when_the_server_is_stopped(stopped_server):
    session = cella.sync.Session()
    session.run("1")
    stopped_server()
    main = threading.main_thread().ident
    timer = threading.Timer(0.3, lambda: signal.pthread_kill(main, signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        session.run("1", timeout=60)
    assert time.monotonic() - start < 10
    timer.join()


def test_long_run_survives_the_question_whether_the_server_answers(open_session, twin, wait, monkeypatch):
    import importlib

    module = importlib.import_module(f"cella._{twin.name}.client")
    monkeypatch.setattr(module, "PATIENCE", 0.2)
    monkeypatch.setattr(module, "_SHORT", 0.1)
    session = open_session()
    assert wait(session.run("import time; time.sleep(1.5); 'slept'", timeout=60)).value == "'slept'"


def test_retries_of_a_busy_server_are_visible_and_bounded(twin, wait, monkeypatch, caplog):
    import importlib

    monkeypatch.setattr(importlib.import_module(f"cella._{twin.name}.client"), "BUSY_BOUND", 1.5)
    with serving("[sessions]\nmax_sessions = 1\n") as server:
        client = twin.api.Client(server.url, TOKEN)
        first = twin.api.Session(client=client)
        wait(first.open())
        start = time.monotonic()
        with pytest.raises(cella.ServerBusy):
            wait(twin.api.Session(client=client).open())
        assert time.monotonic() - start < 10
        assert "trying again" in caplog.text
        twin.close(first)
        twin.close(client)
