"""A Docker engine for tests: the calls that they need to see what Cella made of it."""

import contextlib
import http.client
import json
import os
import socket

import pytest
from support.needs import require

OWNER = "cella.owner"


# PODMAN_ROOT, PODMAN_USER: suites for Docker run on that engine of tests/needs/podman.sh instead.
OTHER = os.environ.get("CELLA_TEST_ENGINE")
NEED = "podman" if OTHER else "docker"


def chosen_engine():
    """Its address and an image, under the names of tests/needs/docker.sh."""
    settings = require(NEED)
    return {"DOCKER_HOST": settings[OTHER], "CELLA_TEST_IMAGE": settings["PODMAN_IMAGE"]} if OTHER else settings


def _text_of(content):
    """Of a multiplexed stream: eight bytes before each part, of which four are its size."""
    parts = []
    while content:
        size = int.from_bytes(content[4:8], "big")
        parts.append(content[8 : 8 + size])
        content = content[8 + size :]
    return b"".join(parts).decode()


class Engine:
    def __init__(self, settings=None):
        settings = settings or chosen_engine()
        self.host = settings["DOCKER_HOST"]
        self.image = settings["CELLA_TEST_IMAGE"]

    def call(self, method, path, body=None):
        """(status, decoded answer)"""
        status, answer = self.ask(method, path, body)
        return status, json.loads(answer) if answer else None

    def ask(self, method, path, body=None, headers=None):
        """(status, bytes). A body is bytes, or a document that is sent as JSON."""
        connection = http.client.HTTPConnection("engine", timeout=60)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(self.host.removeprefix("unix://"))
        try:
            if body is not None and not isinstance(body, bytes):
                body, headers = json.dumps(body), {"Content-Type": "application/json"}
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def containers(self, label=OWNER):
        filters = json.dumps({"label": [label]}).replace('"', "%22").replace(" ", "")
        status, found = self.call("GET", f"/containers/json?all=1&filters={filters}")
        assert status == 200, found
        return found

    def inspect(self, container):
        status, found = self.call("GET", f"/containers/{container}/json")
        assert status == 200, found
        return found

    def make(self, command, labels, **host):
        """A running container of the test's own."""
        body = {"Image": self.image, "Cmd": command, "Labels": labels, "HostConfig": {"NetworkMode": "none", **host}}
        status, made = self.call("POST", "/containers/create", body)
        assert status == 201, made
        assert self.call("POST", f"/containers/{made['Id']}/start")[0] == 204
        return made["Id"]

    def logs(self, container):
        """Both streams of a container that has no terminal: without the eight bytes before each part."""
        _, content = self.ask("GET", f"/containers/{container}/logs?stdout=1&stderr=1")
        return _text_of(content)

    def execute(self, container, command):
        """What a command writes that is started beside the others in a container."""
        body = {"AttachStdout": True, "AttachStderr": True, "Cmd": command}
        status, made = self.call("POST", f"/containers/{container}/exec", body)
        assert status == 201, made
        _, content = self.ask("POST", f"/exec/{made['Id']}/start", {"Detach": False})
        return _text_of(content)

    def tag(self, name):
        """Another name for the test image."""
        repository, tag = name.rsplit(":", 1)
        status, answer = self.ask("POST", f"/images/{self.image}/tag?repo={repository}&tag={tag}")
        assert status == 201, answer

    def has(self, image):
        return self.call("GET", f"/images/{image}/json")[0] == 200

    def load(self, archive, image):
        """An image with the files of a tar archive."""
        repository, tag = image.rsplit(":", 1)
        path = f"/images/create?fromSrc=-&repo={repository}&tag={tag}"
        status, answer = self.ask("POST", path, archive, {"Content-Type": "application/x-tar"})
        assert status == 200, answer

    def push(self, image):
        repository, tag = image.rsplit(":", 1)
        nobody = {"X-Registry-Auth": "e30="}
        status, answer = self.ask("POST", f"/images/{repository}/push?tag={tag}", b"", nobody)
        assert status == 200 and b'"error"' not in answer, answer

    def forget(self, image):
        self.ask("DELETE", f"/images/{image}?force=1")

    def remove(self, container):
        self.call("DELETE", f"/containers/{container}?force=1&v=1")

    def exists(self, container):
        return self.call("GET", f"/containers/{container}/json")[0] == 200


@contextlib.contextmanager
def default_images(engine, *names):
    """The test image under names that snippets of others use; only on an engine of the tests' own."""
    if not engine.host.startswith("unix:///tmp/cella-docker-"):
        pytest.skip("another's engine: its images are left alone")
    for name in names:
        engine.tag(name)
    try:
        yield
    finally:
        for name in names:
            engine.forget(name)
