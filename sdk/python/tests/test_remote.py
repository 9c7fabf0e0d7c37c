"""A server somewhere else: by its address and a token, with the same Session."""

import http.server
import json
import socket
import ssl
import subprocess
import threading

import pytest

import cella
from proxy import Proxy
from serving import TOKEN, serving


@pytest.fixture(scope="module")
def server():
    with serving() as started:
        yield started


@pytest.fixture
def proxy(server):
    made = Proxy(server.url)
    yield made
    made.close()


def test_session_works_over_tcp(server, open_session, wait):
    session = open_session(url=server.url, token=TOKEN)
    assert wait(session.run("6 * 7")).value == "42"
    assert session.client.server is None


def test_own_unix_socket_needs_no_token(server, open_session, wait):
    assert wait(open_session(url=server.unix_url).run("1")).ok


@pytest.mark.parametrize("token", [None, "wrong"])
def test_missing_or_wrong_token_raises_without_showing_the_token(server, open_session, wait, token):
    with pytest.raises(cella.AuthenticationError) as refused:
        wait(open_session(url=server.url, token=token).run("1"))
    assert refused.value.status == 401 and "wrong" not in str(refused.value)


def test_disallowed_request_raises_not_allowed(server, open_session, wait):
    with pytest.raises(cella.NotAllowed, match="executor"):
        wait(open_session(cella.LocalExecutor(), url=server.url, token=TOKEN).run("1"))
    with pytest.raises(cella.NotAllowed, match="workdir"):
        wait(open_session(cella.SandboxExecutor(work_dir="/srv"), url=server.url, token=TOKEN).run("1"))


def test_unreachable_server_raises_connection_failed(open_session, wait):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(cella.ConnectionFailed, match=f":{port}"):
        wait(open_session(url=f"http://127.0.0.1:{port}", token="x").run("1"))
    with pytest.raises(cella.ConnectionFailed):
        wait(open_session(url="unix:/nowhere/s").run("1"))


@pytest.mark.parametrize("url", ["localhost:80", "ftp://x", "http://", "http://a/path", "http://u@h", "unix:relative",
                                 "http://h:99999", "http://h:x"])
def test_rejects_malformed_address(twin, url):
    with pytest.raises(ValueError, match=r"unix|host|port|address"):
        twin.api.Session(url=url)


def test_rejects_token_without_url_and_url_with_client(twin, server):
    with pytest.raises(ValueError, match="url"):
        twin.api.Session(token="x")
    with pytest.raises(ValueError, match="client"):
        twin.api.Session(url=server.url, client=twin.api.Client(server.url))


class Answering(http.server.BaseHTTPRequestHandler):
    """Answers every question with one document, as a server of another version would."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = self.server.body
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


@pytest.fixture
def answering():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    server.url = f"http://127.0.0.1:{server.server_port}"
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_incompatible_server_version_is_reported(answering, open_session, wait):
    answering.body = json.dumps({"status": "ok", "version": "9.9.0"}).encode()
    with pytest.raises(cella.IncompatibleServer, match=r"9\.9\.0 and this package is 0\.1\.0"):
        wait(open_session(url=answering.url).run("1"))


@pytest.mark.parametrize("body", [b"[]", b"no json", b'{"version": null}', b"[" * 100_000])
def test_server_other_than_cella_is_reported(answering, open_session, wait, body):
    answering.body = body
    with pytest.raises(cella.CellaError):
        wait(open_session(url=answering.url).run("1"))


def test_lost_connection_during_a_run_is_reported_and_the_session_continues(proxy, open_session, wait):
    session = open_session(url=proxy.url, token=TOKEN)
    wait(session.run("x = 41"))
    with pytest.raises(cella.ConnectionFailed):
        wait(session.run("print('on', flush=True)\nwhile True: pass", on_stdout=lambda text: proxy.cut()))
    assert wait(session.run("x + 1", timeout=10)).value == "42"


def test_event_stream_resumes_after_a_lost_connection(twin, server, proxy, open_session, wait):
    session = open_session(url=proxy.url, token=TOKEN)
    direct = twin.api.Client(server.url, TOKEN)
    # Each line waits until the one before was seen.
    code = "import os, time\nfor i in range(6):\n    print(i, flush=True)\n"
    run = wait(session.start(code + "    while not os.path.exists(f'go{i}'): time.sleep(0.01)"))
    seen, before = [], proxy.accepted
    for event in twin.each(run.events()):
        seen.append(event)
        if event.type == "stdout":
            if len(seen) % 2 == 0:
                proxy.cut()
            wait(direct.upload(session.id, f"go{event.text.strip()}", b""))
    twin.close(direct)
    assert [event.n for event in seen] == list(range(len(seen)))
    assert "".join(event.text for event in seen if event.type == "stdout") == "0\n1\n2\n3\n4\n5\n"
    assert seen[-1].type == "finished" and proxy.accepted > before + 1
    assert wait(run.result()).ok


def test_connection_closed_between_requests_is_reopened(proxy, open_session, wait):
    session = open_session(url=proxy.url, token=TOKEN)
    for number in range(5):
        assert wait(session.run(str(number))).value == str(number)
        proxy.cut()


def test_tls_verifies_the_certificate(twin, open_session, wait, tmp_path):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        check=True, stderr=subprocess.DEVNULL,
    )
    config = f'tls_certificate = "{certificate}"\ntls_key = "{key}"\n'
    with serving(config) as secure:
        url = secure.url.replace("http:", "https:")
        context = ssl.create_default_context(cafile=str(certificate))
        session = open_session(url=url, token=TOKEN, tls=context)
        assert wait(session.run("6 * 7")).value == "42"
        assert wait(session.run("print('x' * 3_000_000)")).ok
        wait(session.upload("large", b"y" * (3 << 20)))
        assert wait(session.download("large")) == b"y" * (3 << 20)
        with pytest.raises(cella.ConnectionFailed, match="certificate"):
            wait(open_session(url=url, token=TOKEN).run("1"))
        twin.close(session)


def test_client_can_open_several_sessions(server, twin, open_session, wait):
    client = twin.api.Client(server.url, TOKEN)
    one, two = open_session(client=client), open_session(client=client)
    wait(one.run("x = 1")), wait(two.run("x = 2"))
    assert (wait(one.run("x")).value, wait(two.run("x")).value) == ("1", "2")
    assert wait(client.health())["status"] == "ok"


def test_run_once_runs_a_program_without_a_session(server, twin, wait):
    client = twin.api.Client(server.url, TOKEN)
    result = wait(client.run_once({"code": "print(6 * 7)"}, {"limits": {"timeout": 5}}))
    assert (result.stdout, result.state, result.session) == ("42\n", "none", None)
    twin.close(client)
