"""Every way in which a session over HTTP gets packages: in a jail without network, in an interpreter on the host, and in
programs on the host. From the operator's index."""

import concurrent.futures
import os

import pytest
from server import serving
from support.package_index import index_variables
from support.running import wait_until

pytestmark = [pytest.mark.needs("network-index"), pytest.mark.as_user]

CONFIG = {"allow": {"executors": ["sandbox", "local", "inprocess"], "runtime_deps": True}}
KEPT = ["sandbox", "inprocess"]  # an interpreter that keeps its variables
FOUND = "import importlib.util; print(importlib.util.find_spec('cowsay') is not None)"
USE = "import cowsay; print(cowsay.__name__)"
CHILD = "import subprocess, sys; subprocess.run([sys.executable, '-m', 'pip', 'install', 'cowsay'], check=True)"

PROGRAM_WAYS = {
    "deps": ("python", "deps.add('cowsay')"),
    "module": ("python", CHILD),
    "thread": ("python", "import threading; t = threading.Thread(target=deps.add, args=('cowsay',)); t.start(); t.join()"),
    "bash": ("bash", "pip install -q cowsay"),
    "requirements": ("bash", "echo 'cowsay>=5  # old enough' > wanted.txt; pip install -q -r wanted.txt"),
}
CELL_WAYS = {
    **PROGRAM_WAYS,
    "awaited": ("python", "await deps.add('cowsay')"),
    "magic": ("python", "%pip install cowsay"),
    "command": ("python", "!pip install cowsay"),
    "script": ("python", "%%bash\npip install -q cowsay"),
}
WAYS = [("sandbox", way) for way in CELL_WAYS]
WAYS += [("inprocess", way) for way in CELL_WAYS if CELL_WAYS[way][0] == "python"]
WAYS += [("local", way) for way in PROGRAM_WAYS]


@pytest.fixture(scope="module")
def server(cella, environment):
    with serving(cella, environment) as start:
        yield start(config=CONFIG, with_env=index_variables())


@pytest.fixture(scope="module")
def client(server):
    return server.client()


@pytest.fixture
def session(client):
    opened = []

    def open_one(executor, **policy):
        opened.append(client.open(executor=executor, allow_runtime_deps=True, **policy))
        return opened[-1]

    yield open_one
    for each in opened:
        each.delete()


def printed(session, code, **more):
    result = session.run(code, **more)
    assert result["status"] == "ok" and result["exit_code"] == 0, result
    return result["stdout"].strip()


def deps(session):
    return session.client.get(session.path("deps")).expect(200)["deps"]


@pytest.mark.parametrize(("executor", "way"), WAYS)
def test_package_is_importable_here_alone_and_stays(session, executor, way):
    mine, other = session(executor), session(executor)
    assert printed(mine, FOUND) == "False"
    language, code = CELL_WAYS[way]
    printed(mine, code, language=language)
    assert printed(mine, USE) == "cowsay"
    assert printed(other, FOUND) == "False" and deps(other) == []
    ended = mine.run("import os; os.kill(os.getpid(), 9)")
    assert ended["status"] != "ok" or ended["exit_code"] != 0, ended
    assert printed(mine, USE) == "cowsay"
    if executor != "local":
        mine.client.post(mine.path("reset")).expect(200)
        assert printed(mine, USE) == "cowsay"
    assert [each.split(">")[0] for each in deps(mine)] == ["cowsay"]


@pytest.mark.parametrize("executor", ["sandbox", "inprocess", "local"])
def test_package_that_is_added_from_outside_can_be_imported_and_removed(session, executor):
    mine = session(executor)
    added = mine.client.post(mine.path("deps"), packages=["cowsay"]).expect(200)
    assert [each["name"] for each in added["added"]] == ["cowsay"]
    assert printed(mine, USE) == "cowsay"
    shell = "python3 -c 'import cowsay; print(1)'; cowsay -t moo | grep -c moo"
    if executor == "inprocess":
        assert printed(mine, f"import subprocess; print(subprocess.run({shell!r}, shell=True, capture_output=True, text=True).stdout)") == "1\n1"
    else:
        assert printed(mine, shell, language="bash") == "1\n1"
    assert mine.client.ask("DELETE", mine.path("deps", "Cowsay")).expect(200) == {"removed": True}
    if executor != "local":
        mine.client.post(mine.path("reset")).expect(200)
    assert printed(mine, FOUND) == "False" and deps(mine) == []


@pytest.mark.parametrize("executor", ["sandbox", "inprocess", "local"])
def test_locked_session_refuses_changes_and_installs_what_was_configured(client, session, executor):
    mine = client.open(executor=executor, allow_runtime_deps=False, deps=["cowsay"])
    assert mine.client.post(mine.path("deps"), packages=["pyjokes"]).error(403)["code"] == "deps_disabled"
    assert mine.client.ask("DELETE", mine.path("deps", "cowsay")).status == 403
    refused = mine.run("deps.add('pyjokes')")
    if executor == "local":
        assert "DepsDisabledError" in refused["stderr"], refused
    else:
        assert refused["error"]["name"] == "DepsDisabledError", refused
        assert mine.run("%pip install pyjokes")["error"]["name"] == "DepsDisabledError"
    child = mine.run(CHILD)
    assert "DepsDisabledError" in child["stderr"], child
    added = mine.client.post(mine.path("deps", "sync")).expect(200)["added"]
    assert [each["name"] for each in added] == ["cowsay"]
    assert printed(mine, USE) == "cowsay"
    mine.delete()


