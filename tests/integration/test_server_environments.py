"""Environments over HTTP: made under names, used by sessions, counted for their clients. From the operator's index."""

import concurrent.futures

import pytest
from server import Client, serving
from support.cella import PYTHON, run_bounded
from support.package_index import index_variables
from support.running import wait_until

pytestmark = pytest.mark.needs("network-index")

SIX = "import six; six.__version__"
PERMITTED = {"allow": {"environments": True}}
TOKENS = {"ann": "a" * 32, "bob": "b" * 32}


@pytest.fixture(scope="module")
def serve_shared(cella, environment):
    """A function that starts servers for all tests of this file."""
    with serving(cella, environment) as start:
        yield lambda **options: start(with_env=index_variables(), **options)


@pytest.fixture(scope="module")
def server(serve_shared):
    config = {**PERMITTED, "quota.bob": {"environments": 1}}
    return serve_shared(config=config, tokens=TOKENS)


@pytest.fixture
def ann(server):
    yield from cleaned(server.client(TOKENS["ann"]))


@pytest.fixture
def bob(server):
    yield from cleaned(server.client(TOKENS["bob"]))


def cleaned(client):
    yield client
    for each in environments(client):
        if not each["shared"]:
            assert client.ask("DELETE", f"/v1/environments/{each['name']}").status == 204


def environments(client):
    return client.get("/v1/environments").expect(200)["environments"]


def make(client, name, *packages, **more):
    return client.post("/v1/environments", name=name, packages=list(packages), **more)


def show(client, name):
    return client.get(f"/v1/environments/{name}")


def test_environment_is_made_shown_used_and_removed(ann):
    made = make(ann, "tools", "six==1.16.0", preload=["six"]).expect(201)
    assert made["state"] == "ready" and made["packages"] == ["six==1.16.0"] and made["bytes"] > 0, made
    listed = ann.get("/v1/environments").expect(200)
    assert [each["name"] for each in listed["environments"]] == ["tools"]
    assert listed["usage"] == {"environments": 1, "bytes": made["bytes"], "builds": 0}
    session = ann.open(environment="tools")
    assert session.value("import sys; 'six' in sys.modules") == "True"
    assert session.value(SIX) == "'1.16.0'"
    assert show(ann, "tools").expect(200)["sessions"] == 1
    assert ann.ask("DELETE", "/v1/environments/tools").status == 204
    show(ann, "tools").error(404)
    assert session.value("import six.moves.urllib.parse; six.__version__") == "'1.16.0'", "what a session uses stays"
    session.delete()
    refused = ann.post("/v1/sessions", environment="tools").error(400)
    assert "tools" in refused["message"]


def test_build_in_the_background_becomes_ready(ann):
    begun = make(ann, "later", "attrs", wait=False).expect(202)
    assert begun["state"] in ("building", "ready") and begun["requested"] == ["attrs"]
    assert wait_until(lambda: show(ann, "later").expect(200)["state"] != "building", 60)
    assert show(ann, "later").expect(200)["state"] == "ready"


def test_session_waits_for_an_environment_that_is_being_made(ann):
    make(ann, "soon", "idna", wait=False).expect(202)
    assert ann.open(environment="soon").value("import idna; idna.__name__") == "'idna'"


def test_failed_build_has_a_reason_and_can_be_made_again(ann):
    words = make(ann, "wrong", "cella-no-such-package-8f3a").error(400)
    assert words["code"] == "environment_failed" and "cella-no-such-package-8f3a" in words["message"]
    failed = show(ann, "wrong").expect(200)
    assert failed["state"] == "failed" and "cella-no-such-package-8f3a" in failed["error"]
    assert make(ann, "wrong", "six").expect(201)["state"] == "ready"


def test_preload_that_cannot_be_imported_fails(ann):
    words = make(ann, "preloaded", "six", preload=["no_such_module_here"]).error(400)
    assert "no_such_module_here" in words["message"]


def test_taken_name_needs_replace(ann):
    make(ann, "tools", "six==1.16.0").expect(201)
    make(ann, "tools", "six==1.17.0").error(409)
    assert make(ann, "tools", "six==1.17.0", replace=True).expect(201)["packages"] == ["six==1.17.0"]


