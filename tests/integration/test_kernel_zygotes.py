"""What jailed kernels may write to, zygotes of the sandbox do not load: the executors of a server share one list."""

import pytest
from pythons import make_venv
from server import serve, short_directory  # noqa: F401 (fixtures)
from support.cella import PYTHON
from support.needs import require

pytestmark = pytest.mark.needs("jupyter")

WITNESS = "import os, sys; sys.witness = os.getuid()\n"  # 0: in a zygote; 1000: a guest
WRITE = f"import glob; open(glob.glob('venv/lib/python3*/site-packages')[0] + '/w.pth', 'w').write({WITNESS!r})"


def test_server_may_allow_kernels_in_a_jail_alone(serve):  # noqa: F811
    client = serve(config={"allow": {"jailed_kernels": True, "whole_machine": True}}).client()
    kernel = {"executor": "subprocess", "python": require("jupyter")["JUPYTER_PYTHON"], "system_packages": True}
    refused = client.post("/v1/sessions", **kernel)
    assert refused.status == 403 and "without 'jail: true'" in refused.json()["error"]["message"]
    jailed = client.open(**kernel, jail=True)
    assert jailed.run("6 * 7")["value"] == "42"
    assert client.get("/v1/kernels").expect(200)["kernels"] is not None


def started(client, venv):
    session = client.open(venv=str(venv))
    try:
        return session.run("1")["isolation"]["start"]
    finally:
        session.delete()


def test_environment_that_a_jailed_kernel_could_write_to_is_not_loaded_by_a_zygote(serve, tmp_path):  # noqa: F811
    tmp_path.chmod(0o755)
    project = tmp_path / "project"
    project.mkdir(mode=0o755)
    venv = make_venv(PYTHON, project / "venv")
    allow = {"whole_machine": True, "executors": ["sandbox", "subprocess"]}
    client = serve(config={"allow": allow, "sessions": {"pool_shells": 0, "pool_parked": 0}}).client()
    assert started(client, venv) == "fork", "the control: what only the owner wrote is loaded"
    python = require("jupyter")["JUPYTER_PYTHON"]
    kernel = client.open(executor="subprocess", jail=True, python=python, system_packages=True, workdir=str(project))
    written = kernel.run(WRITE)
    assert written["status"] == "ok", written
    assert started(client, venv) == "exec: guests may write to its environment"
