"""The package itself: its command, its names, its generated half, its types."""

import ast
import os
import pathlib
import subprocess
import sys

import pytest

import cella
import cella.sync

PACKAGE = pathlib.Path(cella.__file__).resolve().parent
PROJECT = pathlib.Path(__file__).resolve().parents[1]


def command(*words, **options):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-m", "cella._command", *words],
        capture_output=True, text=True, timeout=60, env={**environment, **options.pop("env", {})}, **options,
    )


def test_command_runs_the_program():
    assert command("version").stdout == f"cella {cella.__version__}\n"
    finished = command("run", "-c", "import sys; print(input()); sys.exit(3)", input="passed on\n")
    assert (finished.returncode, finished.stdout) == (3, "passed on\n")
    assert command("--wrong").returncode == 2


def test_command_without_a_program_names_the_remedy():
    finished = command("version", env={"CELLA_BIN": "/nowhere"})
    assert finished.returncode == 126 and finished.stderr.startswith("cella: CELLA_BIN names '/nowhere'")


def test_sync_package_matches_its_generator():
    """If this fails: python tools/make_sync.py."""
    checked = subprocess.run(
        [sys.executable, PROJECT / "tools" / "make_sync.py", "--check"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("module", [cella, cella.sync])
def test_exported_names_exist_and_others_raise_attribute_error(module):
    for name in module.__all__:
        assert getattr(module, name) is not None
    assert set(module.__all__) <= set(dir(module))
    with pytest.raises(AttributeError, match="no attribute 'Sesion'"):
        module.Sesion  # noqa: B018


def test_async_and_sync_classes_have_the_same_methods():
    for kind in ("Session", "Client", "Run", "RunStream"):
        names = [
            {name.replace("aclose", "close").replace("__a", "__") for name in vars(getattr(api, kind))}
            for api in (cella, cella.sync)
        ]
        assert names[0] == names[1], kind


def test_importing_the_package_loads_no_other_module():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    code = "import sys; before = set(sys.modules); import cella; print(sorted(set(sys.modules) - before))"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert set(ast.literal_eval(finished.stdout)) <= {"cella", "cella._version", "__future__"}


def test_every_file_has_at_most_400_lines():
    long = {path: n for path in PACKAGE.rglob("*.py") if (n := len(path.read_text().splitlines())) > 400}
    assert not long


def test_package_is_typed():
    assert (PACKAGE / "py.typed").exists()
