"""The JavaScript runner and SIGINT, announced or not, at every time; as the supervisor sends it, and as others do."""

import os
import signal
import time

import pytest
from javascript_runner import runner  # noqa: F401 (fixture)


@pytest.mark.parametrize("code", [
    "while (true) {}",
    "for (;;) { try { while (true) {} } catch (e) {} finally { kept = 'no' } }",
    "await new Promise(r => setTimeout(r, 60000))",
    "setInterval(() => {}, 5); await new Promise(() => {})",
    "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
    "require('child_process').execSync('sleep 60')",
    "new (require('async_hooks').AsyncResource)('x').runInAsyncScope(() => { while (true) {} })",
    "/(a+)+b/.test('a'.repeat(40))",
])
def test_interrupt_ends_the_run_and_keeps_the_state(runner, code):
    runner.run("let kept = 'yes'")
    runner.start(f"console.log('started'); {code}")
    runner.wait_output("stdout", b"started")
    if "sleep 60" in code:
        runner.wait_for_program("sleep 60")
    else:
        time.sleep(0.1)
    began = time.monotonic()
    runner.interrupt()
    answer = runner.finish(10)
    assert time.monotonic() - began < 5
    assert (answer.status, answer.exit_code, answer.error["name"]) == ("interrupted", 130, "KeyboardInterrupt")
    assert runner.run("kept").value == "'yes'"
    assert runner.run("await new Promise(r => setTimeout(r, 5)); 'awake'").value == "'awake'"


def start_awaiting(runner):
    """A run that waits for what never comes; the event loop is at work again."""
    runner.start("setTimeout(() => console.log('started'), 0); await new Promise(() => {})")
    runner.wait_output("stdout", b"started")


def wait_for_watchdog(runner):
    """Its thread is there when an unannounced signal ends what is awaited."""
    start_awaiting(runner)
    os.kill(runner.process.pid, signal.SIGINT)
    assert runner.finish(10).status == "interrupted"


@pytest.mark.parametrize("code", [
    "await null; while (true) {}",
    "await new Promise(r => setTimeout(r, 10)); for (;;) { try { while (true) {} } finally { kept = 'no' } }",
    "async function main() { await require('fs').promises.readFile('/dev/null'); while (true) {} }; main()",
])
def test_interrupt_ends_a_loop_after_an_await(runner, code):
    runner.run("let kept = 'yes'")
    wait_for_watchdog(runner)
    for _ in range(2):
        runner.start(code.replace("while", "console.log('started'); while"))
        runner.wait_output("stdout", b"started")
        runner.interrupt()
        answer = runner.finish(10)
        assert (answer.status, answer.error["name"]) == ("interrupted", "KeyboardInterrupt")
        assert runner.run("kept").value == "'yes'"
        runner.start("console.log('started'); while (true) {}")
        runner.wait_output("stdout", b"started")
        runner.interrupt()
        assert runner.finish(10).status == "interrupted"
        runner.interrupt()
        assert runner.run("await new Promise(r => setTimeout(r, 5)); 'awake'").value == "'awake'"


@pytest.mark.parametrize("code", [
    "while (true) {}",
    "let kept = 'yes'; while (true) {}",
    "await new Promise(r => setTimeout(r, 60000))",
    "new Promise(() => {})",
])
def test_interrupt_before_the_code_starts_ends_that_run(runner, code):
    runner.run("let kept = 'yes'")
    for _ in range(3):
        with runner.stopped():
            runner.start(f"console.log('ran'); {code}")
            runner.interrupt()
        answer = runner.finish(10)
        assert (answer.status, answer.exit_code) == ("interrupted", 130)
        assert runner.run("kept").value == "'yes'"


def test_interrupt_of_an_ended_run_does_not_reach_the_next_run(runner):
    runner.run("1")
    for code in ("2", "await 2", "await new Promise(r => setTimeout(r, 100)); 2"):
        with runner.stopped():
            runner.interrupt()
            runner.start(code)
        assert runner.finish(10).value == "2"


