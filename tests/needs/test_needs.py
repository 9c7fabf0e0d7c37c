"""Each need is there and works: one small test behind each, which others may then rely on."""

import http.client
import io
import json
import pathlib
import socket
import subprocess
import tarfile
import urllib.parse

import pytest
from support.needs import require


class Engine(http.client.HTTPConnection):
    """A Docker engine behind a Unix socket."""

    def __init__(self, address):
        super().__init__("engine", timeout=30)
        self._path = urllib.parse.urlparse(address).path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)

    def ask(self, method, path, body=None, content_type="application/json"):
        self.request(method, path, body, {"Content-Type": content_type})
        answer = self.getresponse()
        text = answer.read()
        assert answer.status < 300, (method, path, answer.status, text)
        return text


def image_with(program):
    """A file system that holds one program, as a tar archive."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(program, "program")
    return archive.getvalue()


@pytest.mark.needs("docker")
def test_docker_engine_runs_a_container_of_a_local_image(tmp_path):
    source = tmp_path / "exit.c"
    source.write_text("int main(void) { return 42; }")
    subprocess.run(["gcc", "-static", "-o", tmp_path / "exit", source], check=True)
    engine = Engine(require("docker")["DOCKER_HOST"])
    imported = engine.ask("POST", "/images/create?fromSrc=-", image_with(tmp_path / "exit"), "application/x-tar")
    image = json.loads(imported.splitlines()[-1])["status"]
    try:
        document = {"Image": image, "Cmd": ["/program"], "HostConfig": {"NetworkMode": "none"}}
        container = json.loads(engine.ask("POST", "/containers/create", json.dumps(document)))["Id"]
        engine.ask("POST", f"/containers/{container}/start")
        ended = json.loads(engine.ask("POST", f"/containers/{container}/wait"))
        engine.ask("DELETE", f"/containers/{container}")
        assert ended["StatusCode"] == 42
    finally:
        engine.ask("DELETE", f"/images/{image}?force=true")


@pytest.mark.needs("jupyter")
def test_jupyter_kernel_answers():
    code = (
        "from jupyter_client.manager import start_new_kernel\n"
        "manager, client = start_new_kernel()\n"
        "print(client.execute_interactive('print(6 * 7)', timeout=30)['content']['status'])\n"
        "client.stop_channels(); manager.shutdown_kernel(now=True)\n"
    )
    python = require("jupyter")["JUPYTER_PYTHON"]
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stdout.split() == ["42", "ok"], done


@pytest.mark.needs("network-index")
def test_package_index_offers_a_wheel(tmp_path):
    python = require("network-index")["INDEX_PYTHON"]
    command = [python, "-m", "pip", "download", "-q", "--no-deps", "--no-cache-dir", "--dest", tmp_path, "six"]
    subprocess.run(command, check=True, timeout=60)
    assert [path.suffix for path in pathlib.Path(tmp_path).iterdir()] == [".whl"]


def test_missing_need_skips_with_the_remedy(tmp_path, monkeypatch):
    (tmp_path / "docker.missing").write_text("install docker.io\n")
    monkeypatch.setenv("CELLA_TEST_NEEDS", str(tmp_path))
    monkeypatch.setattr("support.needs.MUST_RUN", False)
    with pytest.raises(pytest.skip.Exception, match="needs docker: install docker.io"):
        require("docker")


def test_missing_need_fails_if_tests_must_run(tmp_path, monkeypatch):
    monkeypatch.setenv("CELLA_TEST_NEEDS", str(tmp_path))
    monkeypatch.setattr("support.needs.MUST_RUN", True)
    with pytest.raises(pytest.fail.Exception, match="needs docker: run 'tests/needs/docker.sh start"):
        require("docker")


@pytest.mark.needs("podman")
@pytest.mark.parametrize("owner", ["PODMAN_ROOT", "PODMAN_USER"])
def test_podman_serves_root_and_an_ordinary_user(owner):
    settings = require("podman")
    engine = Engine(settings[owner])
    info = json.loads(engine.ask("GET", "/v4.0.0/libpod/info"))
    assert info["host"]["security"]["rootless"] is (owner == "PODMAN_USER")
    assert info["host"]["ociRuntime"]["name"] == "runc" and info["host"]["cgroupManager"] == "cgroupfs"
    engine.ask("GET", f"/v4.0.0/libpod/images/{settings['PODMAN_IMAGE']}/json")
