"""Environments: packages for one run, scripts with metadata, named environments. From the operator's index."""

import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import time

import pytest
from support.cella import PYTHON, TIME_BOUND, run_bounded
from support.package_index import index_variables

pytestmark = [pytest.mark.needs("network-index"), pytest.mark.as_user]

SIX = "import six; print(six.__name__, six.__version__)"


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def with_index(state):
    """Variables for `run`: a state directory of its own, and the operator's index."""
    return {**index_variables(), "CELLA_STATE_DIR": str(state)}


@pytest.fixture(scope="module")
def env_command(cella, environment, with_index):
    def call(*words, **more):
        return run_bounded([str(cella.binary), "env", *words], env={**environment, **with_index, **more})

    return call


def text(finished):
    assert finished.exit_code == 0, finished.describe()
    return finished.stdout.decode()


def leftovers(state):
    staging = state / "environments" / "work" / "staging"
    return [path.name for path in staging.iterdir()] if staging.exists() else []


def test_package_that_the_interpreter_lacks_is_importable(run, with_index, state):
    without = run("-c", "import rich", "--python", PYTHON)
    assert without.exit_code == 1 and b"ModuleNotFoundError" in without.stderr
    done = run("--with", "rich", "-c", "import rich; print(rich.__name__)", "--python", PYTHON, with_env=with_index)
    assert text(done) == "rich\n"
    assert leftovers(state) == []