def test_child_killed_by_sigint_is_an_interrupt_only_if_one_was_requested(runner):
    # SIGINT ends a child as well, and the code may have heard of that before the signal is felt here.
    code = "console.log('started'); require('child_process').execSync('exec sleep 60')"
    for asked in (False, True):
        runner.start(code)
        runner.wait_output("stdout", b"started")
        child = runner.wait_for_program("sleep 60")
        if asked:
            runner.send(type="interrupt", run=f"run_{runner.number}")
        os.kill(child, signal.SIGINT)
        answer = runner.finish(10)
        assert answer.status == ("interrupted" if asked else "error")
        assert answer.error["name"] == ("KeyboardInterrupt" if asked else "Error")


def test_late_signal_after_its_frame_does_not_reach_the_next_run(runner):
    for wait in (0.002, 0.005, 0.01):
        runner.run("1")  # signals are counted from here: a late one may have hit the run before
        code = "const until = Date.now() + 100; while (Date.now() < until); 2"
        was_in_time = runner.start_before_late_signal(code, wait)
        answer = runner.finish(10)
        assert answer.value == "2" or not was_in_time


@pytest.mark.parametrize("code", [
    "process.kill(process.pid, 'SIGINT'); while (true) {}",
    "await null; process.kill(process.pid, 'SIGINT'); await new Promise(() => {})",
    "await null; const until = Date.now() + 1000; process.kill(process.pid, 'SIGINT'); while (Date.now() < until);"
    " await new Promise(() => {})",
    "await null; require('child_process').execSync('kill -INT $PPID'); while (true) {}",
])
def test_signal_without_a_frame_ends_the_run(runner, code):
    runner.run("let kept = 'yes'")
    wait_for_watchdog(runner)
    runner.start(code)
    answer = runner.finish(10)
    assert (answer.status, answer.error["name"]) == ("interrupted", "KeyboardInterrupt")
    assert runner.run("kept").value == "'yes'"


def interrupt_awaited(runner):
    """What a run answers that is interrupted while it waits for what never comes."""
    start_awaiting(runner)
    runner.interrupt()
    return runner.finish(10)


def test_listener_that_raises_the_signal_again_does_not_end_the_session(runner):
    runner.run("let kept = 'yes'; process.once('SIGINT', () => { process.kill(process.pid, 'SIGINT') })")
    assert interrupt_awaited(runner).status == "interrupted"
    time.sleep(0.1)
    assert runner.run("kept").value == "'yes'"


def test_listener_that_throws_does_not_prevent_the_interrupt(runner):
    runner.run("process.on('SIGINT', () => { throw new Error('not now') })")
    answer = interrupt_awaited(runner)
    assert answer.status == "interrupted" and "not now" in answer.stderr


def test_listeners_of_a_cell_are_called_and_the_interrupt_ends_the_run(runner):
    runner.run("let heard = 0; process.on('SIGINT', () => { heard += 1 }); process.once('SIGINT', () => {})")
    assert interrupt_awaited(runner).status == "interrupted"
    assert runner.run("heard").value == "1"
    runner.run("process.removeAllListeners('SIGINT')")
    os.kill(runner.process.pid, signal.SIGINT)
    time.sleep(0.05)
    assert runner.run("process.on('SIGUSR2', () => { heard += 10 }); process.kill(process.pid, 'SIGUSR2')").status == "ok"
    assert runner.run("await new Promise(r => setTimeout(r, 50)); heard").value == "11"


def test_interrupt_between_runs_is_ignored(runner):
    runner.run("let kept = 1; process.removeAllListeners('SIGINT')")
    for _ in range(3):
        runner.interrupt()
    time.sleep(0.05)
    assert runner.run("kept").value == "1"


def test_interrupt_ends_a_waiting_prompt(runner):
    runner.start("prompt('?')", input=True)
    assert runner.receive()["type"] == "input_request"
    runner.interrupt()
    assert runner.finish().status == "interrupted"
    assert runner.run("1").value == "1"
