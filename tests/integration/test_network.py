"""--network none has a loopback of its own; host is the host's."""

import http.server
import socket
import threading

import pytest

OWN_SERVER = """
import socket, threading
family = socket.{family}
server = socket.create_server(({address!r}, 0), family=family)
def serve():
    connection, _ = server.accept()
    connection.sendall(b'hello ' + connection.recv(100))
threading.Thread(target=serve).start()
client = socket.create_connection(server.getsockname()[:2], timeout=5)
client.sendall(b'client')
print(client.recv(100).decode())
"""

CONNECT = """
import socket
try:
    print(socket.create_connection(({address!r}, {port}), timeout=2).recv(100).decode())
except OSError as error:
    print('refused', type(error).__name__)
"""


@pytest.fixture
def listener():
    """A greeting on the host's loopback. Returns its port."""
    server = socket.create_server(("127.0.0.1", 0))
    served = []

    def serve():
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            served.append(connection.getpeername())
            connection.sendall(b"the host's")
            connection.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield server.getsockname()[1], served
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join(5)


@pytest.mark.parametrize("network", ["none", "host"])
@pytest.mark.parametrize("family, address", [("AF_INET", "127.0.0.1"), ("AF_INET6", "::1"), ("AF_INET", "localhost")])
def test_server_and_client_inside_one_jail_connect(run, network, family, address):
    result = run.python(OWN_SERVER.format(family=family, address=address), "--network", network)
    assert (result["status"], result["stdout"]) == ("ok", "hello client\n"), result


def test_guest_without_network_cannot_reach_the_hosts_loopback(run, listener):
    port, served = listener
    with socket.create_connection(("127.0.0.1", port)) as control:
        assert control.recv(100) == b"the host's"
    for address in ("127.0.0.1", "localhost", own_address()):
        result = run.python(CONNECT.format(address=address, port=port), "--network", "none")
        assert result["stdout"].startswith("refused"), result
    assert run.python(CONNECT.format(address="127.0.0.1", port=port))["stdout"].startswith(
        "refused"
    ), "none is the default"
    assert len(served) == 1
    assert "net" in run.python("pass")["isolation"]["namespaces"]


def own_address():
    """An address of this machine by which others would reach it; its loopback where there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return probe.getsockname()[0]
        except OSError:
            return "127.0.0.1"


def test_guest_with_network_host_reaches_the_hosts_loopback(run, listener):
    port, served = listener
    result = run.python(CONNECT.format(address="127.0.0.1", port=port), "--network", "host")
    assert (result["status"], result["stdout"]) == ("ok", "the host's\n"), result
    assert len(served) == 1
    assert result["isolation"]["network"] == "host" and "net" not in result["isolation"]["namespaces"]


def test_guest_without_network_has_only_loopback(run):
    """Counted in /proc, which every user may read: asking the kernel by a netlink socket is not allowed."""
    result = run.shell("tail -n +3 /proc/net/dev | cut -d: -f1")
    assert result["stdout"].split() == ["lo"], result


def test_web_server_inside_the_jail_answers(run):
    code = """
import http.server, threading, urllib.request
server = http.server.ThreadingHTTPServer(('127.0.0.1', 8080), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
open('page', 'w').write('served')
print(urllib.request.urlopen('http://localhost:8080/page').read().decode())
"""
    assert run.python(code)["stdout"] == "served\n"
    # The port is the jail's: a second one at the same time would have it as well.
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        port = server.server_port
        assert run.python(code.replace("8080", str(port)))["stdout"] == "served\n"


def test_only_localhost_resolves_without_network(run):
    code = """
import socket
print(socket.gethostname(), socket.gethostbyname('localhost'), socket.gethostbyname(socket.gethostname()))
try: socket.getaddrinfo('example.com', 80)
except OSError as error: print('no name')
"""
    result = run.python(code, timeout=20)
    assert result["stdout"] == "cella 127.0.0.1 127.0.0.1\nno name\n", result
    assert result["usage"]["wall_ms"] < 5000


def test_names_resolve_with_network_host(run):
    code = "import os, socket; print(socket.gethostbyname('localhost'), os.path.exists('/etc/resolv.conf'))"
    assert run.python(code, "--network", "host")["stdout"] == "127.0.0.1 True\n"
    assert run.python(code)["stdout"] == "127.0.0.1 False\n"


def test_local_executor_uses_the_hosts_network(run, listener):
    port, _ = listener
    assert run.python(CONNECT.format(address="127.0.0.1", port=port), "--executor", "local")["stdout"] == "the host's\n"
