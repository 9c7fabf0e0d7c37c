"""State that cella inherits from its caller: descriptors, signals, limits, variables, a deleted working directory. It
must neither break a run nor reach the guest."""

import os
import signal

import pytest
from support.cella import PYTHON, run_bounded
from support.leftovers import assert_no_process
from support.running import IS_ROOT, wait_until

pytestmark = pytest.mark.as_user

EXECUTORS = pytest.mark.parametrize("executor", ["sandbox", "local"])
HELLO = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(5)"


def through_shell(script):
    return ["/bin/bash", "-c", f'{script} exec "$@"', "bash"]


def through_python(statements):
    return [
        PYTHON,
        "-I",
        "-S",
        "-c",
        f"import os, resource, signal, sys\n{statements}\nos.execv(sys.argv[1], sys.argv[1:])",
    ]


# Descriptors.


@EXECUTORS
@pytest.mark.parametrize("closed", ["0", "1", "2", "01", "02", "12", "012"])
def test_run_succeeds_with_closed_standard_descriptors(run, tmp_path, closed, executor):
    """It runs to its end, with its exit code, and no output lands in a descriptor of ours that took the place."""
    script = "exec " + " ".join(f"{fd}>&-" for fd in closed) + ";"
    marker = "import os, sys\nopen('ran', 'w').write(repr(sys.stdin.read() if sys.stdin else ''))\n" + HELLO
    finished = run(
        "-c",
        marker,
        "--python",
        PYTHON,
        "--workdir",
        tmp_path,
        "--executor",
        executor,
        through=through_shell(script),
        timeout=10,
    )
    assert (tmp_path / "ran").exists(), finished.describe()
    assert (tmp_path / "ran").read_text() == "''"
    if "1" in closed:
        assert finished.stdout == b""
    else:
        assert (finished.exit_code, finished.stdout) == (5, b"out\n"), finished.describe()
    assert b"internal error" not in finished.stderr, finished.describe()
    assert finished.stderr == b"" if "2" in closed else finished.stderr.startswith(b"err\n"), finished.describe()


@EXECUTORS
def test_inherited_descriptors_do_not_reach_the_guest(run, tmp_path, executor):
    (tmp_path / "leak").write_text("secret")
    leak = os.open(tmp_path / "leak", os.O_RDWR)
    high = 200
    os.dup2(leak, high, inheritable=True)
    try:
        code = "import os; print(sorted(int(fd) for fd in os.listdir('/proc/self/fd')))"
        result = run.python(code, "--executor", executor, pass_fds=[leak, high])
        # The fourth is the directory that is being listed.
        assert result["stdout"] == "[0, 1, 2, 3]\n", result
    finally:
        os.close(high)
        os.close(leak)


@EXECUTORS
@pytest.mark.parametrize("number", [64, 32])
def test_run_succeeds_with_few_descriptors(run, number, executor):
    """A caller that may have only a few: the guest gets as many, and it runs."""
    code = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    result = run.python(code, "--executor", executor, through=through_shell(f"ulimit -n {number};"))
    assert (result["status"], result["stdout"]) == ("ok", f"({number}, {number})\n"), result
    assert result["isolation"]["limits"]["open_files"] == {"value": number, "by": "rlimit"}


def test_run_succeeds_with_a_low_soft_limit_of_descriptors(run):
    result = run.shell("ulimit -n", through=through_shell("ulimit -S -n 24;"))
    assert result["status"] == "ok", result


# Processes and memory of the caller.


def test_exhausted_process_limit_of_the_caller_is_reported(run):
    """Root need not be bound by it; the others are told what is lacking."""
    through = through_python("resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))")
    finished = run("--json", "-c", "print('ran')", "--python", PYTHON, through=through)
    result = finished.result()
    if IS_ROOT and result["status"] == "ok":
        assert result["stdout"] == "ran\n"
    else:
        assert (result["status"], result["exit_code"]) == ("rejected", 126), result
        assert "Resource temporarily unavailable" in result["error"]["message"]
        assert result["stdout"] == "" and finished.stderr == b""


