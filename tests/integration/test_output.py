"""Standard output and error of a plain run: the program's bytes and nothing else, however many and however read."""

import hashlib
import os
import random
import signal
import subprocess
import time

import pytest
from support.cella import PYTHON, run_bounded
from support.leftovers import assert_no_process, processes_with
from support.running import wait_until

MEGABYTE = 1 << 20


def test_every_byte_value_is_passed(run, tmp_path):
    data = random.Random(2).randbytes(300_000) + bytes(range(256)) + b"\xff\xfe\xe2\x82"
    (tmp_path / "data").write_bytes(data)
    finished = run(
        "-c",
        "import os; os.write(2, b'\\xfferr'); print(end='', flush=True); os.system('cat data')",
        "--file",
        tmp_path / "data",
    )
    assert finished.exit_code == 0
    assert finished.stdout == data
    assert finished.stderr == b"\xfferr"


def test_stdout_and_stderr_are_separate(run):
    finished = run("-c", "for n in 1 2 3; do echo out$n; echo err$n >&2; done", "--lang", "sh")
    assert (finished.exit_code, finished.stdout, finished.stderr) == (0, b"out1\nout2\nout3\n", b"err1\nerr2\nerr3\n")


FLOOD = """
import hashlib, os, sys
digest = hashlib.sha256()
for n in range(320):
    block = n.to_bytes(4, "big") * 16384
    digest.update(block)
    view = memoryview(block)
    while view: view = view[os.write(1, view):]
print(digest.hexdigest(), file=sys.stderr)
"""


