"""A storage outlives its sessions: on the command line, over HTTP, under load, after kills; and whom it trusts."""

import concurrent.futures
import json
import os
import random
import threading

import pytest
from server import client, serve, server, session  # noqa: F401 (fixtures)
from support.cella import PYTHON
from support.running import small_disk, wait_until

pytestmark = pytest.mark.as_user

SOURCE = "async def run(n=1):\n    return n + 1\n"
SESSIONS = 200


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def stored(serve, tmp_path):  # noqa: F811
    """A server whose clients have storages below a directory, and its client `alice`."""
    config = {
        "storage": {"directory": str(tmp_path / "storages"), "max_storages": 2, "max_files": 500},
        "sessions": {"max_sessions": 256},
    }
    running = serve(config=config, tokens={"alice": "a" * 32, "bob": "b" * 32}, tcp=True)
    return running, running.tcp_client("a" * 32), running.tcp_client("b" * 32)


# The command line


def test_artifacts_and_workflows_outlive_their_session(open_session, data):
    first = open_session("--storage", data)
    first.value("artifacts.save('a/b.json', {'n': 1}, 'numbers'); workflows.create('inc', %r)" % SOURCE)
    first.close()
    assert json.loads((data / "artifacts/a/b.json").read_text()) == {"n": 1}
    assert (data / "workflows/inc.py").read_text() == SOURCE
    second = open_session("--storage", data)
    assert second.value("artifacts.load('a/b.json')['n'], workflows.inc(4)") == "(1, 5)"


def test_files_of_people_are_found_and_what_is_no_workflow_is_left_out(open_session, data):
    (data / "artifacts").mkdir(parents=True)
    (data / "artifacts/notes.txt").write_text("mine")
    (data / "workflows").mkdir()
    (data / "workflows/twice.py").write_text('"""Doubles."""\nasync def run(n): return 2 * n\n')
    (data / "workflows/_private.py").write_text(SOURCE)
    (data / "workflows/broken.py").write_text("async def run(:\n")
    (data / "workflows/plain.py").write_text("import os\nos.mkdir('/tmp/executed')\ndef run(): pass\n")
    session = open_session("--storage", data)  # noqa: F811
    assert session.value("artifacts.load('notes.txt'), workflows.twice(4)") == "('mine', 8)"
    result = session.run("import warnings; warnings.simplefilter('always'); [(e.name, e.description) for e in workflows.list()]")
    assert result["value"] == "[('twice', 'Doubles.')]"
    for file in ("_private.py", "broken.py", "plain.py"):
        assert f"{file} was left out" in result["stderr"]
    assert not os.path.exists("/tmp/executed")


def test_requirements_of_the_storage_are_those_that_sync_installs(open_session, data):
    data.mkdir()
    (data / "requirements.txt").write_text("no-such-package-of-cella==1\n")
    session = open_session("--storage", data)  # noqa: F811
    result = session.run("deps.sync()")
    assert result["error"]["name"] == "DepsError" and "no-such-package-of-cella" in result["error"]["message"]
    refused = session.run("artifacts.save('../requirements.txt', 'x')")
    assert refused["error"]["name"] == "ArtifactError"
    assert (data / "requirements.txt").read_text() == "no-such-package-of-cella==1\n"


CHILD = "subprocess.check_output([sys.executable, '-c', 'print(artifacts.load(\"argv\"))'], text=True)"


@pytest.mark.parametrize("executor", ["sandbox", "inprocess"])
@pytest.mark.parametrize("form", ["-c", "file"])
def test_a_program_and_its_children_have_the_names(cella, environment, data, tmp_path, form, executor):
    code = (
        "import subprocess, sys\nartifacts.save('argv', sys.argv[1:])\nworkflows.create('inc', %r)\n"
        "print(workflows.inc(1), %s, end='')\n" % (SOURCE, CHILD)
    )
    if form == "file":
        (tmp_path / "program.py").write_text(code)
    what = ["-c", code] if form == "-c" else [tmp_path / "program.py"]
    flags = ["--executor", executor, "--python", PYTHON, "--storage", data]
    done = cella("run", *flags, *what, "--", "x", "y", env=environment)
    assert (done.exit_code, done.text()) == (0, "2 ['x', 'y']\n"), done.describe()
    assert json.loads((data / "artifacts/argv").read_text()) == ["x", "y"]


@pytest.mark.parametrize("executor", ["sandbox", "inprocess"])
def test_programs_that_a_cell_starts_have_the_names(open_session, data, executor):
    session = open_session("--executor", executor, "--storage", data)  # noqa: F811
    assert session.value("import subprocess, sys; artifacts.save('argv', [1]); " + CHILD) == repr("[1]\n")
    assert session.value("import os; os.environ['PYTHONPATH'].count('/names'), artifacts.load('argv')") == "(1, [1])"