def test_locked_session_on_the_host_without_packages_has_the_pip_of_its_python(client):
    mine = client.open(executor="local", allow_runtime_deps=False)
    assert mine.client.post(mine.path("deps", "sync")).expect(200)["added"] == []
    assert "of Cella" not in mine.run("command -v pip; pip --version", language="bash")["stdout"]
    mine.delete()


def test_changes_at_once_of_one_session_and_of_several_all_hold(session):
    sessions = [session("sandbox"), session("sandbox")]
    names = ["cowsay", "pyjokes", "inflection"]
    wanted = [(each, name) for each in sessions for name in names]

    def add(pair):
        return pair[0].client.post(pair[0].path("deps"), packages=[pair[1]]).status

    with concurrent.futures.ThreadPoolExecutor(len(wanted)) as pool:
        # Of one client so many installations may be on at once; others are told to come again.
        done = [status for status in pool.map(add, wanted)]
        again = [pair for pair, status in zip(wanted, done) if status != 200]
        assert set(done) <= {200, 429} and len(again) < len(wanted), done
    for pair in again:
        assert add(pair) == 200
    for each in sessions:
        assert deps(each) == sorted(names)
        assert printed(each, "import cowsay, pyjokes, inflection; print(1)") == "1"


def test_many_changes_leave_a_bounded_number_of_directories_and_the_end_none(server, client):
    mine = client.open(allow_runtime_deps=True)
    for number in range(18):
        mine.client.post(mine.path("deps"), packages=[f"cowsay==6.{number % 2}"]).expect(200)
    directory = mine.client.get(mine.path("deps")).expect(200)["directory"]
    layer = server.state / "environments" / "layers" / directory.split("/")[-2]
    assert len(os.listdir(layer)) == 16
    assert printed(mine, "import importlib.metadata as m; print(m.version('cowsay'))") == "6.1"
    mine.delete()
    assert wait_until(lambda: not layer.exists())


def test_timeout_during_a_change_leaves_the_session_as_it_was(session):
    mine = session("sandbox")
    assert mine.run("deps.add('rich', 'numpy')", timeout=0.3)["status"] == "timeout"
    assert printed(mine, "print(list(deps.list()))") == "[]"
    printed(mine, "deps.add('cowsay')")
    assert printed(mine, USE) == "cowsay"


def test_package_does_not_shadow_the_standard_library_of_programs_on_the_host(session):
    mine = session("local")
    mine.client.post(mine.path("deps"), packages=["cowsay"]).expect(200)
    order = "import sys, os; paths = [p for p in sys.path if p]; print(paths.index(os.path.dirname(os.__file__)) < [i for i, p in enumerate(paths) if 'layers' in p][0])"
    assert printed(mine, order) == "True"


def test_program_without_a_change_sees_the_variables_of_the_host_alone(client):
    mine = client.open(executor="local", allow_runtime_deps=False)
    names = printed(mine, "import os; print(*sorted(os.environ))").split()
    assert "PYTHONPATH" not in names and "CELLA_PACKAGES_FOR" not in names
    mine.delete()


def test_script_with_metadata_gets_its_packages_where_changes_are_permitted(client, cella, environment):
    script = "# /// script\n# requires-python = '>=3.8'\n# dependencies = ['cowsay']\n# ///\nimport cowsay\nprint(cowsay.__name__)\n"
    result = client.post("/v1/run", code=script).expect(200)
    assert result["stdout"] == "cowsay\n", result
    assert client.post("/v1/run", code=script, policy={"executor": "local"}).expect(200)["stdout"] == "cowsay\n"
    wrong = script.replace("cowsay", "cella-no-such-package-8f3a")
    words = client.post("/v1/run", code=wrong).error(400)
    assert words["code"] == "environment_failed" and "cella-no-such-package-8f3a" in words["message"]
    assert "PEP 723" in client.post("/v1/run", code=script, policy={"python": "3.11"}).error(400)["message"]
    assert client.post("/v1/run", code=script.replace(">=3.8", "<3")).error(400)["code"] == "environment_failed"
    with serving(cella, environment) as start:
        locked = start(with_env=index_variables()).client()
        result = locked.post("/v1/run", code=script).expect(200)
        assert result["exit_code"] == 1 and "ModuleNotFoundError" in result["stderr"], result


def test_packages_that_the_operator_denies_are_refused_also_where_others_need_them(cella, environment):
    with serving(cella, environment) as start:
        def rules(**lists):
            return {"allow": {**CONFIG["allow"], **lists}}

        client = start(config=rules(denied_packages=["MDURL"]), with_env=index_variables()).client()
        mine = client.open(allow_runtime_deps=True)
        for package in ("mdurl", "rich"):
            words = client.post(mine.path("deps"), packages=[package]).error(403)
            assert "mdurl" in words["message"] and "deny-list" in words["message"], words
        assert mine.run("deps.add('rich')")["error"]["name"] == "DepsError"
        client.post(mine.path("deps"), packages=["cowsay"]).expect(200)
        mine.delete()
        allowed = start(config=rules(packages=["rich"]), with_env=index_variables()).client()
        mine = allowed.open(allow_runtime_deps=True)
        assert "allow-list" in allowed.post(mine.path("deps"), packages=["cowsay"]).error(403)["message"]
        allowed.post(mine.path("deps"), packages=["rich"]).expect(200)
        assert printed(mine, "import mdurl; print(mdurl.__name__)") == "mdurl"
