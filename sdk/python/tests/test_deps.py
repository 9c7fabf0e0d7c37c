"""Packages that a session adds, from the operator's index."""

import os

import pytest

import cella

pytestmark = pytest.mark.needs("network-index")

SIX = "import six; six.__name__"


@pytest.fixture(scope="module", autouse=True)
def state(tmp_path_factory):
    """Environments of their own, without those of the user."""
    before = os.environ.get("CELLA_STATE_DIR")
    os.environ["CELLA_STATE_DIR"] = str(tmp_path_factory.mktemp("state"))
    yield
    if before is None:
        del os.environ["CELLA_STATE_DIR"]
    else:
        os.environ["CELLA_STATE_DIR"] = before


@pytest.fixture
def plain(open_session, tmp_path_factory):
    """Sessions of an interpreter without packages."""
    return lambda **fields: open_session(cella.SandboxExecutor(python_version="/usr/bin/python3", **fields))


def missing(result):
    return result.error is not None and result.error.name == "ModuleNotFoundError"


def test_added_package_is_importable_at_once_and_in_this_session_alone(plain, wait):
    session, other = plain(), plain()
    assert missing(wait(session.run("import rich")))
    change = wait(session.deps.add("rich"))
    assert "rich" in change.added
    assert wait(session.run("import rich; rich.__name__")).value == "'rich'"
    assert missing(wait(other.run("import rich")))
    assert wait(session.deps.list()) == ["rich"] and wait(other.deps.list()) == []
    listing = wait(other.run("import os; os.listdir('/run/cella-packages')"))
    assert listing.error.name == "PermissionError", "no guest lists the packages of others"


def test_progress_of_a_change_is_shown(plain, wait):
    session = plain()
    lines = []
    change = wait(session.deps.add("rich", on_progress=lines.append))
    assert "rich" in change.added and any(line.startswith("Resolv") for line in lines), lines
    assert wait(session.run("import rich; rich.__name__")).value == "'rich'"
    with pytest.raises(cella.DepsError, match="cella-no-such-package-8f3a"):
        wait(session.deps.add("cella-no-such-package-8f3a", on_progress=lines.append))
    with pytest.raises(cella.DepsError, match="numpy; import os"):
        wait(session.deps.add("numpy; import os", on_progress=lines.append))
    assert wait(session.deps.list()) == ["rich"]


def test_added_package_survives_crash_reset_and_rollback(plain, wait):
    session = plain()
    wait(session.run("x = 1"))
    wait(session.deps.add("rich"))
    wait(session.run("import os; os.kill(os.getpid(), 9)"))
    assert wait(session.run("import rich; rich.__name__")).value == "'rich'"
    wait(session.reset())
    assert wait(session.run("import rich; rich.__name__")).value == "'rich'"


def test_checkpoint_from_before_finds_added_packages(plain, wait):
    session = plain()
    wait(session.run("x = 1"))
    wait(session.checkpoint("before"))
    wait(session.deps.add("rich"))
    wait(session.run("x = 2; import rich"))
    wait(session.rollback("before"))
    assert wait(session.run("import rich; rich.__name__, x")).value == "('rich', 1)"


def test_child_interpreter_finds_added_packages(plain, wait):
    session = plain()
    wait(session.deps.add("rich"))
    code = "import subprocess, sys; print(subprocess.run([sys.executable, '-c', 'import rich; print(1)']).returncode)"
    assert wait(session.run(code)).stdout.endswith("0\n")


def test_removed_package_is_gone(plain, wait):
    session = plain()
    wait(session.deps.add("rich"))
    assert wait(session.deps.remove("Rich")) is True
    assert wait(session.deps.remove("rich")) is False
    assert missing(wait(session.run("import rich")))
    assert wait(session.deps.list()) == []


def test_later_version_takes_the_place_of_an_earlier_one(plain, wait):
    session = plain()
    wait(session.deps.add("six==1.16.0"))
    wait(session.deps.add("six==1.17.0"))
    assert wait(session.deps.list()) == ["six==1.17.0"]
    assert wait(session.run("import importlib.metadata as m; m.version('six')")).value == "'1.17.0'"


def test_sync_installs_what_was_configured(plain, wait, tmp_path):
    (tmp_path / "requirements.txt").write_text("# ours\nattrs  # classes\n")
    session = plain(deps=["rich"], deps_file=str(tmp_path / "requirements.txt"), allow_runtime_deps=False)
    wait(session.deps.sync())
    assert wait(session.run("import rich, attr; rich.__name__")).value == "'rich'"


