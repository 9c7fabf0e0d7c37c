"""Pipes that guests leave where cella looks for files. Opened like a file, a pipe waits for a writer for ever: a command
would hang, and a server would stop for all clients."""

import os
import pathlib
import subprocess
import threading

import pytest
from pythons import make_venv
from server import serve, short_directory  # noqa: F401 (fixtures)
from support.cella import PYTHON, run_bounded

pytestmark = pytest.mark.as_user

BOUND = 30


def waits_for_ever(path):
    """Whether an ordinary open of the file waits: the attack without the defence."""
    reader = subprocess.Popen(["cat", str(path)], stdout=subprocess.DEVNULL)
    try:
        reader.wait(0.2)
    except subprocess.TimeoutExpired:
        return True
    finally:
        reader.kill()
        reader.wait()
    return False


@pytest.fixture
def project(tmp_path):
    """A directory that guests of the server may write to, with an environment."""
    tmp_path.chmod(0o755)
    (tmp_path / "project").mkdir(mode=0o755)
    make_venv(PYTHON, tmp_path / "project" / "venv")
    return tmp_path / "project"


PLACES = {
    "kernel": "venv/share/jupyter/kernels/planted/kernel.json",
    "environment": "venv/pyvenv.cfg",
    "path file": "venv/lib/{python}/site-packages/planted.pth",
    "conda": "venv/conda-meta/python-3.11.7-0.json",
}
PLANT = """
import os, sys
os.makedirs(os.path.dirname(sys.argv[1]), exist_ok=True)
if os.path.exists(sys.argv[1]): os.remove(sys.argv[1])
os.mkfifo(sys.argv[1])
"""


def place_of(project, name):
    (library,) = project.glob("venv/lib/python3*")
    return PLACES[name].format(python=library.name)


@pytest.mark.parametrize("name", PLACES)
def test_server_goes_on_when_a_guest_leaves_a_pipe_for_a_file(serve, project, name):  # noqa: F811 (fixture)
    config = {"allow": {"mounts": [str(project)], "executors": ["sandbox", "subprocess"]}}
    client = serve(config=config).client()
    place = place_of(project, name)
    guest = client.open(workdir=str(project))
    planted = guest.run(PLANT.replace("sys.argv[1]", repr(place)))
    assert planted["status"] == "ok", planted
    assert waits_for_ever(project / place), "the pipe is no danger: this proves nothing"

    def use(**policy):
        client.post("/v1/sessions", venv=str(project / "venv"), **policy)

    uses = [
        threading.Thread(target=use, kwargs=policy)
        for policy in ({}, {"executor": "subprocess", "jail": True, "kernel": "planted"})
    ]
    for each in uses:
        each.start()
    assert client.get("/health").expect(200)["status"] == "ok"
    for each in uses:
        each.join(BOUND)
        assert not each.is_alive(), "the session is neither opened nor refused"
    assert guest.value("6 * 7") == "42"


@pytest.mark.parametrize("name", PLACES)
def test_commands_do_not_wait_for_a_pipe_that_a_guest_left(cella, environment, project, name):
    place = place_of(project, name)
    flags = ["--workdir", str(project), "--python", PYTHON, "-c", PLANT, "--", place]
    planted = run_bounded([str(cella.binary), "run", *flags], env=environment)
    assert planted.exit_code == 0 and waits_for_ever(project / place), planted.describe()
    # The guest's own Python waits for a path file; its time-out ends that. Jupyter looks below HOME without any option.
    home = pathlib.Path(environment["HOME"])
    kernels = home / ".local/share/jupyter/kernels/planted"
    kernels.mkdir(parents=True, exist_ok=True)
    os.mkfifo(kernels / "kernel.json")
    try:
        for words in (["doctor"], ["kernels"], ["kernels", "--venv", "venv"], ["run", "--venv", "venv", "--timeout", "5s", "-c", "1"],
                      ["run", "--executor", "subprocess", "--kernel", "planted", "-c", "1"],
                      ["run", "--executor", "subprocess", "--jail", "--kernel", "planted", "--venv", "venv", "-c", "1",
                       "--timeout", "5s"]):
            run_bounded([str(cella.binary), *words], env=environment, cwd=project, timeout=BOUND)
    finally:
        (kernels / "kernel.json").unlink()


def test_code_from_a_pipe_that_the_caller_names_is_still_read(cella, environment):
    command = f"{cella.binary} run --python {PYTHON} --lang python - < <(echo 'print(6 * 7)')"
    done = run_bounded(["bash", "-c", command], env=environment)
    assert done.text() == "42\n", done.describe()
