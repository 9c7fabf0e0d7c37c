"""Kernels on a machine that fails: ports that are taken, full disks, kernels that never answer."""

import json
import os
import subprocess

import pytest
from server import serve  # noqa: F401
from support.needs import require
from support.running import IS_ROOT

pytestmark = pytest.mark.needs("jupyter")

# Knows only ports. Takes the port of the shell channel itself, as often as the file says, and becomes ipykernel.
BUSY = """
import json, os, socket, sys
connection = json.load(open(sys.argv[1]))
if connection["transport"] != "tcp": sys.exit("this kernel knows only ports")
with open(sys.argv[3], "a+") as file:
    file.write("x")
    file.seek(0)
    if len(file.read()) <= int(sys.argv[4]):
        taken = socket.socket()
        taken.bind(("127.0.0.1", connection["shell_port"]))
        taken.set_inheritable(True)
os.execv(sys.argv[2], [sys.argv[2], "-m", "ipykernel_launcher", "-f", sys.argv[1]])
"""


@pytest.fixture
def python():
    return require("jupyter")["JUPYTER_PYTHON"]


def make_kernel(directory, name, argv):
    place = directory / "kernels" / name
    place.mkdir(parents=True)
    (place / "kernel.json").write_text(json.dumps({"display_name": name, "language": "python", "argv": argv}))


@pytest.fixture
def busy(cella, environment, python, tmp_path):
    def run(times):
        """The Result of a kernel whose port is taken so often."""
        script, count = tmp_path / "busy.py", tmp_path / f"count{times}"
        script.write_text(BUSY)
        argv = [python, str(script), "{connection_file}", python, str(count), str(times)]
        make_kernel(tmp_path / "share", f"busy{times}", argv)
        env = {**environment, "JUPYTER_PATH": str(tmp_path / "share"), "TMPDIR": str(tmp_path)}
        ended = cella("run", "-e", "subprocess", "--kernel", f"busy{times}", "--json", "-c", "6 * 7", env=env)
        assert [name for name in os.listdir(tmp_path) if name.startswith("cella")] == []
        return ended, json.loads(ended.stdout)

    return run


def test_kernel_whose_port_is_taken_gets_other_ports(busy):
    ended, result = busy(2)
    assert (ended.exit_code, result["value"]) == (0, "42"), ended.describe()


def test_kernel_whose_ports_are_always_taken_is_refused_with_the_reason(busy):
    ended, result = busy(99)
    assert ended.exit_code == 126
    assert "Address already in use" in result["error"]["message"]
    assert "this kernel knows only ports" in result["error"]["message"]


def test_kernel_that_never_answers_is_ended_at_its_limit(serve, tmp_path):  # noqa: F811
    make_kernel(tmp_path, "silent", ["/bin/sh", "-c", "exec sleep 1000", "{connection_file}"])
    config = {"allow": {"executors": ["sandbox", "subprocess"]}}
    client = serve(config=config, with_env={"JUPYTER_PATH": str(tmp_path)}).client()
    answer = client.post("/v1/sessions", executor="subprocess", kernel="silent", startup_timeout="500ms")
    assert answer.status >= 400 and "did not answer in time" in answer.json()["error"]["message"], answer.json()


def test_full_disk_costs_output_and_not_the_run(cella, environment, python, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    script = f'mount -t tmpfs -o size=1m,mode=700 none {small} && exec "$@"'
    unshare = ["unshare", "-m" if IS_ROOT else "-Urm", "/bin/sh", "-c", script, "sh"]
    words = [*unshare, str(cella.binary), "repl", "--json", "-e", "subprocess", "--system-packages", "--python", python]
    code = "from IPython.display import display\nfor n in range(40000): display({'text/plain': str(n) * 40}, raw=True)"
    env = {**environment, "TMPDIR": str(small)}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True) as process:
        for number, line in ((1, code), (2, "6 * 7")):
            process.stdin.write(json.dumps({"id": number, "code": line, "events": number == 1}) + "\n")
        process.stdin.flush()
        results = []
        for line in process.stdout:
            answer = json.loads(line)
            if "result" in answer:
                results.append(answer["result"])
                if len(results) == 2:
                    break
        process.stdin.close()
    assert results[0]["status"] == "ok"
    assert results[1]["value"] == "42"
