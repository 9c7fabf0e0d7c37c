"""Limits that hold: what happens to a program that goes over one, and by which mechanism it is held."""

import pytest
from support.leftovers import assert_no_process
from support.running import HAS_CGROUPS

pytestmark = pytest.mark.as_user

MEGABYTE = 1 << 20


def test_every_limit_names_its_mechanism(run):
    limits = run.python("pass")["isolation"]["limits"]
    by = "cgroup" if HAS_CGROUPS else "rlimit+watchdog"
    assert limits == {
        "timeout": {"value": 60, "by": "supervisor"},
        "output": {"value": MEGABYTE, "by": "supervisor"},
        "cpu_time": {"value": 60, "by": by},
        "memory": {"value": 1 << 30, "by": by},
        "pids": {"value": 128, "by": "cgroup" if HAS_CGROUPS else "rlimit"},
        "disk": {"value": 1 << 30, "by": "tmpfs"},
        "open_files": {"value": 1024, "by": "rlimit"},
    }


def test_limits_that_were_asked_for_are_reported(run):
    limits = run.python(
        "pass",
        "--timeout",
        "1.5m",
        "--cpu-time",
        "2500ms",
        "--memory",
        "256m",
        "--pids",
        "12",
        "--disk",
        "4M",
        "--open-files",
        "64",
        "--output-limit",
        "3kb",
    )["isolation"]["limits"]
    assert {name: limit["value"] for name, limit in limits.items()} == {
        "timeout": 90,
        "cpu_time": 2.5,
        "memory": 256 * MEGABYTE,
        "pids": 12,
        "disk": 4 * MEGABYTE,
        "open_files": 64,
        "output": 3072,
    }


# Memory.


def assert_out_of_memory(result, limit="64m"):
    assert (result["status"], result["exit_code"]) == ("oom", 137), result
    assert result["error"]["name"] == "OutOfMemory"
    assert result["error"]["message"] == f"used more than {limit} of memory (--memory)"


@pytest.mark.parametrize("executor", ["sandbox", "local"])
def test_one_process_over_the_memory_limit_fails(run, executor):
    code = "print('before', flush=True)\ndata = bytearray(b'x') * (400 << 20)\nprint('after')"
    result = run.python(code, "--memory", "64m", "--executor", executor, "--timeout", "10s")
    assert result["stdout"] == "before\n", result
    if HAS_CGROUPS:
        assert_out_of_memory(result)
    else:
        # Refused by the rlimit, which the program sees itself: an error of its own.
        assert (result["status"], result["exit_code"]) == ("error", 1) and "MemoryError" in result["stderr"]


GROWS_SLOWLY = """
print('before', flush=True)
import mmap, time
held = []
for n in range(400):
    held.append(mmap.mmap(-1, 1 << 20, flags=mmap.MAP_{kind} | mmap.MAP_ANONYMOUS))
    held[-1].write(b'x' * (1 << 20))
    time.sleep(0.002)
print('after')
"""


@pytest.mark.parametrize("kind", ["PRIVATE", "SHARED"])
def test_memory_of_many_mappings_is_limited(run, kind):
    result = run.python(GROWS_SLOWLY.format(kind=kind), "--memory", "64m", "--timeout", "10s")
    assert result["stdout"] == "before\n", result
    if HAS_CGROUPS:
        assert_out_of_memory(result)
    else:
        # Private memory is refused by the rlimit; shared memory, which no rlimit counts, by the filter.
        assert (result["status"], result["exit_code"]) == ("error", 1), result
        assert "Cannot allocate memory" in result["stderr"]


WATCHES = """
import ctypes, os, select, sys, time
if 'hidden' in sys.argv: ctypes.CDLL(None).prctl(4, 0)  # PR_SET_DUMPABLE: no process may look at its descriptors
print('before', flush=True)
for child in range(4):
    if os.fork() == 0:
        others = [os.eventfd(0) for _ in range(480)]
        instances = [select.epoll() for _ in range(480)]
        for instance in instances:
            for other in others: instance.register(other, 0)
        time.sleep(20)
        os._exit(0)
for child in range(4): os.wait()
print('after')
"""


@pytest.mark.parametrize("how", ["seen", "hidden"])
def test_epoll_watches_count_as_memory(run, how, token):
    """Each takes kernel memory, and without cgroups all guests and their supervisor share the number that a user may
    have: 5 million of one guest once made the next epoll_ctl of a server fail."""
    result = run.python(WATCHES, "--memory", "128m", "--timeout", "15s", args=[how, token])
    assert result["stdout"] == "before\n", result
    assert (result["status"], result["exit_code"]) == ("oom", 137), result
    assert_no_process(token)


