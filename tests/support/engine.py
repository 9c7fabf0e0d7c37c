"""A Docker engine for tests: the calls that they need to see what Cella made of it."""

import http.client
import json
import socket

from support.needs import require

OWNER = "cella.owner"


class Engine:
    def __init__(self, settings=None):
        settings = settings or require("docker")
        self.host = settings["DOCKER_HOST"]
        self.image = settings["CELLA_TEST_IMAGE"]

    def call(self, method, path, body=None):
        """(status, decoded answer)"""
        status, answer = self.ask(method, path, body)
        return status, json.loads(answer) if answer else None

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("engine", timeout=60)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(self.host.removeprefix("unix://"))
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json"} if data else {})
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
        parts = []
        while content:
            size = int.from_bytes(content[4:8], "big")
            parts.append(content[8 : 8 + size])
            content = content[8 + size :]
        return b"".join(parts).decode()

    def remove(self, container):
        self.call("DELETE", f"/containers/{container}?force=1&v=1")

    def exists(self, container):
        return self.call("GET", f"/containers/{container}/json")[0] == 200