def test_file_size_limit_of_the_caller_is_an_error_not_a_signal(run, tmp_path):
    """Copying out hits it: a sentence, not a death by SIGXFSZ."""
    through = through_python("resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))")
    code = "for n in range(3): open(f'part{n}', 'wb').write(b'x' * (900 << 10))"
    result = run.python(code, "--out", tmp_path / "out", through=through)
    assert result["status"] == "ok", result
    source = tmp_path / "in"
    source.write_bytes(b"x" * (3 << 20))
    result = run.shell("cat in in > both; ls -s both", "--file", source, through=through)
    assert result["exit_code"] < 128, result


# Signals.


@EXECUTORS
def test_guest_starts_with_default_signal_dispositions(run, executor):
    through = through_python(
        "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n"
        "for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD):\n"
        "    signal.signal(number, signal.SIG_IGN)"
    )
    # A shell shows what it inherited; Python itself would ignore SIGPIPE.
    result = run.shell(
        "grep -E '^Sig(Blk|Ign|Pnd)' /proc/self/status | cut -f2 | sort -u", "--executor", executor, through=through
    )
    assert (result["status"], result["stdout"]) == ("ok", "0000000000000000\n"), result


def test_exit_code_is_known_when_sigchld_is_ignored(run):
    """With SIGCHLD ignored the kernel reaps for us; the exit code must still be known."""
    through = through_python("signal.signal(signal.SIGCHLD, signal.SIG_IGN)")
    for executor in ("sandbox", "local"):
        assert run.shell("exit 9", "--executor", executor, through=through)["exit_code"] == 9


def test_blocked_signals_of_the_caller_still_stop_cella(run, token):
    through = through_python("signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])")
    words = ["-c", "import sys, time\nsys.stdout.write('ready\\n')\ntime.sleep(60)", "--python", PYTHON, "--", token]
    with run.started(*words, through=through) as process:
        process.wait_for(b"ready")
        process.send(signal.SIGTERM)
        finished = process.finish(5)
    assert finished.exit_code == 125, finished.describe()
    assert_no_process(token)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT], ids=lambda number: number.name)
def test_signals_ignored_by_the_caller_stay_ignored(run, number):
    """nohup, and `&` in a script: a signal that the caller ignores stays ignored."""
    through = through_python(f"signal.signal({int(number)}, signal.SIG_IGN)")
    words = [
        "-c",
        "import sys, time\nsys.stdout.write('ready\\n')\ntime.sleep(1)\nsys.stdout.write('done\\n')",
        "--python",
        PYTHON,
    ]
    with run.started(*words, through=through) as process:
        process.wait_for(b"ready")
        process.send(number)
        finished = process.finish(10)
    assert (finished.exit_code, finished.stdout) == (0, b"ready\ndone\n"), finished.describe()


def test_run_succeeds_under_nohup(run, tmp_path):
    finished = run("-c", "print('under nohup')", through=["nohup"], cwd=tmp_path)
    assert (finished.exit_code, finished.stdout) == (0, b"under nohup\n"), finished.describe()


def test_stopped_and_continued_run_succeeds(run):
    """Ctrl-Z of the caller and fg: the run goes on."""
    words = [
        "-c",
        "import sys, time\nsys.stdout.write('ready\\n')\ntime.sleep(0.5)\nsys.stdout.write('done\\n')",
        "--python",
        PYTHON,
    ]
    with run.started(*words) as process:
        process.wait_for(b"ready")
        process.send(signal.SIGSTOP)
        process.send(signal.SIGCONT)
        finished = process.finish(10)
    assert (finished.exit_code, finished.stdout) == (0, b"ready\ndone\n")


# Variables and directories.


@pytest.mark.parametrize("lost", ["PATH", "HOME", "LANG", "all"])
@EXECUTORS
def test_run_succeeds_without_environment_variables(run, lost, executor):
    """Where PATH is not set the system's own default applies, as for every program that a shell starts."""
    env = {} if lost == "all" else {name: value for name, value in run.environment.items() if name != lost}
    result = run.json("-c", "print('ran')", "--executor", executor, env=env)
    assert (result["status"], result["stdout"]) == ("ok", "ran\n"), result


@pytest.mark.parametrize("value", ["", "missing", "relative", "/dev/null"])
@EXECUTORS
def test_run_succeeds_with_an_unusable_home(run, tmp_path, value, executor):
    home = str(tmp_path / "missing") if value == "missing" else value
    for _ in range(2):
        result = run.json("-c", "print('ran')", "--executor", executor, with_env={"HOME": home}, cwd=tmp_path)
        assert (result["status"], result["stdout"]) == ("ok", "ran\n"), result
    # A home that is absent was chosen so (/nonexistent of a service): it is not made.
    assert os.listdir(tmp_path) == []


