"""The JavaScript runner for tests: the real program over a real socket, outside any jail."""

import shutil

import pytest
from exec_driver import RUNNERS, Runner

NODE = shutil.which("node")
assert NODE, "these tests need Node.js"
COMMAND = [NODE, RUNNERS / "javascript" / "runner.js"]


@pytest.fixture
def runner(tmp_path):
    made = Runner(COMMAND, tmp_path, env={"GREETING": "hello"})
    yield made
    made.close()
