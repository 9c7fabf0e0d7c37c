"""Access control: tokens, sockets, hosts and origins, sessions of other clients, quotas, and the limits of a policy."""

import hashlib
import json
import os
import stat

import pytest
from server import serve, serving, short_directory  # noqa: F401 (fixtures)

pytestmark = pytest.mark.as_user

ANN, BOB = "ann-7f3b0e6c55d14d0f", "bob-19c2a1b8e6a34c55"
TOKENS = {"ann": ANN, "bob": BOB}


@pytest.fixture(scope="module")
def server(cella, environment):
    with serving(cella, environment) as start:
        yield start(tcp=True, tokens=TOKENS)


@pytest.fixture
def ann(server):
    return server.tcp_client(ANN)


@pytest.fixture
def anns(ann):
    """A session of Ann's."""
    opened = ann.open()
    yield opened
    assert opened.delete().status in (204, 404)


def routes(client, **values):
    """(method, path, is it open) of everything that the server has, with these values in the paths."""
    for path, operations in client.get("/openapi.json").expect(200)["paths"].items():
        for method, operation in operations.items():
            yield method.upper(), path.format(**values), operation.get("security") == []


def body_for(method, path):
    if method != "POST":
        return b"x" if method == "PUT" else None
    keys = {"input": "text", "checkpoints": "name"}
    last = path.rpartition("/")[2]
    return json.dumps({"packages": ["x"]} if last == "deps" else {keys.get(last, "code"): "x"})


# Tokens


def test_every_route_needs_a_token_over_tcp(server, anns):
    run = anns.run("1")["id"]
    stranger = server.tcp_client()
    seen = 0
    for method, path, is_open in routes(stranger, id=anns.id, run=run, name="n", path="f", output=0):
        answer = stranger.ask(method, path, body=body_for(method, path))
        if is_open:
            assert path in ("/health", "/openapi.json") and answer.status == 200
            continue
        assert answer.error(401)["code"] == "unauthorized", (method, path)
        assert answer.headers["www-authenticate"].startswith("Bearer")
        seen += 1
    assert seen >= 25
    # Nor does the answer show which paths there are.
    stranger.get("/v1/no/such/path").error(401)
    stranger.ask("PATCH", "/v1/sessions").error(401)


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", f"Bearer {ANN}x", f"Bearer {ANN[:-1]}", f"Basic {ANN}", ANN, f"Bearer {ANN} {BOB}",
     f"Bearer ann:{ANN}", f"Bearer {ANN},{BOB}", "Bearer " + "x" * 5000, f"Bearer\t{ANN}"],
)
def test_malformed_authorization_header_is_rejected(server, header):
    server.tcp_client().get("/v1/sessions", headers={"Authorization": header}).error(401)


def test_bearer_scheme_is_case_insensitive(server):
    for scheme in ("Bearer", "bearer", "BEARER"):
        server.tcp_client().get("/v1/sessions", headers={"Authorization": f"{scheme} {ANN}"}).expect(200)


def test_hashed_token_in_the_file_is_accepted(serve):
    hashed = "sha256:" + hashlib.sha256(ANN.encode()).hexdigest()
    server = serve(tcp=True, tokens={"ann": hashed})
    server.tcp_client(ANN).get("/v1/sessions").expect(200)
    server.tcp_client(hashed).get("/v1/sessions").error(401)


def test_tokens_are_not_stored_or_logged(serve):
    server = serve("--log-level", "debug", tcp=True, tokens=TOKENS)
    server.tcp_client(ANN).open().run("1")
    server.tcp_client(ANN + "wrong").get("/v1/sessions").error(401)
    server.stop()
    assert ANN not in server.words()
    for path in server.state.rglob("*"):
        assert not path.is_file() or ANN.encode() not in path.read_bytes(), path


# Other people


