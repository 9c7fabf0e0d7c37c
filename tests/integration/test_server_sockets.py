"""A guest of an ordinary user has that user's uid, so a socket of the host that it can see would open: the server's, an
SSH agent's, a bus's. Each attack first succeeds without the defence."""

import contextlib
import socket
import subprocess
import sys

import pytest
from server import Server, serve, short_directory  # noqa: F401 (fixtures)
from support.cella import PYTHON
from support.running import IS_ROOT

pytestmark = pytest.mark.as_user

# Waits for a server to appear at the path, and asks it for a session outside of any jail.
ASK = """
import json, os, socket, sys, time
print("waits", flush=True)
while not os.path.exists(sys.argv[1]): time.sleep(0.01)
body = json.dumps({"executor": "local"}).encode()
try:
    while True:
        link = socket.socket(socket.AF_UNIX)
        try:
            link.connect(sys.argv[1])
            break
        except ConnectionRefusedError:  # bound, and not listening yet
            time.sleep(0.01)
    link.sendall(b"POST /v1/sessions HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Type: application/json\\r\\n"
                 b"Connection: close\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body)
    answer = b""
    while part := link.recv(65536): answer += part
    print(answer.split()[1].decode())
except PermissionError:
    print("EACCES")
"""
ALLOWED = {"allow": {"executors": ["sandbox", "local"], "whole_machine": True}}


def test_guest_that_sees_the_servers_socket_gets_no_session(run, serve, short_directory):  # noqa: F811 (fixtures)
    """The directory was shown before the server made its socket there, so that no check of mounts could see it."""
    place = short_directory / "shown"
    place.mkdir(mode=0o755)
    short_directory.chmod(0o755)
    words = ("-c", ASK, "--python", PYTHON, "--mount", f"{place}:/shown", "--", "/shown/s")
    with run.started(*words) as guest:
        guest.wait_for(b"waits\n")
        server = serve(directory=place, config=ALLOWED)
        outside = subprocess.run(
            [sys.executable, "-c", ASK, server.socket], capture_output=True, text=True, check=True, timeout=30
        )
        assert outside.stdout == "waits\n201\n", "outside of a jail the same user gets one"
        ended = guest.finish()
    assert (ended.exit_code, ended.text().split()) == (0, ["waits", "EACCES" if IS_ROOT else "403"]), ended.describe()


@pytest.fixture
def agent(tmp_path):
    """A directory with a socket on which a program listens, as an SSH agent or a bus does."""
    tmp_path.chmod(0o755)
    place = tmp_path / "agent"
    place.mkdir()
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(place / "socket"))
        (place / "socket").chmod(0o777)
        listener.listen()
        yield place


CONNECT = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1]); print('connected')"


@pytest.mark.parametrize("flags", [["--mount", "{}:/data"], ["--mount", "{}:/data:rw"], ["--workdir", "{}"]])
def test_directory_with_a_socket_is_not_shown(run, agent, flags):
    outside = subprocess.run([sys.executable, "-c", CONNECT, agent / "socket"], capture_output=True, check=True)
    assert outside.stdout == b"connected\n"
    for place in (agent, agent.parent):
        message = run.rejected("-c", "1", *(word.format(place) for word in flags))
        assert "socket" in message and str(agent) in message, message
    # By its own path it was named, and is shown.
    named = run.python(CONNECT, "--mount", f"{agent}/socket:/data/socket", args=["/data/socket"])
    assert named["stdout"] == "connected\n", named


@pytest.mark.parametrize("key", ["workdir", "mounts"])
def test_server_does_not_show_a_directory_with_a_socket(serve, agent, key):  # noqa: F811 (fixture)
    server = serve(config={"allow": {"mounts": [str(agent.parent)], "whole_machine": True}})
    value = [{"source": str(agent), "target": "/data"}] if key == "mounts" else str(agent)
    words = server.client().post("/v1/sessions", **{key: value}).error(403)
    assert "socket" in words["message"], words


def test_directories_of_the_server_are_not_shown(serve):  # noqa: F811 (fixture)
    server = serve(config={"allow": {"whole_machine": True}})
    for place in (server.directory, server.state):
        refused = server.client().post("/v1/sessions", mounts=[{"source": str(place), "target": "/data"}])
        assert refused.status in (400, 403), refused
