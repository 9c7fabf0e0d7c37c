"""Runs that are ended from outside: by the timeout or by a signal. Both keep the output written so far."""

import signal

import pytest
from support.cella import PYTHON
from support.leftovers import assert_no_process
from support.running import wait_until

LATE = "print('late')"

# Each has said "before" and shall never say more. The token among its arguments marks the processes.
STUBBORN = {
    "sleeps": "import time\ntime.sleep(60)",
    "spins": "while True: pass",
    "ignores SIGINT and SIGTERM": """
import signal, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
time.sleep(60)
""",
    "blocks every signal": """
import signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
time.sleep(60)
""",
    "sleeps again": """
import time
while True:
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        pass
""",
    "stops itself": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
    "waits for a stubborn child": """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    time.sleep(60)
os.wait()
""",
}


@pytest.mark.parametrize("executor", ["sandbox", "local"])
@pytest.mark.parametrize("kind", STUBBORN)
def test_timeout_ends_the_run_and_keeps_output(run, token, kind, executor):
    code = "print('before', flush=True)\n" + STUBBORN[kind] + "\n" + LATE
    result = run.python(code, "--timeout", "2s", "--executor", executor, args=[token])
    assert (result["status"], result["exit_code"]) == ("timeout", 124), result
    assert result["stdout"] == "before\n"
    assert result["error"] == {"name": "Timeout", "message": "stopped after 2s (--timeout)", "traceback": ""}
    assert result["signal"] in (signal.SIGINT, signal.SIGKILL), result
    assert 2000 <= result["usage"]["wall_ms"] < 15000
    assert_no_process(token)


def test_timeout_below_a_second_is_enforced(run):
    result = run.shell("sleep 60", "--timeout", "200ms")
    assert result["status"] == "timeout" and "200ms" in result["error"]["message"]
    assert 200 <= result["usage"]["wall_ms"] < 15000


def test_timeout_is_reported_on_stderr(run):
    finished = run("-c", "print('before', flush=True); import time; time.sleep(60)", "--timeout", "1.5")
    assert (finished.exit_code, finished.stdout) == (124, b"before\n")
    assert finished.stderr.endswith(b"cella: stopped after 1.5s (--timeout)\n")


def test_program_may_handle_sigint_at_the_timeout(run):
    result = run.python(
        "import time\ntry:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    print('goodbye')", "--timeout", "1s"
    )
    assert (result["status"], result["exit_code"]) == ("timeout", 124)
    assert result["stdout"] == "goodbye\n"
    # It was no signal that ended it.
    assert result["signal"] is None


def test_run_within_the_timeout_succeeds(run):
    result = run.python("print('done')", "--timeout", "20s")
    assert (result["status"], result["exit_code"], result["error"]) == ("ok", 0, None)


def test_compile_time_counts_towards_the_timeout(run, tmp_path):
    """A template that never ends: the whole compiler tree goes."""
    source = tmp_path / "endless.cpp"
    source.write_text(
        "template <int A, int B> struct F { static const long v = F<A - 1, B>::v + F<A - 1, B + 1>::v; };\n"
        "template <int B> struct F<0, B> { static const long v = B; };\n"
        "int main() { return F<400, 0>::v; }\n"
    )
    result = run.json(source, "--timeout", "1s", "--memory", "4g")
    assert (result["status"], result["exit_code"]) == ("timeout", 124), result
    assert result["usage"]["wall_ms"] < 15000


WAITS = f"""
import sys, time
sys.stdout.write('before\\n')
sys.stderr.write('too\\n')
open('ready', 'w').close()
time.sleep(60)
{LATE}
"""


@pytest.mark.parametrize("executor", ["sandbox", "local"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_signal_to_cella_cancels_the_run(run, token, tmp_path, number, executor):
    words = ["-c", WAITS, "--python", PYTHON, "--executor", executor, "--workdir", tmp_path, "--", token]
    with run.started("--json", *words) as process:
        assert wait_until((tmp_path / "ready").exists), "the guest did not start"
        process.send(number)
        finished = process.finish(5)
    result = finished.result()
    assert (finished.exit_code, result["exit_code"], result["status"]) == (125, 125, "cancelled")
    assert result["stdout"] == "before\n" and result["stderr"].startswith("too\n"), result
    assert result["error"]["name"] == "Cancelled"
    assert_no_process(token)


@pytest.mark.parametrize("executor", ["sandbox", "local"])
def test_ctrl_c_at_a_terminal_cancels_the_run(run, token, executor):
    """A terminal signals the whole foreground group: what of cella is in there must not fall before it can tell."""
    for _ in range(10):
        with run.started("-c", WAITS, "--python", PYTHON, "--executor", executor, "--", token) as process:
            process.wait_for(b"before")
            process.wait_for(b"too", "stderr")
            process.send_group(signal.SIGINT)
            finished = process.finish(5)
        assert finished.exit_code == 125, finished.describe()
        assert finished.stdout == b"before\n"
        assert finished.stderr.endswith(b"cella: stopped before it ended\n"), finished.describe()
        assert_no_process(token)


def test_cancelled_run_keeps_plain_output(run):
    with run.started("-c", WAITS, "--python", PYTHON) as process:
        process.wait_for(b"before")
        process.send(signal.SIGTERM)
        finished = process.finish(5)
    assert (finished.exit_code, finished.stdout) == (125, b"before\n")
    assert finished.stderr.endswith(b"cella: stopped before it ended\n")


def test_guest_ignoring_sigint_is_cancelled(run, token):
    say = "import os\nos.write(1, b'before\\n')\n"
    code = STUBBORN["ignores SIGINT and SIGTERM"].replace("time.sleep", say + "time.sleep")
    with run.started("-c", code, "--python", PYTHON, "--", token) as process:
        process.wait_for(b"before")
        process.send(signal.SIGINT)
        finished = process.finish(5)
    assert (finished.exit_code, finished.stdout) == (125, b"before\n")
    assert_no_process(token)