def test_sessions_of_other_clients_are_404(server, anns):
    run = anns.run("x = 1; open('f', 'w').write('mine')")["id"]
    anns.client.post(anns.path("checkpoints"), name="n").expect(201)
    bob = server.tcp_client(BOB)
    seen = 0
    for method, path, _ in routes(bob, id=anns.id, run=run, name="n", path="f", output=0):
        if anns.id in path:
            answer = bob.ask(method, path, body=body_for(method, path))
            unknown = bob.ask(method, path.replace(anns.id, "ses_" + "0" * 32), body=body_for(method, path))
            assert answer.status == 404, (method, path, answer)
            assert answer.body == unknown.body, (method, path)
            seen += 1
    assert seen >= 20
    assert bob.get("/v1/sessions").expect(200)["sessions"] == []
    assert anns.value("x") == "1" and anns.value("open('f').read()") == "'mine'"


def test_token_identifies_the_client_on_a_unix_socket(server, anns):
    on_socket = server.client(ANN)
    assert on_socket.get(anns.path()).expect(200)["id"] == anns.id
    # A request without one is from another client.
    server.client().get(anns.path()).error(404)
    server.client("nobody-has-this").get(anns.path()).error(401)


def test_unix_socket_is_private_to_its_user(server):
    assert stat.S_IMODE(os.stat(server.socket).st_mode) & 0o077 == 0
    assert stat.S_IMODE(os.stat(server.state).st_mode) & 0o077 == 0


# What refuses the start


def refused(serve, *flags, **options):
    """The words of a server that does not start."""
    server = serve(*flags, ready=False, **options)
    assert server.finish() not in (0, 139, 134), server.describe()
    assert "listening on" not in server.words()
    return server.words()


def test_rejects_tcp_without_tokens(serve):
    words = refused(serve, tcp=True)
    assert "token" in words and "--no-auth" in words


def test_rejects_tcp_with_an_empty_token_file(serve):
    assert "token" in refused(serve, tcp=True, tokens={})


def test_rejects_missing_token_file(serve, short_directory):
    assert "missing" in refused(serve, "--token-file", short_directory / "missing")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620, 0o602, 0o700])
def test_rejects_token_file_accessible_to_others(serve, short_directory, mode):
    path = short_directory / "tokens"
    path.write_text(f"ann:{ANN}\n")
    path.chmod(mode)
    words = refused(serve, "--token-file", path)
    assert "chmod 600" in words and ANN not in words


@pytest.mark.parametrize("line", ["two words:token", "ann:", "ann:sha256:xyz", "ann:has blank", "a:same\nb:same"])
def test_malformed_token_file_error_names_the_line(serve, short_directory, line):
    path = short_directory / "tokens"
    path.touch(mode=0o600)
    path.write_text(f"first:{ANN}\n{line}\n")
    words = refused(serve, "--token-file", path)
    assert ":2" in words or ":3" in words, words
    assert ANN not in words


def test_no_auth_allows_only_loopback_addresses(serve):
    server = serve("--no-auth", tcp=True)
    server.tcp_client().get("/v1/sessions").expect(200)
    for address in ("0.0.0.0:0", "[::]:0"):
        assert "other machines" in refused(serve, "--no-auth", "--listen", address)


def test_tcp_beyond_loopback_needs_tls_or_a_word(serve, short_directory):
    """With tokens it started without a word, and they crossed the network in plain text."""
    for address in ("0.0.0.0:0", "[::]:0"):
        assert "--insecure-http" in refused(serve, "--listen", address, tokens={"ann": ANN})
    server = serve("--listen", "0.0.0.0:0", "--insecure-http", tokens={"ann": ANN})
    assert "listening on" in server.words()


@pytest.mark.parametrize(
    "text, word",
    [("[server]\nmax_bdy = 5\n", "max_body"), ("[server\n", "cella.toml:1"), ("[nowhere]\nx = 1\n", "nowhere"),
     ('[quota]\nsessions = "many"\n', "sessions")],
)
def test_invalid_configuration_error_names_the_position(cella, environment, short_directory, text, word):
    (short_directory / "cella.toml").write_text(text)
    ended = cella("serve", "--config", short_directory / "cella.toml", "--check-config", env=environment)
    assert ended.exit_code not in (0, 134, 139) and word in ended.stderr.decode(), ended.describe()


