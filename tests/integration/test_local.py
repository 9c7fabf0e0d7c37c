"""--executor local: no jail, but the same results, a clean environment, and an end for the whole tree."""

import json
import os
import pathlib

import pytest
from pythons import make_venv
from support.cella import PYTHON
from support.leftovers import assert_no_process, scratch_of
from support.running import HAS_CGROUPS, IS_ROOT

pytestmark = pytest.mark.as_user

SHOW_ENV = "import json, os; print(json.dumps(dict(os.environ)))"


@pytest.fixture
def local(run, tmp_path):
    """Python code in the local executor, with a temporary directory of its own that must be empty afterwards."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    def start(code, *flags, **options):
        options["with_env"] = {"TMPDIR": str(temporary), **options.get("with_env", {})}
        return run.python(code, "--executor", "local", *flags, **options)

    start.temporary = temporary
    yield start
    assert os.listdir(temporary) == []


def test_local_result_reports_no_isolation(local):
    isolation = local("pass")["isolation"]
    assert isolation["executor"] == "local"
    assert (isolation["namespaces"], isolation["seccomp"], isolation["landlock"]) == ([], False, 0)
    assert (isolation["network"], isolation["proc"]) == ("host", "host")
    by = "cgroup" if HAS_CGROUPS else "rlimit+watchdog"
    assert {name: limit["by"] for name, limit in isolation["limits"].items()} == {
        "timeout": "supervisor",
        "output": "supervisor",
        "cpu_time": by,
        "memory": by,
        "pids": "cgroup" if HAS_CGROUPS else "watchdog",
        "disk": "rlimit",
        "open_files": "rlimit",
    }


def test_local_runs_as_the_caller_on_the_host(local):
    result = local("import os; print(os.getuid(), os.getpid() > 2, os.path.exists('/proc/1/cmdline'))")
    assert result["stdout"] == f"{os.getuid()} True True\n"


def test_local_working_directory_is_private_and_removed(local):
    result = local(
        "import os; print(os.getcwd()); open('made', 'w').write('x'); print(oct(os.stat('.').st_mode & 0o777))"
    )
    where, mode = result["stdout"].split()
    assert where.startswith(str(local.temporary) + "/cella-local-") and where.endswith("/workspace") and mode == "0o700"
    assert not os.path.exists(where)
    assert [entry["path"] for entry in result["files"]] == ["made"]


@pytest.mark.parametrize(
    "ending", ["raise SystemExit(3)", "import os; os.kill(os.getpid(), 9)", "import time; time.sleep(9)"]
)
def test_working_directory_is_removed_however_the_run_ends(local, ending):
    """With files that resist: deep, without permissions, links to elsewhere."""
    code = """