@pytest.mark.parametrize("executor", ["sandbox", "local"])
def test_slow_reader_receives_twenty_megabytes(run, executor):
    """The reader pauses; cella waits for it, and so does the program, instead of growing."""
    argv = run.argv("-c", FLOOD, "--python", PYTHON, "--executor", executor)
    process = subprocess.Popen(
        argv, env=run.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    digest, size, peak = hashlib.sha256(), 0, 0
    while chunk := os.read(process.stdout.fileno(), 65536):
        digest.update(chunk)
        size += len(chunk)
        if size % (4 * MEGABYTE) < len(chunk):
            time.sleep(0.1)
            peak = max(peak, resident(process.pid))
    stderr = process.stderr.read()
    assert process.wait(10) == 0, stderr
    assert size == 320 * 65536
    assert stderr.decode() == digest.hexdigest() + "\n"
    assert 0 < peak < 30 * MEGABYTE


def resident(pid):
    try:
        with open(f"/proc/{pid}/status") as lines:
            return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:")), 0)
    except (FileNotFoundError, ProcessLookupError):  # gone before the open, or before the read
        return 0


def test_result_of_large_output_is_small(run):
    """Twenty megabytes against the default cap of one: head and tail remain, the rest is counted."""
    result = run.python(FLOOD)
    assert result["status"] == "ok"
    assert result["truncated"] == {"stdout": 320 * 65536 - MEGABYTE, "stderr": 0}
    assert f"[... {320 * 65536 - MEGABYTE} bytes dropped ...]" in result["stdout"]


def test_the_output_limit_keeps_head_and_tail(run):
    code = "import sys\nfor n in range(10000): print('%05d' % n)\nprint('e' * 3000, file=sys.stderr)"
    result = run.python(code, "--output-limit", "1k")
    assert result["status"] == "ok"
    assert result["truncated"] == {"stdout": 60_000 - 1024, "stderr": 3001 - 1024}
    head, _, tail = result["stdout"].partition(f"\n[... {60_000 - 1024} bytes dropped ...]\n")
    assert head.startswith("00000\n00001\n") and tail.endswith("09998\n09999\n")
    assert len(head) + len(tail) == 1024
    assert min(len(head), len(tail)) >= 256


def test_output_up_to_the_limit_is_complete(run):
    exact = run.python("print('x' * 1023)", "--output-limit", "1k")
    assert (exact["stdout"], exact["truncated"]["stdout"]) == ("x" * 1023 + "\n", 0)
    over = run.python("print('x' * 1024)", "--output-limit", "1k")
    assert over["truncated"]["stdout"] == 1 and "[... 1 bytes dropped ...]" in over["stdout"]


def test_output_limit_applies_to_plain_output(run):
    finished = run("-c", "print('a' * 5000 + 'z' * 5000)", "--output-limit", "1000")
    assert finished.exit_code == 0
    assert len(finished.stdout) == 1000
    assert finished.stdout.startswith(b"aaaa") and finished.stdout.endswith(b"zzzz\n")
    assert b"[cella: 9001 bytes of stdout dropped (--output-limit)]" in finished.stderr


def test_output_limit_does_not_block_or_end_the_program(run):
    result = run.python(FLOOD + "print('reached', file=sys.stderr)", "--output-limit", "1")
    assert (result["status"], result["exit_code"]) == ("ok", 0)
    assert len(result["stderr"].rpartition("]\n")[2]) <= 1


def shell(run, script, *words, **options):
    """A shell pipeline with cella as "$@"."""
    argv = ["/bin/bash", "-c", script, "bash", *run.argv(*words)]
    return run_bounded(argv, env=run.environment, **options)


@pytest.mark.parametrize("executor", ["sandbox", "local"])
def test_closed_reader_ends_an_endless_program(run, token, executor):
    code = "import itertools\nfor n in itertools.count(): print(n)"
    finished = shell(
        run,
        'set -o pipefail; "$@" 2>/dev/null | head -1',
        "-c",
        code,
        "--python",
        PYTHON,
        "--executor",
        executor,
        "--",
        token,
        timeout=10,
    )
    assert finished.stdout == b"0\n", finished.describe()
    assert finished.exit_code not in (0, 124), "the program did not notice"
    assert_no_process(token)


def test_closed_output_is_reported_on_stderr(run):
    finished = shell(run, 'exec 3> >(true); wait $!; "$@" >&3', "-c", "print('x' * 9000)")
    assert finished.stdout == b"" and b"cella: standard output is closed" in finished.stderr, finished.describe()


def test_full_device_is_reported_on_stderr(run):
    finished = shell(run, '"$@" >/dev/full', "-c", "import os; os.write(1, b'x')")
    assert b"cella: standard output is closed (write: No space left on device)" in finished.stderr, finished.describe()


@pytest.mark.parametrize("form", ["--json", "--events"])
def test_unwritable_result_exits_126(run, form):
    finished = shell(run, '"$@" >/dev/full', form, "-c", "print(1)")
    assert finished.exit_code == 126
    assert b"No space left on device" in finished.stderr, finished.describe()


def test_full_stderr_does_not_affect_stdout(run):
    finished = shell(run, '"$@" 2>/dev/full', "-c", "import sys; print('out'); print('err', file=sys.stderr)")
    assert finished.stdout == b"out\n", finished.describe()


def test_timeout_ends_a_guest_whose_output_has_no_reader(run, token):
    """The program fills the pipe; at its limit it is gone, and what is in the pipe can still be read."""
    with run.started(
        "-c",
        "import os\nwhile True: os.write(1, b'x' * 65536)",
        "--python",
        PYTHON,
        "--timeout",
        "1s",
        "--",
        token,
        collect=False,
    ) as process:
        assert wait_until(lambda: guests(token, process.pid)), "the guest did not start"
        assert wait_until(lambda: not guests(token, process.pid), 15), "the guest lives on after its limit"
        process.collect()
        finished = process.finish(5)
    assert finished.exit_code == 124, finished.describe()
    assert len(finished.stdout) >= 65536 and set(finished.stdout) == {ord("x")}
    assert b"stopped after 1s" in finished.stderr


def test_signal_ends_a_guest_whose_output_has_no_reader(run, token):
    """Blocked on its reader, cella must still hear that it shall stop."""
    with run.started(
        "-c", "import os\nwhile True: os.write(1, b'x' * 65536)", "--python", PYTHON, "--", token, collect=False
    ) as process:
        assert wait_until(lambda: guests(token, process.pid)), "the guest did not start"
        time.sleep(0.3)
        process.send(signal.SIGTERM)
        assert wait_until(lambda: process.process.poll() is not None, 5), "cella waits for its reader for ever"
        assert process.process.returncode in (125, -signal.SIGTERM)
    assert_no_process(token)


def guests(token, supervisor):
    return set(processes_with(token)) - {supervisor}


def test_a_program_may_close_its_output_early(run):
    result = run.python("import os, time\nos.write(1, b'out')\nos.close(1)\nos.close(2)\ntime.sleep(0.2)\nos._exit(5)")
    assert (result["status"], result["exit_code"], result["stdout"]) == ("error", 5, "out")


def test_output_of_children_and_c_code_is_captured(run):
    result = run.python(
        "import ctypes, os\nlibc = ctypes.CDLL(None)\nlibc.puts(b'from C')\nlibc.fflush(None)\n"
        "os.system('echo from a shell')"
    )
    assert result["stdout"] == "from C\nfrom a shell\n"
