"""The Result that --json prints: its fields, and how every way to end is told."""

import concurrent.futures
import ctypes
import os
import re

import pytest
from support.running import HAS_CGROUPS

FIELDS = [
    "id",
    "session",
    "status",
    "exit_code",
    "signal",
    "stdout",
    "stderr",
    "value",
    "outputs",
    "error",
    "files",
    "truncated",
    "usage",
    "state",
    "isolation",
    "checkpoint",
]


def landlock_version():
    CREATE_RULESET, VERSION = 444, 1
    return max(0, ctypes.CDLL(None).syscall(CREATE_RULESET, None, ctypes.c_size_t(0), VERSION))


def test_a_result_has_every_field(run):
    result = run.python("import sys\nprint('out')\nprint('err', file=sys.stderr)")
    assert list(result) == FIELDS
    assert re.fullmatch(r"run_[0-9a-f]{32}", result["id"])
    expected = {
        "session": None,
        "status": "ok",
        "exit_code": 0,
        "signal": None,
        "stdout": "out\n",
        "stderr": "err\n",
        "value": None,
        "outputs": [],
        "error": None,
        "files": [],
        "truncated": {"stdout": 0, "stderr": 0},
        "state": "none",
        "checkpoint": "off",
    }
    assert {name: result[name] for name in expected} == expected
    usage = result["usage"]
    assert list(usage) == ["wall_ms", "cpu_ms", "peak_memory"]
    assert 0 < usage["wall_ms"] < 20_000 and 0 < usage["cpu_ms"] < 20_000
    assert 1 << 20 < usage["peak_memory"] < 1 << 28


def test_runs_have_different_ids(run):
    assert run.shell("true")["id"] != run.shell("true")["id"]


def test_isolation_reports_the_mechanisms(run):
    isolation = run.python("pass")["isolation"]
    assert isolation["executor"] == "sandbox"
    assert isolation["namespaces"] == ["user", "mount", "pid", "net", "ipc", "uts", "cgroup"]
    assert isolation["seccomp"] is True
    assert isolation["landlock"] == landlock_version()
    assert isolation["cgroup"] in (("v1", "v2") if HAS_CGROUPS else ("none",))
    assert isolation["network"] == "none"
    assert isolation["proc"] == "own"
    assert "unenforced" not in isolation


def test_usage_counts_processor_time_and_memory(run):
    idle = run.python("import time; time.sleep(0.5)")["usage"]
    assert idle["wall_ms"] >= 500 and idle["cpu_ms"] < 450
    busy = run.python(
        "import time\ndata = bytearray(64 << 20)\nwhile time.process_time() < 0.4: pass\nprint(len(data))"
    )["usage"]
    assert busy["cpu_ms"] >= 400
    assert busy["peak_memory"] >= 64 << 20