def test_a_few_large_epoll_instances_are_within_the_memory_limit(run):
    code = """
import os, select, time
others = [os.eventfd(0) for _ in range(900)]
for instance in (instances := [select.epoll() for _ in range(8)]):
    for other in others: instance.register(other, 0)
time.sleep(0.5)  # several looks of the watchdog
print('fine')
"""
    assert run.python(code, "--memory", "128m")["stdout"] == "fine\n"


@pytest.mark.parametrize("executor", ["sandbox", "local"])
def test_sum_of_many_processes_is_limited(run, token, executor):
    """None of them is over the limit; together they are."""
    code = """
import os, time
print('before', flush=True)
for n in range(12):
    if os.fork() == 0:
        data = os.urandom(16 << 20)
        time.sleep(20)
        os._exit(len(data) * 0)
for n in range(12):
    _, status = os.wait()
    assert status == 0
print('after')
"""
    result = run.python(code, "--memory", "64m", "--executor", executor, "--timeout", "10s", args=[token])
    assert result["stdout"] == "before\n", result
    if HAS_CGROUPS:
        # The kernel kills one of them, which the program notices; that a group went over its limit is still told.
        assert (result["status"], result["exit_code"]) == ("oom", 137), result
    else:
        assert_out_of_memory(result)
    assert_no_process(token)


@pytest.mark.parametrize("directory", ["/tmp", "/workspace", "/dev/shm"])
def test_files_in_tmpfs_count_as_memory(run, directory):
    code = f"""
import os, time
print('before', flush=True)
with open('{directory}/big', 'wb') as stream:
    for n in range(200):
        stream.write(b'x' * (1 << 20))
        stream.flush()
        time.sleep(0.002)
time.sleep(20)
print('after')
"""
    result = run.python(code, "--memory", "64m", "--timeout", "10s")
    assert result["stdout"] == "before\n", result
    assert_out_of_memory(result)


def test_memory_below_the_limit_is_usable(run):
    code = "data = bytearray(b'x') * (150 << 20)\nprint(len(data))"
    result = run.python(code, "--memory", "256m")
    assert (result["status"], result["stdout"]) == ("ok", f"{150 << 20}\n"), result
    assert 150 * MEGABYTE <= result["usage"]["peak_memory"] <= 256 * MEGABYTE


def test_handled_memory_error_is_not_an_oom(run):
    code = """
try:
    data = bytearray(1 << 45)
except MemoryError:
    print('handled')
"""
    result = run.python(code, "--memory", "256m")
    assert (result["status"], result["exit_code"], result["stdout"]) == ("ok", 0, "handled\n"), result


def test_java_and_node_start_within_the_default_memory(run):
    assert run.json("--lang", "javascript", "-c", "console.log('x'.repeat(3))")["stdout"] == "xxx\n"


# Processes.

FORKS = """
import os, time
print('before', flush=True)
made = 0
try:
    while made < 400:
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
        made += 1
except OSError as error:
    print(made, error.errno, flush=True)
{then}
"""


def test_fork_failure_with_exit_code_0_is_ok(run, token):
    """EAGAIN at the limit, and an exit code of 0: nothing went wrong."""
    result = run.python(FORKS.format(then=""), "--pids", "20", args=[token])
    assert (result["status"], result["exit_code"]) == ("ok", 0), result
    made, number = result["stdout"].split("\n")[1].split()
    assert int(number) == 11 and 18 <= int(made) <= 20, result
    assert_no_process(token)


def test_fork_failure_with_other_exit_code_is_a_limit(run, token):
    """A cgroup counts refusals, so that a program which fails over one is told to be over its limit."""
    result = run.python(FORKS.format(then="raise SystemExit(5)"), "--pids", "20", args=[token])
    if HAS_CGROUPS:
        assert (result["status"], result["exit_code"]) == ("limit", 5), result
        assert "20" in result["error"]["message"] and "--pids" in result["error"]["message"]
    else:
        assert (result["status"], result["exit_code"], result["error"]) == ("error", 5, None), result
    assert_no_process(token)


def test_threads_count_towards_pids(run):
    code = """
import threading, time
made = 0
try:
    for n in range(100):
        threading.Thread(target=time.sleep, args=(5,), daemon=True).start()
        made += 1
except RuntimeError as error:
    print(made, error)
"""
    result = run.python(code, "--pids", "20")
    assert result["status"] == "ok", result
    made, _, words = result["stdout"].partition(" ")
    assert 18 <= int(made) <= 20 and "can't start new thread" in words