def test_locked_session_refuses_changes(plain, wait):
    session = plain(allow_runtime_deps=False)
    with pytest.raises(cella.DepsDisabledError):
        wait(session.deps.add("rich"))
    with pytest.raises(cella.DepsDisabledError):
        wait(session.deps.remove("rich"))
    assert wait(session.deps.list()) == []


@pytest.mark.parametrize("spec", ["--index-url=http://x", "rich; import os", "../x", "", "cella-no-such-package-8f3a"])
def test_wrong_package_raises_and_the_session_is_as_it_was(plain, wait, spec):
    session = plain()
    wait(session.run("x = 1"))
    with pytest.raises(cella.DepsError):
        wait(session.deps.add(spec))
    assert wait(session.run("x")).value == "1" and wait(session.deps.list()) == []


def test_packages_count_against_the_disk_limit(plain, wait):
    session = plain(disk_limit="100k")
    with pytest.raises(cella.DepsError, match="disk limit"):
        wait(session.deps.add("rich"))
    assert missing(wait(session.run("import rich")))


# What the code itself asks for.

WAYS = {
    "deps": "deps.add('rich')",
    "awaited deps": "await deps.add('rich')",
    "pip magic": "%pip install rich",
    "pip command": "!pip install rich",
    "shell script": "%%bash\npip install -q rich",
    "module": "import subprocess, sys; subprocess.run([sys.executable, '-m', 'pip', 'install', 'rich'], check=True)",
    "thread": "import threading; t = threading.Thread(target=deps.add, args=('rich',)); t.start(); t.join()",
}
FIND = "import importlib.util; importlib.util.find_spec('rich') is not None"


@pytest.mark.parametrize("way", WAYS)
def test_code_adds_a_package_to_its_session(plain, wait, way):
    session, other = plain(), plain()
    added = wait(session.run(WAYS[way]))
    assert added.ok, added.stderr
    assert wait(session.run("import rich; rich.__name__")).value == "'rich'"
    assert wait(session.run("import os; os.kill(os.getpid(), 9)")).status == "crashed"
    assert wait(session.run("import rich; rich.__name__")).value == "'rich'"
    wait(session.reset())
    assert wait(session.run("import rich; rich.__name__, [*deps.list()]")).value == "('rich', ['rich'])"
    assert wait(session.deps.list()) == ["rich"]
    assert wait(other.run(FIND)).value == "False"


def test_bash_block_adds_a_package_for_the_blocks_after_it(plain, wait):
    session = plain()
    run = wait(session.run("pip install -q rich && python3 -c 'import rich; print(rich.__name__)'", language="bash"))
    assert run.stdout == "rich\n", run.stderr
    assert wait(session.run("import rich; rich.__name__")).value == "'rich'"
    assert wait(session.run("python3 -c 'import rich; print(rich.__name__)'", language="sh")).stdout == "rich\n"


def test_package_of_the_same_cell_can_be_imported(plain, wait):
    assert wait(plain().run("!pip install -q rich\nimport rich\nrich.__name__")).value == "'rich'"


def test_package_that_does_not_exist_is_an_error_of_the_code(plain, wait):
    session = plain()
    failed = wait(session.run("%pip install cella-no-such-package-8f3a"))
    assert failed.error.name == "DepsError" and "cella-no-such-package-8f3a" in failed.stderr
    caught = "try:\n    deps.add('cella-no-such-package-8f3a')\nexcept DepsError:\n    print(1)"
    assert wait(session.run(caught)).stdout == "1\n"


def test_time_out_ends_the_change(plain, wait):
    session = plain(default_timeout=0.2)
    assert wait(session.run("deps.add('rich', 'numpy')")).status == "timeout"
    assert wait(session.run("deps.list()")).value == "[]"


def test_locked_session_refuses_changes_of_its_code(plain, wait):
    session = plain(allow_runtime_deps=False, deps=["rich"])
    for code in ("deps.add('rich')", "%pip install rich", "!pip install rich", "deps.remove('rich')"):
        assert wait(session.run(code)).error.name == "DepsDisabledError"
    shell = wait(session.run("pip install rich", language="bash"))
    assert shell.exit_code == 1 and "DepsDisabledError" in shell.stderr
    assert wait(session.run("deps.sync(); import rich; deps.list()")).value == "['rich']"