@pytest.mark.parametrize("spec", ["--index-url=http://x", "numpy; import os", "../x", "", "x @ https://h/x.whl"])
def test_hostile_requirement_is_refused(ann, spec):
    make(ann, "hostile", spec).error(400)
    ann.post("/v1/sessions", environment={"packages": [spec]}).error(400)
    assert environments(ann) == []


@pytest.mark.parametrize(
    "body",
    [{}, {"name": 1}, {"name": "../x"}, {"name": "a", "packages": "six"}, {"name": "a", "packages": [1]},
     {"name": "a", "preload": ["x y"]}, {"name": "a", "wait": 1}, {"name": "a", "index": "http://x"},
     {"name": "a", "python": "/tmp/python"}, {"name": "a", "python": "python"}],
)
def test_malformed_request_is_refused(ann, body):
    assert ann.post("/v1/environments", **(body or {"packages": ["six"]})).status in (400, 403)
    assert environments(ann) == []


def test_ten_thousand_requirements_are_refused(ann):
    words = make(ann, "many", *[f"p{n}" for n in range(10_000)]).error(400)
    assert "500" in words["message"]


def test_session_with_packages_gets_an_environment_that_counts(ann):
    session = ann.open(environment={"packages": ["six==1.16.0"], "preload": ["six"]})
    assert session.value("import sys; 'six' in sys.modules") == "True"
    (listed,) = environments(ann)
    assert listed["automatic"] and listed["sessions"] == 1 and listed["packages"] == ["six==1.16.0"]
    again = ann.open(environment={"packages": ["six==1.16.0"]})
    assert again.value(SIX) == "'1.16.0'" and len(environments(ann)) == 1
    result = ann.post("/v1/run", code="import six; print(six.__version__)",
                      policy={"environment": {"packages": ["six==1.16.0"]}}).expect(200)
    assert result["stdout"] == "1.16.0\n", result


def test_hundred_sessions_that_ask_at_once_get_one_environment(serve_shared):
    server = serve_shared(config={**PERMITTED, "quota": {"builds": 1}})
    client = server.client()
    policy = {"environment": {"packages": ["six==1.16.0"]}}
    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        opened = list(pool.map(lambda _: client.post("/v1/sessions", **policy), range(100)))
    assert {each.status for each in opened} == {201}, [each.body for each in opened if each.status != 201][:3]
    assert len(list((server.state / "environments" / "ready").glob("*/manifest.json"))) == 1
    (listed,) = environments(client)
    assert listed["sessions"] == 100
    assert client.post("/v1/run", code="import six; print(six.__version__)", policy=policy).expect(200)["stdout"] == "1.16.0\n"


def test_failure_is_that_of_all_sessions_that_wait(serve_shared):
    client = serve_shared(config={**PERMITTED, "quota": {"builds": 1}}).client()
    policy = {"environment": {"packages": ["cella-no-such-package-8f3a"]}}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        refused = list(pool.map(lambda _: client.post("/v1/sessions", **policy).error(400), range(8)))
    assert all("cella-no-such-package-8f3a" in each["message"] for each in refused), refused


def test_environment_excludes_another_python(ann):
    words = ann.post("/v1/sessions", environment={"packages": ["six"]}, python="3.11").error(400)
    assert "python" in words["message"]


def test_clients_do_not_see_environments_of_others(ann, bob):
    make(ann, "mine", "six").expect(201)
    assert environments(bob) == []
    show(bob, "mine").error(404)
    bob.post("/v1/sessions", environment="mine").error(400)
    assert bob.ask("DELETE", "/v1/environments/mine").status == 404
    assert show(ann, "mine").expect(200)["state"] == "ready"


def test_number_of_environments_is_bounded_for_a_client(bob):
    make(bob, "first", "six==1.16.0").expect(201)
    words = make(bob, "second", "six==1.17.0").error(429)
    assert "1 environments" in words["message"]
    bob.post("/v1/sessions", environment={"packages": ["six==1.17.0"]}).error(429)
    assert [each["name"] for each in environments(bob)] == ["first"]