def test_pids_limit_allows_exactly_its_number(run):
    """The main program is one of them."""
    code = """
import os, time
for n in range(9):
    if os.fork() == 0:
        time.sleep(0.2)
        os._exit(0)
print('all')
"""
    result = run.python(code, "--pids", "10")
    assert (result["status"], result["stdout"]) == ("ok", "all\n"), result


def test_pids_limit_holds_in_the_local_executor(run, token):
    timeout = "5s" if HAS_CGROUPS else "20s"
    result = run.python(
        FORKS.format(then="time.sleep(30)"), "--pids", "20", "--executor", "local", "--timeout", timeout, args=[token]
    )
    if HAS_CGROUPS:
        made, number = result["stdout"].split("\n")[1].split()
        assert int(number) == 11 and 18 <= int(made) <= 20, result
        assert result["status"] == "timeout"
    else:
        assert result["isolation"]["limits"]["pids"] == {"value": 20, "by": "watchdog"}
        assert result["status"] == "limit" and "--pids" in result["error"]["message"], result
        assert result["usage"]["wall_ms"] < 15000
    assert_no_process(token)


# Processor time.

SPIN = "while True: pass"


@pytest.mark.parametrize("executor", ["sandbox", "local"])
def test_cpu_time_limit_ends_one_process(run, executor):
    result = run.python(
        f"print('before', flush=True)\n{SPIN}", "--cpu-time", "1s", "--executor", executor, "--timeout", "15s"
    )
    assert result["status"] == "limit" and result["stdout"] == "before\n", result
    assert result["exit_code"] in (128 + 9, 128 + 24) and result["signal"] in (9, 24)
    assert result["error"]["message"] == "used more than 1s of processor time (--cpu-time)"
    # RLIMIT_CPU goes by ticks, and a busy machine (its hypervisor included) takes more of them than the precise count sees.
    assert 500 <= result["usage"]["cpu_ms"] < 2500


@pytest.mark.parametrize("executor", ["sandbox", "local"])
def test_cpu_time_limit_counts_all_processes(run, token, executor):
    """Each of the four stays far below; their sum does not."""
    code = f"import os\nprint('before', flush=True)\nfor n in range(3):\n    if os.fork() == 0: break\n{SPIN}"
    result = run.python(code, "--cpu-time", "1s", "--executor", executor, "--timeout", "15s", args=[token])
    assert result["status"] == "limit" and result["stdout"] == "before\n", result
    assert "--cpu-time" in result["error"]["message"]
    assert 900 <= result["usage"]["cpu_ms"] < 2500
    assert_no_process(token)


def test_cpu_time_limit_counts_short_lived_children(run):
    """Each ends before the watchdog looks at it."""
    code = """
import os
while True:
    if os.fork() == 0:
        for n in range(300000): pass
        os._exit(0)
    os.wait()
"""
    result = run.python(code, "--cpu-time", "1s", "--timeout", "25s")
    assert result["status"] == "limit" and "--cpu-time" in result["error"]["message"], result
    assert result["usage"]["wall_ms"] < 20000


def test_cpu_time_limit_below_a_second_is_enforced(run):
    result = run.python(SPIN, "--cpu-time", "300ms", "--timeout", "15s")
    assert result["status"] == "limit" and "300ms" in result["error"]["message"], result
    assert 250 <= result["usage"]["cpu_ms"] < 1300


def test_cpu_time_follows_a_longer_timeout_unless_given(run):
    """A run with five minutes of time once ended after one minute of processor time."""
    def limit(*words):
        return run.json("-c", "1", *words)["isolation"]["limits"]["cpu_time"]["value"]

    assert limit() == limit("--timeout", "5s") == 60
    assert limit("--timeout", "300s") == 300
    assert limit("--timeout", "300s", "--cpu-time", "20s") == 20


def test_sleeping_uses_no_cpu_time(run):
    result = run.python("import time; time.sleep(1.5)", "--cpu-time", "1s")
    assert result["status"] == "ok", result


# The share of processors.

BUSY = """
import os, time
child = os.fork()
while time.process_time() < 0.4: pass
if child: os.waitpid(child, 0)
"""


def test_cpus_limit_bounds_the_processor_share(run):
    """Two busy processes on half a processor; without cgroups there is no mechanism, and it is refused."""
    if HAS_CGROUPS:
        result = run.python(BUSY, "--cpus", "0.5")
        assert result["status"] == "ok", result
        assert result["isolation"]["limits"]["cpus"] == {"value": 0.5, "by": "cgroup"}
        assert result["usage"]["cpu_ms"] >= 750, result
        # No lower bound: on a busy machine they may get less.
        assert result["usage"]["cpu_ms"] / result["usage"]["wall_ms"] < 0.7, result
    else:
        message = run.rejected("-c", "pass", "--cpus", "0.5")
        assert "the limit 'cpus' cannot be enforced here" in message
        assert "cgroup" in message and "--best-effort" in message, "no remedy"


