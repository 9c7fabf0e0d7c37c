"""The client of the Docker Engine API, against a real engine: the C++ tests of src/docker."""

import os
import subprocess

import pytest
from support.needs import require

pytestmark = pytest.mark.needs("docker")


def test_docker_client(cella):
    program = cella.binary.parent / "docker_test"
    if not program.exists():
        pytest.skip("docker_test was not built")
    env = {**os.environ, **require("docker")}
    argv = [program, "--gtest_filter=Engine*", "--gtest_brief=1"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SKIPPED" not in done.stdout