def test_run_succeeds_with_an_unwritable_home(run, tmp_path):
    tmp_path.chmod(0o555)
    assert run.json("-c", "print('ran')", with_env={"HOME": str(tmp_path)})["stdout"] == "ran\n"
    tmp_path.chmod(0o755)
    if not IS_ROOT:
        assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("path", ["", ":", ".:bin", "/nonexistent:/dev/null:/usr/bin:/bin", "/usr/bin:" * 500])
def test_run_succeeds_with_an_unusual_path_variable(run, path):
    result = run.json("-c", "print('ran')", "--python", PYTHON, with_env={"PATH": path})
    assert (result["status"], result["stdout"]) == ("ok", "ran\n"), result


def test_relative_entries_of_path_are_ignored(run, tmp_path):
    """A relative entry of PATH would run whatever lies in the current directory."""
    trap = tmp_path / "python3"
    trap.write_text("#!/bin/sh\ntouch sprung\n")
    trap.chmod(0o755)
    result = run.json("-c", "print('ran')", with_env={"PATH": ".::/usr/bin:/bin"}, cwd=tmp_path)
    assert result["stdout"] == "ran\n" and not (tmp_path / "sprung").exists()


@EXECUTORS
def test_run_succeeds_in_a_deleted_working_directory(run, executor):
    script = 'directory=$(mktemp -d); cd "$directory"; rmdir "$directory";'
    result = run.python("import os; print('ran')", "--executor", executor, through=through_shell(script))
    assert (result["status"], result["stdout"]) == ("ok", "ran\n"), result
    finished = run("missing.py", "--json", through=through_shell(script))
    assert finished.result()["exit_code"] == finished.exit_code == 127


def test_run_succeeds_in_an_unreadable_working_directory(run, tmp_path):
    (tmp_path / "locked").mkdir()
    script = f"cd {tmp_path}/locked; chmod 0 .;"
    assert run.python("print('ran')", through=through_shell(script))["stdout"] == "ran\n"
    (tmp_path / "locked").chmod(0o755)


@EXECUTORS
@pytest.mark.parametrize("umask", ["077", "0"])
def test_run_succeeds_with_any_umask(run, tmp_path, umask, executor):
    """The directories of the jail are the jail's: their modes are none of the caller's."""
    code = "echo x > made; ls / /tmp /dev /workspace >/dev/null 2>&1; cat made"
    result = run.shell(
        code, "--out", tmp_path / "out", "--executor", executor, through=through_shell(f"umask {umask};")
    )
    assert (result["status"], result["stdout"]) == ("ok", "x\n"), result
    assert (tmp_path / "out" / "made").read_text() == "x\n"


def test_nice_value_of_the_caller_is_inherited(run):
    assert run.shell("nice", through=["nice", "-n", "5"])["stdout"] == "5\n"


def test_cella_runs_through_link_relative_path_and_path_variable(run, cella, tmp_path):
    """Through a link, by a relative path and from PATH it finds what belongs to it."""
    (tmp_path / "link").symlink_to(cella.binary)
    for argv, cwd, env in [
        ([str(tmp_path / "link")], None, {}),
        ([os.path.relpath(cella.binary, tmp_path)], tmp_path, {}),
        (["/usr/bin/env", cella.binary.name], None, {"PATH": f"{cella.binary.parent}:/usr/bin:/bin"}),
    ]:
        finished = run_bounded([*argv, "run", "-c", "print('ran')"], env={**run.environment, **env}, cwd=cwd)
        assert finished.stdout == b"ran\n", finished.describe()


def test_run_survives_the_shell_that_started_it(run, tmp_path):
    """The shell is gone before it ends."""
    words = run.argv("-c", "import time; time.sleep(0.3); print('done')", "--python", PYTHON)
    script = '"$@" > out.txt 2>&1 & echo started'
    finished = run_bounded(["/bin/sh", "-c", script, "sh", *words], env=run.environment, cwd=tmp_path)
    assert finished.stdout == b"started\n"
    assert wait_until(lambda: (tmp_path / "out.txt").read_text() == "done\n"), (tmp_path / "out.txt").read_text()