# Web pages


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"}, {"Host": "localhost.evil.example"}, {"Host": ""}, {"Host": "10.0.0.1"},
        {"Host": "a b"}, {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
def test_requests_from_other_origins_are_refused(ann, headers):
    for path in ("/health", "/openapi.json", "/v1/sessions"):
        answer = ann.get(path, headers=headers)
        assert answer.status in (400, 403), answer
        assert not any(name.startswith("access-control") for name in answer.headers)


def test_own_host_names_and_origin_are_accepted(server, ann):
    port = server.port()
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"LOCALHOST:{port}", "localhost", f"[::1]:{port}"):
        ann.get("/v1/sessions", headers={"Host": host}).expect(200)
    own = {"Host": f"localhost:{port}", "Origin": f"http://localhost:{port}", "Sec-Fetch-Site": "same-origin"}
    ann.get("/v1/sessions", headers=own).expect(200)
    form = {**own, "Content-Type": "text/plain"}
    ann.ask("POST", "/v1/run", body='{"code": "1"}', headers=form).error(403)


def test_allowed_origins_get_cors_headers(serve):
    page = "https://app.example"
    server = serve(tcp=True, tokens=TOKENS, config={"server": {"allowed_origins": [page]}})
    stranger = server.tcp_client()
    asked = {"Origin": page, "Access-Control-Request-Method": "POST"}
    allowed = stranger.ask("OPTIONS", "/v1/sessions", headers=asked)
    assert allowed.status == 204 and allowed.headers["access-control-allow-origin"] == page
    assert "authorization" in allowed.headers["access-control-allow-headers"].lower()
    stranger.ask("OPTIONS", "/v1/sessions", headers={**asked, "Origin": "https://evil.example"}).error(403)
    # A browser hides an answer that does not name the page's origin.
    answer = server.tcp_client(ANN).get("/v1/sessions", headers={"Origin": page})
    answer.expect(200)
    assert answer.headers.get("access-control-allow-origin") == page


# Quotas


def assert_try_later(answer):
    answer.error(429)
    assert 1 <= int(answer.headers["retry-after"]) <= 3600


def test_session_quota_of_a_client_is_enforced(serve):
    config = {"quota": {"sessions": 1}, "quota.bob": {"sessions": 2}}
    server = serve(tcp=True, tokens=TOKENS, config=config)
    first = server.tcp_client(ANN).open()
    assert_try_later(server.tcp_client(ANN).post("/v1/sessions"))
    for _ in range(2):
        server.tcp_client(BOB).open()
    assert_try_later(server.tcp_client(BOB).post("/v1/sessions"))
    first.delete().expect(204)
    server.tcp_client(ANN).open()


def test_memory_quota_of_a_client_is_enforced(serve):
    client = serve(config={"quota": {"memory": "1536m"}}).client()
    first = client.open()
    assert_try_later(client.post("/v1/sessions"))
    client.open(limits={"memory": "256m"})
    words = client.post("/v1/sessions", limits={"memory": "2g"}).error(403)
    assert "limits.memory" in words["message"]
    first.delete().expect(204)
    client.open()


def test_run_quota_of_a_client_is_enforced(serve):
    client = serve(config={"quota": {"concurrent_runs": 1}}).client()
    one, two = client.open(), client.open()
    run = one.start("import time; time.sleep(60)")
    one.wait_running(run)
    assert_try_later(client.post(two.path("runs"), code="1"))
    assert_try_later(client.post("/v1/run", code="1"))
    assert_try_later(client.post("/v1/batch", snippets=[{"code": "1"}]))
    one.cancel(run).expect(202)
    one.ended(run)
    assert two.value("1") == "1"