def test_best_effort_reports_unenforced_limits(run):
    result = run.python("print('ran')", "--cpus", "0.5", "--best-effort")
    assert (result["status"], result["stdout"]) == ("ok", "ran\n"), result
    isolation = result["isolation"]
    if HAS_CGROUPS:
        assert "unenforced" not in isolation and isolation["limits"]["cpus"]["by"] == "cgroup"
    else:
        assert isolation["unenforced"] == ["cpus"]
        assert isolation["limits"]["cpus"] == {"value": 0.5, "by": "none"}


# Files.

FILL = """
import errno
written = 0
try:
    for directory in ("/tmp", "/workspace", "/dev/shm") * 40:
        with open(directory + "/part", "ab", buffering=0) as stream:
            written += stream.write(b"x" * (1 << 20))
except OSError as error:
    print(written >> 20, errno.errorcode[error.errno])
"""


def test_disk_limit_covers_all_directories_together(run):
    result = run.python(FILL, "--disk", "32m")
    assert result["status"] == "ok", result
    megabytes, name = result["stdout"].split()
    assert 29 <= int(megabytes) <= 32 and name == "ENOSPC", result


def test_file_over_the_disk_limit_ends_a_program_without_error_handling(run):
    result = run.shell("echo before; exec truncate -s 64m big", "--disk", "32m")
    assert (result["status"], result["exit_code"], result["signal"]) == ("limit", 153, 25), result
    assert result["stdout"] == "before\n"
    assert result["error"] == {"name": "Limit", "message": "wrote a file larger than 32m (--disk)", "traceback": ""}


def test_file_over_the_disk_limit_is_an_error_that_a_program_can_handle(run):
    result = run.python("open('big', 'wb').truncate(64 << 20)", "--disk", "32m")
    assert (result["status"], result["exit_code"]) == ("error", 1) and "File too large" in result["stderr"], result


def test_number_of_files_is_limited(run):
    """Empty files take kernel memory that no size limit counts."""
    code = """
try:
    for n in range(100000): open(f'f{n}', 'w').close()
except OSError as error:
    print(n, error.strerror)
"""
    result = run.python(code, "--disk", "1m", "--timeout", "20s")
    assert result["status"] == "ok", result
    number, _, words = result["stdout"].partition(" ")
    assert 100 < int(number) < 5000 and words == "No space left on device\n"


def test_programs_run_with_a_small_disk_limit(run):
    assert run.python("print('ran')", "--disk", "64k")["stdout"] == "ran\n"


def test_rejects_code_larger_than_the_disk_limit(run, tmp_path):
    (tmp_path / "big.py").write_bytes(b"# " + b"x" * (1 << 20))
    message = run.rejected(tmp_path / "big.py", "--disk", "64k")
    assert "big.py" in message and ("No space left" in message or "--disk" in message)


@pytest.mark.parametrize("executor", ["sandbox", "local"])
def test_rejects_disk_limit_with_workdir(run, tmp_path, executor):
    words = ["-c", "pass", "--disk", "32m", "--workdir", tmp_path, "--executor", executor]
    message = run.rejected(*words)
    assert "the limit 'disk' cannot be enforced here" in message and "--best-effort" in message
    assert ("--workdir" if executor == "sandbox" else "--executor sandbox") in message
    result = run.json(*words, "--best-effort")
    assert result["status"] == "ok" and result["isolation"]["unenforced"] == ["disk"]


def test_default_disk_limit_bounds_a_single_file_in_a_workdir(run, tmp_path):
    result = run.shell("exec truncate -s 2g big", "--workdir", tmp_path)
    assert (result["status"], result["exit_code"]) == ("limit", 153), result
    assert result["isolation"]["limits"]["disk"] == {"value": 1 << 30, "by": "rlimit"}


@pytest.mark.parametrize("executor", ["sandbox", "local"])
def test_open_files_limit_is_enforced(run, executor):
    code = """
import os
n = 0
try:
    while True:
        os.dup(1)
        n += 1
except OSError as error:
    print(n, error.errno)
"""
    result = run.python(code, "--open-files", "50", "--executor", executor)
    assert result["status"] == "ok", result
    opened, number = map(int, result["stdout"].split())
    assert number == 24 and 45 <= opened <= 47
