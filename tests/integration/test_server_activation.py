"""A server whose sockets a service manager opens, and the units that `make install` puts there."""

import pathlib
import shutil
import signal
import socket
import subprocess

import pytest
from server import START_BOUND, Client, short_directory  # noqa: F401 (fixture)
from support.cella import REPOSITORY

UNITS = REPOSITORY / "packaging" / "systemd"


def activate(cella, environment, directory, listener):
    """As systemd does: the socket is descriptor 3, and LISTEN_PID is the server itself."""
    command = 'exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec "$@"'
    return subprocess.Popen(
        ["/bin/sh", "-c", command, "sh", str(cella.binary), "serve", "--state-dir", str(directory / "state")],
        stdin=listener.fileno(), stderr=subprocess.DEVNULL, env=environment,
    )


def test_socket_of_the_service_manager_outlives_the_server(cella, environment, short_directory):  # noqa: F811 (fixture)
    """A client that connects while the service is stopped is served when it starts again."""
    place = short_directory / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen()
        for _ in range(2):
            server = activate(cella, environment, short_directory, listener)
            try:
                # The request waits in the socket until the server accepts it.
                assert Client(place).get("/health").expect(200)["status"] == "ok"
                server.send_signal(signal.SIGTERM)
                assert server.wait(START_BOUND) == 0
            finally:
                server.kill()
                server.wait()
            assert place.is_socket()


def test_units_are_valid(tmp_path):
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("needs systemd-analyze (package systemd)")
    program = tmp_path / "bin" / "cella"
    program.parent.mkdir()
    program.touch(mode=0o755)
    service = (UNITS / "cella.service.in").read_text().replace("@CMAKE_INSTALL_PREFIX@", str(tmp_path))
    (tmp_path / "cella.service").write_text(service)
    shutil.copy(UNITS / "cella.socket", tmp_path)
    checked = subprocess.run([verify, "verify", *(str(tmp_path / f"cella.{kind}") for kind in ("service", "socket"))],
                             capture_output=True, text=True)
    # Other units of the machine may have faults of their own.
    assert "cella" not in checked.stderr, checked.stderr


def test_runtime_directory_of_the_service_is_preserved():
    """systemd removes it at every stop otherwise, with the socket on which cella.socket listens."""
    lines = (UNITS / "cella.service.in").read_text().splitlines()
    listening = next(line for line in (UNITS / "cella.socket").read_text().splitlines() if line.startswith("ListenStream="))
    directory = next(line for line in lines if line.startswith("RuntimeDirectory=")).partition("=")[2]
    assert pathlib.Path(listening.partition("=")[2]).parent == pathlib.Path("/run") / directory
    assert "RuntimeDirectoryPreserve=yes" in lines