@pytest.mark.parametrize("flags", [["--workdir", "{}"], ["--mount", "{}:/mnt:rw"], ["--mount", "{}/data/artifacts:/mnt:rw"]])
def test_a_storage_where_a_guest_may_write_is_refused(cella, environment, tmp_path, flags):
    (tmp_path / "data/artifacts").mkdir(parents=True)
    flags = [flag.format(tmp_path) for flag in flags]
    done = cella("run", "--storage", tmp_path / "data", *flags, "-c", "print('ran')", env=environment)
    assert done.exit_code == 126 and "code may write" in done.stderr.decode(), done.describe()
    assert b"ran" not in done.stdout


def test_a_storage_that_a_guest_only_reads_is_accepted(cella, environment, tmp_path):
    (tmp_path / "data").mkdir()
    tmp_path.chmod(0o755)  # the guest is another user where the tests are root
    flags = ["--python", PYTHON, "--storage", tmp_path / "data", "--mount", f"{tmp_path}:/mnt"]
    code = "artifacts.save('a', 'x'); print(open('/mnt/data/artifacts/a').read())"
    done = cella("run", *flags, "-c", code, env=environment)
    assert done.text() == "x\n", done.describe()


def test_approval_is_of_one_source(cella, environment, open_session, data):
    session = open_session("--storage", data)  # noqa: F811
    session.value("workflows.create('inc', %r)" % SOURCE)

    def state():
        done = cella("workflows", "ls", "--json", "--storage", data, env=environment)
        (one,) = json.loads(done.stdout)["workflows"]
        return one["origin"], one["approved"]

    assert state() == ("jail", False)
    shown = cella("workflows", "show", "inc", "--json", "--storage", data, env=environment)
    sha256 = json.loads(shown.stdout)["sha256"]
    wrong = cella("workflows", "approve", "inc", "--hash", "0" * 64, "--storage", data, env=environment)
    assert wrong.exit_code == 126 and state() == ("jail", False)
    done = cella("workflows", "approve", "inc", "--hash", sha256, "--storage", data, env=environment)
    assert done.exit_code == 0 and state() == ("jail", True), done.describe()
    session.value("workflows.create('inc', %r)" % (SOURCE + "# changed\n"))
    assert state() == ("jail", False)
    missing = cella("workflows", "approve", "none", "--storage", data, env=environment)
    assert missing.exit_code == 127, missing.describe()


def test_without_a_jail_only_an_approved_source_is_handed_out(cella, environment, open_session, data):
    session = open_session("--storage", data)  # noqa: F811
    session.value("workflows.create('inc', %r)" % SOURCE)
    assert session.value("workflows.inc(1)") == "2", "in a jail it runs"
    runners = cella.binary.parent / "runners/python"
    program = (
        f"import sys; sys.path.insert(0, {str(runners)!r}); sys.dont_write_bytecode = True\n"
        "from cella_runner import artifacts, workflows\n"
        "artifacts.install(); workflows.install()\n"
        "from builtins import workflows\n"
        "try:\n    print(workflows.inc(1))\nexcept Exception as error:\n    print(type(error).__name__, error)\n"
    )
    flags = ["run", "--executor", "local", "--python", PYTHON, "--storage", data, "-c", program]
    refused = cella(*flags, env=environment)
    assert refused.text().startswith("WorkflowError") and "not approved" in refused.text(), refused.describe()
    assert cella("workflows", "approve", "inc", "--storage", data, env=environment).exit_code == 0
    allowed = cella(*flags, env=environment)
    assert allowed.text() == "2\n", allowed.describe()


def test_a_source_is_never_executed_on_the_host(cella, environment, open_session, data, tmp_path):
    trap = tmp_path / "trap"
    source = "open(%r, 'w').write('executed')\nasync def run(): pass\n" % str(trap)
    session = open_session("--storage", data)  # noqa: F811
    session.value("workflows.create('trap', %r)" % source)
    for command in (["ls"], ["show", "trap"], ["approve", "trap"]):
        assert cella("workflows", *command, "--storage", data, env=environment).exit_code == 0
    assert not trap.exists()


FULL_DISK = """
def attempt(work):
    try:
        work()
        print("stored")
    except HostCallError as error:
        print(type(error).__name__, "space" in str(error), "/" in str(error).replace(".cella/index.db", ""))

artifacts.save("small", "x" * 1000)
attempt(lambda: artifacts.save("small", bytes(4 << 20)))
count = 0
try:
    while True:
        artifacts.save("f%d" % count, "y" * 50_000 + str(count))
        count += 1
except ArtifactError:
    pass
attempt(lambda: workflows.create("w", "async def run(): pass\\n" + "#" * 60_000))
assert all(artifacts.load("f%d" % n) == "y" * 50_000 + str(n) for n in range(count)) and count > 10
assert len(artifacts.list()) == count + 1 and workflows.list() == []
for n in range(count):
    artifacts.delete("f%d" % n)
artifacts.save("after", "fine")
print(artifacts.load("after"), len(artifacts.load("small")))
"""


