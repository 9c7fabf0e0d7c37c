"""Kernelspecs that a guest left in a virtual environment: what they expand to is bounded, in time and memory."""

import json

import pytest
from support.cella import PYTHON
from support.running import Run

pytestmark = pytest.mark.as_user

# As much as an ordinary process has, and far less than what the attacks ask for.
BOUNDED = ["prlimit", "--as=4294967296"]
LINE = "{connection_file}"
SPECS = {
    # Each variable is twice the one before it.
    "doubled": {"argv": ["/bin/true", LINE],
                "env": {"v00": "0123456789", **{f"v{i:02}": f"${{v{i - 1:02}}}" * 2 for i in range(1, 50)}}},
    "repeated": {"argv": ["/bin/true", "{resource_dir}" * 60_000]},
    "connected": {"argv": ["/bin/true", LINE * 50_000]},
    "many": {"argv": ["/bin/true", LINE], "env": {f"v{i}": "${HOME}" for i in range(40_000)}},
}


@pytest.fixture
def run(cella, tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / "home").mkdir()
    return Run(cella, {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path / "home"), "LANG": "C.UTF-8"})


@pytest.mark.parametrize("jail", [["--jail"], []], ids=["jail", "no jail"])
@pytest.mark.parametrize("name", SPECS)
def test_kernelspec_that_expands_without_end_is_refused(run, tmp_path, name, jail):
    project = tmp_path / "project"
    project.mkdir()
    plant = ("import json, subprocess, sys\n"
             "subprocess.run([sys.executable, '-m', 'venv', '--without-pip', 'venv'], check=True)\n"
             "import os; place = 'venv/share/jupyter/kernels/' + 'k' * 64 + '/'; os.makedirs(place)\n"
             f"open(place + 'kernel.json', 'w').write(sys.stdin.read())")
    spec = json.dumps({"display_name": "x", "language": "x", **SPECS[name]})
    planted = run.json("-c", plant, "--python", PYTHON, "--workdir", project, input=spec.encode())
    assert planted["status"] == "ok", planted
    words = ["-c", "1", "--executor", "subprocess", *jail, "--venv", project / "venv", "--kernel", "k" * 64]
    refused = run.rejected(*words, through=BOUNDED, timeout=30)
    assert "more than" in refused, refused