def test_unused_automatic_environment_makes_room(bob):
    bob.open(environment={"packages": ["six==1.17.0"]}).delete()
    assert wait_until(lambda: environments(bob)[0]["sessions"] == 0)
    make(bob, "named", "six==1.16.0").expect(201)
    assert [each["name"] for each in environments(bob)] == ["named"]


# Strings hash alike in forks of one interpreter alone.
ZYGOTE = "hash('a zygote of its own')"


def test_clients_share_an_environment_but_no_interpreter(cella, environment, server, ann, bob):
    variables = {**environment, **index_variables(), "CELLA_STATE_DIR": str(server.state)}
    words = [str(cella.binary), "env", "create", "shared", "--with", "six", "--preload", "six", "--python", PYTHON]
    assert run_bounded([*words, "--replace"], env=variables).exit_code == 0
    first, second = ann.open(environment="shared"), ann.open(environment="shared")
    other = bob.open(environment="shared")
    assert first.value("import six; six.__file__") == other.value("import six; six.__file__")
    assert first.value(ZYGOTE) == second.value(ZYGOTE) != other.value(ZYGOTE)
    preloaded = [client.open(preload=["json"]).value(ZYGOTE) for client in (ann, bob)]
    assert preloaded[0] != preloaded[1]
    plain = [client.open().value(ZYGOTE) for client in (ann, bob)]
    assert plain[0] == plain[1], "without packages of a client's choice"
    assert run_bounded([str(cella.binary), "env", "rm", "shared"], env=variables).exit_code == 0


def test_interpreters_of_a_client_are_bounded_and_unused_ones_make_room(serve_shared):
    client = serve_shared(config={**PERMITTED, "quota": {"interpreters": 2}}).client()
    for module in ("json", "csv", "decimal"):
        client.open(preload=[module]).delete()
    held = [client.open(preload=[module]) for module in ("json", "csv")]
    words = client.post("/v1/sessions", preload=["decimal"]).error(429)
    assert "2 interpreters" in words["message"], words
    assert client.open().value("1") == "1", "the default one is no client's"
    held[0].delete()
    assert wait_until(lambda: client.post("/v1/sessions", preload=["decimal"]).status == 201)


def test_environment_of_the_operator_is_for_all_and_stays(cella, environment, server, ann, bob):
    variables = {**environment, **index_variables(), "CELLA_STATE_DIR": str(server.state)}
    made = run_bounded([str(cella.binary), "env", "create", "common", "--with", "six", "--python", PYTHON], env=variables)
    assert made.exit_code == 0, made.describe()
    for client in (ann, bob):
        assert show(client, "common").expect(200)["shared"] is True
        assert client.open(environment="common").value("import six; six.__name__") == "'six'"
        assert client.ask("DELETE", "/v1/environments/common").status == 403
    listed = run_bounded([str(cella.binary), "env", "ls"], env=variables)
    assert b"common" in listed.stdout, listed.describe()


def test_server_makes_none_without_permission(serve_shared):
    client = serve_shared().client()
    assert isinstance(client, Client)
    assert "environment" in make(client, "tools", "six").error(403)["message"]
    client.post("/v1/sessions", environment={"packages": ["six"]}).error(403)
    client.post("/v1/run", code="1", policy={"environment": {"packages": ["six"]}}).error(403)


def test_disk_of_environments_is_bounded(serve_shared):
    client = serve_shared(config={**PERMITTED, "quota": {"environment_disk": "10k"}}).client()
    words = make(client, "large", "six").error(429)
    assert "10k" in words["message"], words
    assert [each["state"] for each in environments(client)] == ["failed"]


def test_removed_while_it_is_made(ann):
    make(ann, "gone", "rich", wait=False).expect(202)
    assert ann.ask("DELETE", "/v1/environments/gone").status == 204
    show(ann, "gone").error(404)


def test_server_that_stops_leaves_no_installer(serve_shared):
    server = serve_shared(config=PERMITTED)
    make(server.client(), "slow", "numpy", "pandas", wait=False).expect(202)
    server.stop()
