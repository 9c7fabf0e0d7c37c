"""Interpreters that a guest planted as the base of a virtual environment. They may run in jails without network, but never
as the installer of packages, which has the network, the operator's index and the cache that all environments share."""

import json
import subprocess

import pytest
from server import serve  # noqa: F401 (fixture)
from support.cella import run_bounded

pytestmark = pytest.mark.as_user

RAN = "planted code ran"


@pytest.fixture
def project(tmp_path):
    """A directory of a guest, with an environment that rests on the guest's own interpreter."""
    tmp_path.chmod(0o755)
    project = tmp_path / "project"
    base = project / "base"
    (base / "lib/python3.11").mkdir(parents=True)
    (base / "bin").mkdir()
    python = base / "bin/python3"
    prefixes = ("prefix", "base_prefix", "exec_prefix", "base_exec_prefix")
    claims = json.dumps({"executable": str(python), "version": "3.11.2", **dict.fromkeys(prefixes, str(base))})
    answer = json.dumps({"ok": False, "kind": "failed", "message": RAN})
    python.write_text(f"""#!/bin/sh
case "$*" in
*base_exec_prefix*) echo '{claims}' ;;
*cella_runner*) exec /usr/bin/python3 "$@" ;;
*) echo '{answer}' ;;
esac
""")
    python.chmod(0o755)
    (project / ".venv/bin").mkdir(parents=True)
    (project / ".venv/bin/python").symlink_to(python)
    (project / ".venv/pyvenv.cfg").write_text(f"home = {python.parent}\nversion = 3.11.2\n")
    (project / "conda/bin").mkdir(parents=True)
    (project / "conda/conda-meta").mkdir()
    (project / "conda/conda-meta/python-3.11.7-h955ad1f_0.json").touch()
    (project / "conda/bin/python").write_bytes(python.read_bytes())
    (project / "conda/bin/python").chmod(0o755)
    for planted in (".venv", "conda"):
        (project / planted / "bin/python3").symlink_to("python")
        by_hand = subprocess.run([project / planted / "bin/python", "installer.py"], capture_output=True, text=True)
        assert RAN in by_hand.stdout, "control"
    return project


@pytest.mark.parametrize("planted", [".venv", "conda"])
def test_session_installs_nothing_with_an_interpreter_that_guests_could_write(serve, project, planted):  # noqa: F811
    server = serve(config={"allow": {"mounts": [str(project)], "runtime_deps": True}})
    session = server.client().open(venv=str(project / planted))
    refused = session.client.post(session.path("deps"), packages=["six"])
    words = refused.error(403)
    assert "guests may write" in words["message"], words


@pytest.mark.parametrize("planted", [".venv", "conda"])
def test_commands_install_nothing_with_an_interpreter_of_a_directory_of_guests(cella, environment, project, planted):
    variables = {**environment, "CELLA_STATE_DIR": str(project.parent / "state")}
    python = f"{planted}/bin/python"
    for words, more in (
        (["run", "--with", "six", "--python", python, "-c", "1"], {}),
        (["run", "--with", "six", "-c", "1"], {"VIRTUAL_ENV": str(project / planted)}),
        (["run", "--with", "six", "-c", "1"], {"PATH": f"{project / planted}/bin:/usr/bin:/bin"}),
        (["env", "create", "x", "--with", "six", "--python", python], {}),
    ):
        refused = run_bounded([str(cella.binary), *words], env={**variables, **more}, cwd=project)
        assert refused.exit_code == 126, refused.describe()
        assert b"a guest may have left it there" in refused.stderr, refused.describe()