def test_full_disk_is_a_typed_error_and_tears_nothing(run, data):
    data.mkdir()
    result = run.python(FULL_DISK, "--storage", data, through=small_disk(data, "2m"))
    assert result["stdout"] == "ArtifactError True False\nWorkflowError True False\nfine 1000\n", result


# Over HTTP


def artifacts(session, name="", query=""):  # noqa: F811
    return session.path("artifacts", name) + query if name else session.path("artifacts") + query


def test_http_saves_loads_lists_and_deletes(stored):
    _, alice, _ = stored
    session = alice.open(storage="work")  # noqa: F811
    text = {"Content-Type": "text/plain"}
    made = alice.ask("PUT", artifacts(session, "a/b.txt", "?description=note"), body="Grüße".encode(), headers=text)
    assert made.expect(201)["kind"] == "text"
    kinds = {"Content-Type": "application/json"}
    alice.ask("PUT", artifacts(session, "c", "?metadata=%7B%22m%22%3A6%7D"), body=b"[1]", headers=kinds).expect(201)
    alice.ask("PUT", artifacts(session, "d"), body=b"\0\xff").expect(201)
    assert session.value("artifacts.load('a/b.txt'), artifacts.load('c'), artifacts.load('d')") == "('Grüße', [1], b'\\x00\\xff')"
    listed = alice.get(artifacts(session)).expect(200)
    assert [each["name"] for each in listed["artifacts"]] == ["a/b.txt", "c", "d"] and listed["next"] is None
    page = alice.get(artifacts(session, query="?limit=2")).expect(200)
    assert page["next"] == "c"
    assert [e["name"] for e in alice.get(artifacts(session, query="?after=c")).expect(200)["artifacts"]] == ["d"]
    loaded = alice.get(artifacts(session, "a/b.txt"))
    assert loaded.body == "Grüße".encode() and loaded.headers["x-cella-kind"] == "text"
    assert alice.get(artifacts(session, "c", "?info=true")).expect(200)["metadata"] == {"m": 6}
    assert alice.ask("DELETE", artifacts(session, "c")).status == 204
    assert alice.ask("DELETE", artifacts(session, "c")).error(404)["code"] == "artifact_not_found"
    assert alice.get(artifacts(session, "c")).error(404)["code"] == "artifact_not_found"
    for name in ("..%2Fx", "a%2F%2Fb", "x" * 300, "a%00b"):
        alice.ask("PUT", artifacts(session, name), body=b"x").error(400)
    assert alice.ask("PUT", artifacts(session, "bad", "?kind=json"), body=b"{").error(400)["code"] == "artifact_failed"


def test_http_path_is_a_copy_in_the_workspace(stored):
    _, alice, bob = stored
    session = alice.open(storage="work")  # noqa: F811
    for content in (b"x,y", os.urandom(3_000_000)):
        alice.ask("PUT", artifacts(session, "a/b.csv"), body=content).expect(201)
        assert alice.get(artifacts(session, "a/b.csv", "?path=true")).expect(200) == {"file": ".artifacts/a/b.csv"}
        assert alice.get(session.path("files", ".artifacts/a/b.csv")).body == content
    assert alice.get(artifacts(session, "none", "?path=true")).error(404)["code"] == "artifact_not_found"
    alice.get(artifacts(session, "..%2Fx", "?path=true")).error(400)
    assert bob.get(artifacts(session, "a/b.csv", "?path=true")).status == 404


def test_http_has_workflows(stored):
    _, alice, _ = stored
    session = alice.open(storage="work")  # noqa: F811
    path = session.path("workflows", "inc")
    assert alice.ask("PUT", path, source=SOURCE, description="adds one").expect(201)["approved"] is True
    assert session.value("workflows.inc(2)") == "3"
    assert alice.get(path).expect(200)["source"] == SOURCE
    assert [w["name"] for w in alice.get(session.path("workflows")).expect(200)["workflows"]] == ["inc"]
    assert [w["name"] for w in alice.get(session.path("workflows") + "?query=adds").expect(200)["workflows"]] == ["inc"]
    assert alice.ask("PUT", session.path("workflows", "bad"), source="x = 1").error(400)["code"] == "workflow_failed"
    assert alice.ask("DELETE", path).status == 204
    assert alice.get(path).error(404)["code"] == "workflow_not_found"