def processor_time(pid):
    """Of this process alone, in seconds."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_batch_waits_for_its_own_quota_without_trying_all_the_time(serve):
    server = serve(config={"quota": {"concurrent_runs": 1}})
    client = server.client()
    client.post("/v1/run", code="1").expect(200)
    before = processor_time(server.pid)
    snippets = [{"code": f"import time; time.sleep(1); print({n})"} for n in range(4)]
    lines = client.post("/v1/batch", snippets=snippets, concurrency=4).expect(200).splitlines()
    assert {line["index"]: line["result"]["stdout"] for line in map(json.loads, lines)} == {n: f"{n}\n" for n in range(4)}
    # Trying all the time takes as much as the processors have left; waiting takes some milliseconds.
    used = processor_time(server.pid) - before
    assert used < 0.2, used


def test_repeated_idempotent_request_uses_no_quota(serve):
    session = serve(config={"quota": {"concurrent_runs": 1}}).client().open()
    run = session.start("import time; time.sleep(60)", idempotency_key="k")
    session.wait_running(run)
    assert session.start("import time; time.sleep(60)", idempotency_key="k") == run
    session.cancel(run).expect(202)


def test_request_rate_of_a_client_is_limited(serve):
    config = {"quota.ann": {"requests_per_second": 0.01, "burst": 3}}
    server = serve(tcp=True, tokens=TOKENS, config=config)
    ann = server.tcp_client(ANN)
    assert [ann.get("/v1/sessions").status for _ in range(3)] == [200] * 3
    assert_try_later(ann.get("/v1/sessions"))
    ann.get("/health").expect(200)
    told = server.tcp_client(BOB).get("/metrics").expect(200).decode()
    assert "cella_refused_quota_total 1\n" in told


def test_max_sessions_counts_all_clients(serve):
    server = serve(tcp=True, tokens=TOKENS, config={"sessions": {"max_sessions": 2}})
    server.tcp_client(ANN).open()
    server.tcp_client(BOB).open()
    assert_try_later(server.tcp_client(BOB).post("/v1/sessions"))


# What a policy may ask for

FORBIDDEN = [
    ({"executor": "local"}, "executor"), ({"network": "host"}, "network"), ({"workdir": "/etc"}, "workdir"),
    ({"workdir": "/no/such/directory"}, "workdir"), ({"rootfs": "/"}, "rootfs"), ({"venv": "/usr"}, "venv"),
    ({"mounts": [{"source": "/etc", "target": "/x"}]}, "mounts[0].source"), ({"python": "/bin/sh"}, "python"),
    ({"limits": {"memory": "5g"}}, "limits.memory"), ({"limits": {"pids": 1025}}, "limits.pids"),
    ({"limits": {"disk": "5g"}}, "limits.disk"), ({"limits": {"timeout": "2h"}}, "limits.timeout"),
    ({"limits": {"cpu_time": 3601}}, "limits.cpu_time"), ({"limits": {"output": "17m"}}, "limits.output"),
    ({"limits": {"open_files": 65537}}, "limits.open_files"), ({"idle_timeout": "2d"}, "idle_timeout"),
    ({"max_lifetime": "8d"}, "max_lifetime"),
]


@pytest.mark.parametrize("policy, key", FORBIDDEN, ids=[key for _, key in FORBIDDEN])
def test_disallowed_request_error_names_the_key(ann, policy, key):
    for answer in (
        ann.post("/v1/sessions", **policy), ann.post("/v1/run", code="1", policy=policy),
        ann.post("/v1/batch", snippets=[{"code": "1"}], policy=policy),
    ):
        assert answer.error(403)["message"].startswith(key), answer


def test_run_timeout_above_the_maximum_is_refused(anns):
    words = anns.client.post(anns.path("runs"), code="1", timeout="2h").error(403)
    assert words["message"].startswith("timeout")


def test_allowed_directories_are_mounted_without_following_symlinks(serve, short_directory):
    inside = short_directory / "data"
    inside.mkdir(mode=0o755)
    short_directory.chmod(0o755)
    (inside / "f").write_text("shared")
    (inside / "out").symlink_to("/etc")
    client = serve(config={"allow": {"mounts": [str(inside)]}}).client()
    session = client.open(mounts=[{"source": str(inside), "target": "/data", "mode": "ro"}])
    assert session.value("open('/data/f').read()") == "'shared'"
    assert session.run("open('/data/new', 'w')")["status"] == "error"
    for source in (inside / "out", inside / "..", short_directory, f"{inside}x", f"{inside}/../..{inside}/out", "/"):
        answer = client.post("/v1/sessions", mounts=[{"source": str(source), "target": "/data"}])
        assert answer.status in (400, 403) and "mounts[0].source" in answer.error(answer.status)["message"], answer


def test_allowed_executor_and_network_are_granted(serve):
    client = serve(config={"allow": {"executors": ["sandbox", "local"], "network_host": True}}).client()
    local = client.open(executor="local")
    assert local.run("import os; print(os.getpid() > 2)")["stdout"] == "True\n"
    assert client.open(network="host").description["isolation"]["network"] == "host"
