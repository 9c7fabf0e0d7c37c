"""An engine behind TCP and TLS, which asks for a certificate of the client: Docker's variables name the files."""

import asyncio
import contextlib
import ssl
import subprocess
import threading

import pytest
from support.engine import Engine

pytestmark = pytest.mark.needs("docker")


@pytest.fixture(scope="module")
def engine():
    return Engine()


def make_certificate(folder):
    """ca.pem, cert.pem and key.pem, as Docker's client has them."""
    folder.mkdir()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", folder / "key.pem", "-out",
         folder / "cert.pem", "-days", "2", "-subj", "/CN=engine", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, stderr=subprocess.DEVNULL,
    )
    (folder / "ca.pem").write_bytes((folder / "cert.pem").read_bytes())
    return folder


class TlsEngine:
    """Passes on to the engine what clients with the certificate send."""

    def __init__(self, engine, folder):
        self._path = engine.host.removeprefix("unix://")
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        self._context.load_verify_locations(folder / "ca.pem")
        self._context.verify_mode = ssl.CERT_REQUIRED
        self._loop = asyncio.new_event_loop()
        started = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(started,), daemon=True)
        self._thread.start()
        assert started.wait(30)

    def _serve(self, started):
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=self._context))
        self.host = f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        started.set()
        self._loop.run_forever()

    async def _connected(self, reader, writer):
        their_reader, their_writer = await asyncio.open_unix_connection(self._path)
        await asyncio.gather(self._copy(reader, their_writer), self._copy(their_reader, writer))

    async def _copy(self, reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    def close(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("tls") / "right")


@pytest.fixture(scope="module")
def secure(engine, folder):
    made = TlsEngine(engine, folder)
    yield made
    made.close()


def variables(host, folder):
    return {"DOCKER_HOST": host, "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(folder)}


def test_session_runs_over_tls(open_session, engine, secure, folder):
    words = ["--executor", "container", "--image", engine.image]
    session = open_session(*words, python=None, with_env=variables(secure.host, folder))
    session.run("x = 6")
    assert session.value("x * 7") == "42"
    assert session.run("print('x' * 3_000_000)")["stdout"].startswith("xxx")


def test_certificates_of_others_are_refused(run, engine, secure, folder, tmp_path):
    words = ["-c", "print(1)", "--executor", "container", "--image", engine.image]
    other = make_certificate(tmp_path / "other")
    # Not that of the engine.
    assert "certificate" in run.rejected(*words, with_env=variables(secure.host, other))
    # The engine's is known, but it does not know the client's.
    (other / "ca.pem").write_bytes((folder / "ca.pem").read_bytes())
    message = run.rejected(*words, with_env=variables(secure.host, other))
    assert secure.host.removeprefix("tcp://") in message, message
    # Docker's variable is not set: nothing is said to whom asks for TLS.
    message = run.rejected(*words, with_env={"DOCKER_HOST": secure.host})
    assert secure.host.removeprefix("tcp://") in message, message