def test_storages_of_clients_are_apart_and_counted(stored):
    server, alice, bob = stored  # noqa: F811
    alice.open(storage="work").value("artifacts.save('a', 'alice')")
    assert bob.open(storage="work").value("artifacts.list()") == "[]"
    alice.open(storage="more")
    assert "at most 2" in alice.post("/v1/sessions", storage="third").error(403)["message"]
    bob.open(storage="more")
    for name in ("../alice/work", "/tmp/x", "a/b", "..", ""):
        assert alice.post("/v1/sessions", storage=name).status == 400, name
    plain = alice.open()
    assert alice.get(artifacts(plain)).error(409)
    assert plain.run("artifacts")["error"]["name"] == "NameError"
    assert alice.get(artifacts(bob.open(storage="work"))).error(404)


def test_a_server_without_a_directory_has_no_storages(session, client):  # noqa: F811
    del session
    assert "storage" in client.post("/v1/sessions", storage="work").error(403)["message"]


def test_one_shot_programs_use_a_storage(stored):
    _, alice, _ = stored
    result = alice.post("/v1/run", code="artifacts.save('a', 'x'); print(artifacts.list()[0].name)", policy={"storage": "work"})
    assert result.expect(200)["stdout"] == "a\n", result
    assert alice.open(storage="work").value("artifacts.load('a')") == "'x'"


def test_a_full_storage_is_an_error(stored):
    _, alice, _ = stored
    session = alice.open(storage="work")  # noqa: F811
    result = session.run("for n in range(600): artifacts.save(str(n), n)", timeout=60)
    assert result["error"]["name"] == "ArtifactError" and "500 files" in result["error"]["message"], result["error"]
    assert session.value("artifacts.delete('0'); artifacts.save('new', 1); len(artifacts.list())") == "500"


# Under load


@pytest.mark.alone
def test_two_hundred_sessions_on_one_storage_lose_and_tear_nothing(stored):
    _, alice, _ = stored
    code = (
        "import os\n"
        "text = '%(n)d:' + 'x' * (1000 + %(n)d * 37)\n"
        "artifacts.save('own/%(n)d', text)\n"
        "artifacts.save('shared', text)\n"
        "got = artifacts.load('shared')\n"
        "number = int(got.partition(':')[0])\n"
        "assert got == '%%d:' %% number + 'x' * (1000 + number * 37), got[:40]\n"
    )

    def one(n):
        session = alice.open(storage="work")  # noqa: F811
        result = session.run(code % {"n": n}, timeout=120)
        session.delete()
        return result

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        results = list(pool.map(one, range(SESSIONS)))
    assert [result["error"] for result in results if result["status"] != "ok"] == []
    last = alice.open(storage="work")
    assert last.value("all(artifacts.load('own/%%d' %% n) == '%%d:' %% n + 'x' * (1000 + n * 37) for n in range(%d))" % SESSIONS) == "True"
    assert last.value("len(artifacts.list())") == str(SESSIONS + 1)


@pytest.mark.alone
def test_kills_of_the_server_lose_nothing_that_was_acknowledged(serve, tmp_path):  # noqa: F811
    config = {"storage": {"directory": str(tmp_path / "storages")}}
    draw = random.Random(19)
    acknowledged = {}
    for round_number in range(5):
        running = serve(config=config)
        client = running.client()  # noqa: F811
        session = client.open(storage="work")  # noqa: F811

        def save(thread, round_number=round_number, client=client, session=session):
            for n in range(10_000):
                name, body = f"r{round_number}-{thread}-{n}", f"{round_number}/{thread}/{n}/" + "x" * 3000
                try:
                    answer = client.ask("PUT", artifacts(session, name, "?kind=text"), body=body.encode())
                except (OSError, AssertionError, ValueError):
                    return
                except Exception as error:  # the connection broke in the middle of the answer
                    assert "http" in type(error).__module__, error
                    return
                if answer.status != 201:
                    return
                acknowledged[name] = body

        threads = [threading.Thread(target=save, args=(thread,)) for thread in range(4)]
        for thread in threads:
            thread.start()
        wanted = len(acknowledged) + draw.randint(5, 60)
        assert wait_until(lambda wanted=wanted: len(acknowledged) >= wanted, 60)
        running.kill()
        for thread in threads:
            thread.join()
    client = serve(config=config).client()  # noqa: F811
    session = client.open(storage="work")  # noqa: F811
    for name, body in acknowledged.items():
        assert client.get(artifacts(session, name)).body == body.encode(), name
    files = list((tmp_path / "storages").glob("*/work/artifacts/r*"))
    assert len(files) >= len(acknowledged)
    for file in files:
        assert len(file.read_text()) > 3000 and file.read_text().endswith("x" * 3000), file