def test_cached_environment_needs_no_index(run, with_index):
    first = text(run("--with", "six", "-c", SIX, "--python", PYTHON, with_env=with_index))
    offline = {**with_index, "HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}
    assert text(run("--with", "six", "-c", SIX, "--python", PYTHON, with_env=offline)) == first
    assert first.startswith("six 1.")


def test_terminal_shows_a_bar_and_a_pipe_nothing(run, environment, with_index):
    variables = {**environment, **with_index}
    argv = run.argv("--refresh", "--with", "idna", "--python", PYTHON, "-c", "print(1)")
    piped = run_bounded(argv, env=variables, timeout=TIME_BOUND * 4)
    assert piped.stdout == b"1\n" and piped.stderr == b"", piped.describe()
    ours, theirs = os.openpty()
    try:
        subprocess.run(argv, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs, check=True)
        shown = os.read(ours, 65536)
    finally:
        os.close(ours)
        os.close(theirs)
    assert b"[#" in shown and b"Resolv" in shown and shown.endswith(b"\x1b[K"), shown


def test_events_begin_with_the_progress_of_an_installation(run, with_index):
    words = ("--events", "--refresh", "--with", "idna", "--python", PYTHON, "-c", "print(1)")
    finished = run(*words, with_env=with_index, timeout=TIME_BOUND * 4)
    assert finished.exit_code == 0 and finished.stderr == b"", finished.describe()
    events = [json.loads(line) for line in finished.text().splitlines()]
    types = [event["type"] for event in events]
    begin = types.index("started")
    assert begin > 0 and set(types[:begin]) == {"progress"} and "progress" not in types[begin:], types
    assert any(event["text"].startswith("Resolv") for event in events[:begin])
    assert [event["n"] for event in events] == list(range(events[0]["n"], events[0]["n"] + len(events)))


def test_code_gets_no_network_by_packages(run, with_index):
    code = "import six, socket; socket.create_connection(('1.1.1.1', 53), 2)"
    done = run("--with", "six", "-c", code, "--python", PYTHON, with_env=with_index)
    assert done.exit_code == 1 and b"OSError" in done.stderr, done.describe()


def test_requirements_file_with_constraints(run, with_index, tmp_path):
    (tmp_path / "requirements.txt").write_text("six>=1.10  # old enough\n-c limits.txt\n")
    (tmp_path / "limits.txt").write_text("six==1.16.0\n")
    done = run("-r", tmp_path / "requirements.txt", "-c", SIX, "--python", PYTHON, with_env=with_index)
    assert text(done) == "six 1.16.0\n"


def test_script_metadata_chooses_packages(run, with_index, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(f"# /// script\n# requires-python = '>=3.8'\n# dependencies = ['six==1.16.0']\n# ///\n{SIX}\n")
    done = run(script, with_env=with_index)
    assert text(done) == "six 1.16.0\n"
    assert b"the script requires: six==1.16.0; Python >=3.8" in done.stderr


@pytest.mark.parametrize(
    "spec", ["--index-url=http://x", "numpy; import os", "../x", " ", "x @ https://h/x.whl", "git+https://h/x", "x.whl"]
)
def test_hostile_requirement_is_refused(run, with_index, spec):
    refused = run(f"--with={spec}", "-c", "print(1)", with_env=with_index)
    assert refused.exit_code == 2 and refused.stdout == b"", refused.describe()
    assert b"is not a requirement" in refused.stderr


def test_unknown_package_ends_with_126_and_its_name(run, with_index, state):
    refused = run("--with", "cella-no-such-package-8f3a", "-c", "print(1)", with_env=with_index)
    assert refused.exit_code == 126 and refused.stdout == b"", refused.describe()
    assert b"cella-no-such-package-8f3a" in refused.stderr
    assert leftovers(state) == []


def test_unsatisfiable_versions_end_with_126(run, with_index):
    refused = run("--with", "six==1.16.0", "--with", "six>1.16.0", "-c", "print(1)", with_env=with_index)
    assert refused.exit_code == 126 and b"six" in refused.stderr, refused.describe()


def test_index_that_cannot_be_reached_ends_with_126(run, with_index, tmp_path):
    nowhere = {**with_index, "UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple", "UV_HTTP_RETRIES": "0"}
    refused = run("--with", "attrs", "-c", "print(1)", with_env=nowhere)
    assert refused.exit_code == 126 and b"attrs" in refused.stderr, refused.describe()


def test_packages_and_venv_exclude_each_other(run, with_index, tmp_path):
    refused = run("--with", "six", "--venv", tmp_path, "-c", "print(1)", with_env=with_index)
    assert refused.exit_code == 126 and b"exclude each other" in refused.stderr


def test_environment_is_read_only_and_shares_files_with_the_cache(run, with_index, state):
    code = """if True:
        import six, os, sys
        for path in (six.__file__, os.path.dirname(six.__file__) + "/new.py", sys.prefix + "/pyvenv.cfg"):
            try:
                open(path, "a").write("x")
                print("written", path)
            except OSError as error:
                print(error.errno)
        """
    done = text(run("--with", "six", "-c", code, "--python", PYTHON, with_env=with_index))
    assert len(done.split()) == 3 and set(done.split()) <= {"13", "30"}, done  # EACCES by its mode, or EROFS
    ready = next((state / "environments" / "ready").glob("*/venv/lib/python3*/site-packages/six.py"))
    assert ready.stat().st_nlink > 1 and stat.S_IMODE(ready.stat().st_mode) == 0o444
    assert stat.S_IMODE(ready.parent.stat().st_mode) == 0o555
    assert list(ready.parent.glob("__pycache__/six.*.pyc")), "bytecode comes with the wheel"


def test_named_environment_from_creation_to_removal(run, env_command, with_index):
    made = env_command("create", "tools", "--with", "six==1.16.0", "--preload", "six", "--python", PYTHON)
    assert "tools: Python 3" in text(made)
    again = env_command("create", "tools", "--with", "six")
    assert again.exit_code == 126 and b"--replace" in again.stderr
    assert text(run("--environment", "tools", "-c", SIX, with_env=with_index)) == "six 1.16.0\n"
    listed = json.loads(text(env_command("ls", "--json")))["environments"]
    assert [entry["name"] for entry in listed] == ["tools"] and listed[0]["packages"] == ["six==1.16.0"]
    lock = text(env_command("show", "tools", "--lock"))
    assert lock.startswith("six==1.16.0 --hash=sha256:")
    assert text(env_command("rm", "tools")) == ""
    gone = run("--environment", "tools", "-c", SIX, with_env=with_index)
    assert gone.exit_code == 126 and b"there is no environment 'tools'" in gone.stderr


def test_lock_makes_the_same_environment(run, env_command, with_index, tmp_path):
    text(env_command("create", "locked", "--with", "six==1.16.0", "--python", PYTHON))
    (tmp_path / "lock.txt").write_text(text(env_command("show", "locked", "--lock")))
    done = run("-r", tmp_path / "lock.txt", "-c", SIX, "--python", PYTHON, with_env=with_index)
    assert text(done) == "six 1.16.0\n"


def test_preload_that_fails_is_named(env_command):
    failed = env_command("create", "wrong", "--with", "six", "--preload", "no_such_module_here")
    assert failed.exit_code == 126 and b"no_such_module_here" in failed.stderr
    assert json.loads(text(env_command("ls", "--json")))["environments"] != ["wrong"]


def test_eight_runs_at_once_build_one_environment(run, environment, cella, tmp_path):
    variables = {**environment, **index_variables(), "CELLA_STATE_DIR": str(tmp_path)}
    argv = run.argv("--with", "six", "--python", PYTHON, "-c", SIX)
    running = [subprocess.Popen(argv, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(8)]
    for process in running:
        out, err = process.communicate(timeout=TIME_BOUND * 4)
        assert process.returncode == 0 and out.startswith(b"six "), err
    assert len(list((tmp_path / "environments" / "ready").glob("*/manifest.json"))) == 1
    assert leftovers(tmp_path) == []


def test_builds_that_are_killed_leave_a_working_cache(run, environment, tmp_path):
    variables = {**environment, **index_variables(), "CELLA_STATE_DIR": str(tmp_path)}
    argv = run.argv("--with", "rich", "--python", PYTHON, "-c", "import rich.console; print('right')")
    for number in range(10):
        process = subprocess.Popen(argv, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.05 + 0.07 * number)
            raise subprocess.TimeoutExpired(argv, 0)  # it was faster: that counts as well
        process.send_signal(signal.SIGKILL)
        process.wait()
    deadline = time.monotonic() + TIME_BOUND
    while installers(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert installers(tmp_path) == []
    done = run_bounded(argv, env=variables, timeout=TIME_BOUND * 4)
    assert done.stdout == b"right\n", done.describe()
    assert leftovers(tmp_path) == []


def installers(state):
    """Command lines of processes that work on this state directory."""
    found = []
    for process in pathlib.Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                line = (process / "cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(state) in line:
                found.append(line)
    return found


def test_state_directory_is_not_shown_by_mounts(run, with_index, state):
    refused = run("--mount", f"{state}/environments/work:/x:rw", "-c", "print(1)", with_env=with_index)
    assert refused.exit_code == 126, refused.describe()
    refused = run("--mount", f"{state}:/x", "-c", "print(1)", with_env=with_index)
    assert refused.exit_code == 126, refused.describe()


def test_listing_counts_sessions_and_collection_leaves_what_is_used_or_named(
    run, open_session, env_command, with_index, tmp_path
):
    variables = {**with_index, "CELLA_STATE_DIR": str(tmp_path)}
    text(env_command("create", "named", "--with", "six==1.16.0", "--python", PYTHON, CELLA_STATE_DIR=str(tmp_path)))
    text(run("--with", "attrs", "-c", "1", "--python", PYTHON, with_env=variables))
    sessions = [open_session("--environment", "named", python=None, with_env=variables) for _ in range(2)]
    held = open_session("--with", "idna", with_env=variables)

    def listed():
        found = json.loads(text(env_command("ls", "--json", CELLA_STATE_DIR=str(tmp_path))))
        return [(each["name"], each["sessions"]) for each in found["environments"]], found["anonymous"]["count"]

    for session in sessions:
        assert session.value("import six; six.__version__") == "'1.16.0'"
    assert held.value("import idna; idna.__name__") == "'idna'"
    assert listed() == ([("named", 2)], 2)
    assert text(env_command("gc", "--unused", "1ms", CELLA_STATE_DIR=str(tmp_path))).startswith("removed 1 environments")
    assert listed() == ([("named", 2)], 1)
    assert held.value("import idna.core; idna.core.__name__") == "'idna.core'"
    assert text(env_command("rm", "named", CELLA_STATE_DIR=str(tmp_path))) == ""
    assert sessions[0].value("import six, six.moves.urllib.parse; six.__name__") == "'six'", "what is used stays"
    for session in (*sessions, held):
        session.close()
    assert text(env_command("gc", "--unused", "1ms", CELLA_STATE_DIR=str(tmp_path))).startswith("removed 2 environments")
    assert list((tmp_path / "environments" / "ready").iterdir()) == []


def test_upgraded_interpreter_gets_an_environment_of_its_own(run, env_command, with_index, environment, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root to put another file in the place of an interpreter")
    state = {"CELLA_STATE_DIR": str(tmp_path / "state")}
    text(env_command("create", "kept", "--with", "six==1.16.0", "--python", PYTHON, **state))
    interpreter = os.path.realpath(PYTHON)
    upgraded = tmp_path / "python"
    shutil.copy(interpreter, upgraded)
    words = run.argv("--environment", "kept", "-c", SIX)
    script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
    through = ["unshare", "-m", "sh", "-c", script, "sh", str(upgraded), interpreter]
    offline = {"HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}
    done = run_bounded([*through, *words], env={**environment, **with_index, **state, **offline}, timeout=TIME_BOUND)
    assert text(done) == "six 1.16.0\n"
    ready = tmp_path / "state" / "environments" / "ready"
    assert len(list(ready.glob("*/manifest.json"))) == 2, "the old interpreter's and the new one's"
    assert text(run("--environment", "kept", "-c", SIX, with_env={**with_index, **state, **offline})) == "six 1.16.0\n"


def test_damaged_environment_is_not_what_others_get(run, with_index, tmp_path):
    """A build that was killed after its directory was published, before the machine lost its power."""
    variables = {**with_index, "CELLA_STATE_DIR": str(tmp_path)}
    text(run("--with", "six", "-c", SIX, "--python", PYTHON, with_env=variables))
    (manifest,) = (tmp_path / "environments" / "ready").glob("*/manifest.json")
    manifest.write_text("{")
    again = run("--with", "six", "-c", SIX, "--python", PYTHON, with_env=variables, timeout=TIME_BOUND * 4)
    assert again.stdout.startswith(b"six 1."), again.describe()