import os
os.makedirs('/'.join('d' * 40))
os.mkdir('locked'); open('locked/x', 'w').close(); os.chmod('locked', 0)
os.symlink('/etc', 'etc'); os.mkfifo('fifo')
""" + ending
    assert local(code, "--timeout", "500ms")["status"] != "ok"


def test_local_workdir_is_the_working_directory(local, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    result = local("import os; print(os.getcwd())", "--workdir", work)
    assert result["stdout"] == f"{work}\n" and os.listdir(work) == []


def test_local_passes_only_the_documented_variables(local, run):
    env = json.loads(
        local(SHOW_ENV, with_env={"SECRET": "x", "USER": "me", "LC_ALL": "C", "PYTHONPATH": "/nowhere"})["stdout"]
    )
    env.pop("LC_CTYPE", None)  # set by Python itself
    assert set(env) == {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "TMPDIR",
        "PYTHONUNBUFFERED",
        "PYTHONDONTWRITEBYTECODE",
    }
    assert env["PATH"] == run.environment["PATH"] and env["HOME"] == run.environment["HOME"]
    assert (env["USER"], env["LOGNAME"], env["LANG"], env["TMPDIR"]) == ("me", "me", "C.UTF-8", str(local.temporary))


def test_variables_unset_in_the_caller_stay_unset(run):
    """An empty HOME is worse than none: programs then take it for the root directory or the current one."""
    env = {"PATH": run.environment["PATH"]}
    seen = json.loads(run.python(SHOW_ENV, "--executor", "local", env=env)["stdout"])
    assert "" not in seen.values(), seen


def test_variables_are_passed_by_option(local, run):
    seen = json.loads(
        local(
            SHOW_ENV,
            "--env",
            "A=1",
            "--env",
            "B=x=y z",
            "--env",
            "EMPTY=",
            "--pass-env",
            "MINE",
            with_env={"MINE": "m"},
        )["stdout"]
    )
    assert (seen["A"], seen["B"], seen["EMPTY"], seen["MINE"]) == ("1", "x=y z", "", "m")
    seen = json.loads(
        local(SHOW_ENV, "--inherit-env", "--env", "LANG=de", with_env={"MINE": "m", "ODD-NAME": "o"})["stdout"]
    )
    assert (seen["MINE"], seen["ODD-NAME"], seen["LANG"], seen["HOME"]) == ("m", "o", "de", run.environment["HOME"])


@pytest.mark.parametrize("executor", ["sandbox", "local"])
def test_rejects_malformed_variables(run, executor):
    for text in ("NOEQUALS", "=value", ""):
        finished = run("-c", "1", "--executor", executor, "--env", text)
        assert (finished.exit_code, finished.stdout) == (2, b""), finished.describe()
        assert b"--env" in finished.stderr and b"NAME=VALUE" in finished.stderr, finished.describe()
    message = run.rejected("-c", "1", "--executor", executor, "--pass-env", "NOT_SET_ANYWHERE")
    assert "--pass-env" in message and "NOT_SET_ANYWHERE" in message


def test_sandbox_passes_only_fixed_and_named_variables(run):
    env = json.loads(
        run.python(SHOW_ENV, "--env", "A=1", "--pass-env", "MINE", with_env={"MINE": "m", "SECRET": "x"})["stdout"]
    )
    env.pop("LC_CTYPE", None)
    assert env == {
        # Its last directory has only the chosen interpreter, as python.
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/run/python",
        "HOME": "/tmp",
        "USER": "user",
        "LOGNAME": "user",
        "LANG": "C.UTF-8",
        "TMPDIR": "/tmp",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "A": "1",
        "MINE": "m",
    }
    assert "--pass-env" in run.rejected("-c", "1", "--inherit-env")


def test_virtual_environment_is_used(run, tmp_path):
    venv = make_venv(PYTHON, tmp_path / "venv")
    code = "import os, sys; print(sys.prefix, os.environ['VIRTUAL_ENV'], os.environ['PATH'].split(':')[0])"
    expected = f"{venv} {venv} {venv}/bin\n"
    assert run.json("-c", code, "--executor", "local", "--venv", venv)["stdout"] == expected
    assert run.json("-c", code, "--executor", "local", with_env={"VIRTUAL_ENV": str(venv)})["stdout"] == expected


def test_local_rejects_network_none(run):
    message = run.rejected("-c", "1", "--executor", "local", "--network", "none")
    assert "--network none" in message and "--executor sandbox" in message
    assert run.json("-c", "print(1)", "--executor", "local", "--network", "host")["stdout"] == "1\n"


@pytest.mark.parametrize("value", ["/proc/nowhere", "/dev/null", "relative"])
def test_unusable_temporary_directory_is_reported(run, value):
    result = run.json("-c", "print(1)", "--executor", "local", with_env={"TMPDIR": value})
    if value == "relative":
        # Below the current directory, if at all.
        assert result["status"] in ("ok", "rejected")
        return
    assert result["status"] == "rejected" and result["exit_code"] in (126, 127), result
    assert value in result["error"]["message"] and "create a directory" in result["error"]["message"]


def test_unwritable_temporary_directory_is_reported(run, tmp_path):
    tmp_path.chmod(0o555)
    result = run.json(
        "-c", "print('ran')", "--python", PYTHON, "--executor", "local", with_env={"TMPDIR": str(tmp_path)}
    )
    tmp_path.chmod(0o755)
    if IS_ROOT:
        assert result["stdout"] == "ran\n"
    else:
        assert (result["status"], result["exit_code"]) == ("rejected", 126), result
        assert "Permission denied" in result["error"]["message"] and str(tmp_path) in result["error"]["message"]


def test_sandbox_runs_without_a_temporary_directory(run):
    assert run.json("-c", "print('ran')", with_env={"TMPDIR": "/nonexistent"})["stdout"] == "ran\n"


def test_descendants_end_at_the_timeout(local, token):
    code = """
import os, signal, sys, time
for kind in range(3):
    if os.fork() == 0:
        if kind: os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if kind == 2 and os.fork() != 0: os._exit(0)
        time.sleep(60)
sys.stdout.write('before\\n')
time.sleep(60)
"""
    result = local(code, "--timeout", "1s", args=[token])
    assert (result["status"], result["stdout"]) == ("timeout", "before\n"), result
    assert_no_process(token, 2)


def test_set_uid_program_gains_no_rights(local):
    """no_new_privs holds here, too."""
    result = local("print([line for line in open('/proc/self/status') if line.startswith('NoNewPrivs')])")
    assert "NoNewPrivs:\\t1" in result["stdout"]


def test_sweep_removes_only_directories_of_dead_supervisors(run, tmp_path):
    """What looks like ours and belongs to a living process, or does not look like ours, stays."""
    me, here = os.getpid(), os.stat("/proc/self/ns/pid").st_ino
    start = pathlib.Path(f"/proc/{me}/stat").read_text().rpartition(")")[2].split()[19]
    mine = f"cella-local-{here}-{me}-{start}-abcdef"
    elsewhere = f"cella-local-{here + 1}-999999-1-abcdef"
    others = ["cella-local-", "cella-local-x-1-a", "cella-local-1", f"cella-local-{here}-1", "other"]
    for name in (mine, elsewhere, *others):
        (tmp_path / name).mkdir()
    (tmp_path / f"cella-local-{here}-999999-1-link").symlink_to("/etc")
    (tmp_path / f"cella-local-{here}-999999-1-dead").mkdir()
    assert run.shell("true", "--executor", "local", with_env={"TMPDIR": str(tmp_path)})["status"] == "ok"
    assert set(os.listdir(tmp_path)) == {mine, elsewhere, *others, f"cella-local-{here}-999999-1-link"}
    assert scratch_of([me], tmp_path) == [mine]