ENDINGS = {
    "exit 7": ("import sys; sys.exit(7)", "error", 7, None, ""),
    "sys.exit(3)": ("import sys\nprint('before')\nsys.exit(3)", "error", 3, None, ""),
    "sys.exit() with words": ("import sys; sys.exit('these words')", "error", 1, None, "these words"),
    "os._exit": ("import os; os._exit(9)", "error", 9, None, ""),
    "exception": ("def f():\n  return 1 / 0\nf()", "error", 1, None, "ZeroDivisionError: division by zero"),
    "syntax error": ("def f(:\n  pass", "error", 1, None, "SyntaxError"),
    "segmentation fault": ("import ctypes; ctypes.string_at(0)", "crashed", 139, 11, ""),
    "abort": ("import os; os.abort()", "crashed", 134, 6, ""),
    "SIGTERM": ("import os; os.kill(os.getpid(), 15)", "crashed", 143, 15, ""),
    # The program itself did that: it is neither out of memory nor over a limit.
    "SIGKILL": ("import os; os.kill(os.getpid(), 9)", "crashed", 137, 9, ""),
    "last signal": ("import os; os.kill(os.getpid(), 64)", "crashed", 192, 64, ""),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_result_reports_how_the_program_ended(run, ending):
    code, status, exit_code, signal, words = ENDINGS[ending]
    result = run.python(code)
    assert (result["status"], result["exit_code"], result["signal"]) == (status, exit_code, signal), result
    assert words in result["stderr"]
    # Nothing but the program speaks on its streams, and it alone knows why it failed.
    assert result["error"] is None
    assert (result["stderr"] == "") == (words == "")


def test_plain_output_explains_a_crash_on_stderr(run):
    finished = run("-c", "import ctypes; print('before', flush=True); ctypes.string_at(0)")
    assert (finished.exit_code, finished.stdout) == (139, b"before\n")
    assert finished.stderr == b"cella: ended by signal 11 (Segmentation fault)\n"


def test_a_traceback_names_the_source_line(run):
    result = run.python("def inner():\n    raise ValueError('told')\n\ninner()\n")
    assert "    raise ValueError('told')" in result["stderr"]
    assert "line 2, in inner" in result["stderr"] and "line 4, in <module>" in result["stderr"]


def test_exit_codes_pass_through(run):
    """Also those that have a meaning of ours: then the status tells whose they are."""

    def one(code):
        result = run.shell(f"exit {code}")
        return code, result["exit_code"], result["status"], result["signal"], result["error"]

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        told = list(pool.map(one, range(256)))
    assert told == [(code, code, "error" if code else "ok", None, None) for code in range(256)]


def test_the_summary_is_one_line_on_stderr(run):
    finished = run("--summary", "-c", "print(1)")
    assert (finished.exit_code, finished.stdout) == (0, b"1\n")
    mechanism = "cgroup" if HAS_CGROUPS else "rlimit+watchdog"
    pattern = (
        r"cella: ok in [\d.]+ ms \(processor [\d.]+ ms, peak [\d.]+m\); "
        r"sandbox: 7 namespaces, seccomp, .*network none; "
        rf"memory 1g by {re.escape(mechanism)}, pids 128 by (cgroup|rlimit)\n"
    )
    assert re.fullmatch(pattern, finished.stderr.decode()), finished.describe()


def test_version_and_help(cella):
    version = cella("version")
    assert version.exit_code == 0 and re.fullmatch(r"cella \d+\.\d+\.\d+\n", version.text())
    for words in (["--help"], ["run", "--help"]):
        finished = cella(*words)
        assert finished.exit_code == 0 and "Usage: cella" in finished.text() and finished.stderr == b""


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["runn"],
        ["run", "--nonsense"],
        ["run", "-c"],
        ["run", "--json", "--events", "-c", "1"],
        ["run", "--network", "some", "-c", "1"],
        ["run", "--executor", "moon", "-c", "1"],
        *(
            [command, *code, "--json", option, value]
            for command, code in (("run", ["-c", "1"]), ("repl", []))
            for option, value in (
                ("--env", "NO_EQUALS_SIGN"),
                ("--env", "=value"),
                ("--env", ""),
                ("--mount", "nothing"),
                ("--mount", ":/data"),
                ("--mount", "/tmp:"),
                ("--mount", "/tmp:/data:rx"),
                ("--mount", ""),
                ("--pass-env", ""),
                ("--workdir", ""),
                ("--rootfs", ""),
                ("--venv", ""),
                ("--python", ""),
                ("--storage", ""),
                ("--config", ""),
                ("--environment", ""),
                ("--with", ""),
                ("-r", ""),
                ("--image", ""),
                ("--add-host", "no_address"),
                ("--cap-add", "rm -rf"),
            )
        ),
        ["run", "--out", "", "-c", "1"],
        ["run", "--file", "", "-c", "1"],
        ["repl", "--images", ""],
        ["repl", "--preload", "a b"],
    ],
    ids=" ".join,
)
def test_invalid_command_line_exits_2(cella, words):
    finished = cella(*words)
    assert finished.exit_code == 2, finished.describe()
    assert finished.stdout == b"" and b"--help" in finished.stderr, finished.describe()
