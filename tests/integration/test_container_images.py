"""The images of docker/: they build as their first lines say, and sessions run in them."""

import io
import json
import tarfile
import urllib.parse

import pytest
from support.engine import Engine
from support.needs import REPOSITORY

pytestmark = pytest.mark.needs("docker")

BASE, TOOLS = "cella-test/base:1", "cella-test/tools:1"


@pytest.fixture(scope="module")
def engine():
    return Engine()


def build(engine, file, image, **arguments):
    """What `docker build` sends. Without network: nothing is installed."""
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as tar:
        tar.add(REPOSITORY / "docker" / file, file)
    query = {"dockerfile": file, "t": image, "buildargs": json.dumps(arguments), "networkmode": "none", "rm": 1}
    path = "/build?" + urllib.parse.urlencode(query)
    status, answer = engine.ask("POST", path, context.getvalue(), {"Content-Type": "application/x-tar"})
    assert status == 200 and b'"error"' not in answer, answer


@pytest.fixture(scope="module")
def images(engine):
    build(engine, "Dockerfile.base", BASE, PYTHON=engine.image)
    build(engine, "Dockerfile.tools", TOOLS, BASE=BASE, TOOLS="")
    yield BASE, TOOLS
    for image in (TOOLS, BASE):
        engine.forget(image)


def test_images_run_sessions(open_session, engine, images):
    for image in images:
        session = open_session("--executor", "container", "--image", image, "--engine", engine.host, python=None)
        assert session.run("x = 6")["state"] == "kept"
        assert session.value("x * 7") == "42"
        assert session.run("echo $((6 * 7))", language="bash")["stdout"] == "42\n"


def test_first_lines_are_the_commands_that_build_them():
    for file, image in (("Dockerfile.base", "cella:base"), ("Dockerfile.tools", "cella:tools")):
        text = (REPOSITORY / "docker" / file).read_text()
        assert f"docker build -t {image} -f docker/{file} ." in text
