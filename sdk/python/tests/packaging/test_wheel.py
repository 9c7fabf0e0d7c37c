"""A wheel of the programs under test: what is in it, and that an environment needs nothing else."""

import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

import cella

PROJECT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = {
    "cella/_bin/bin/cella", "cella/_bin/libexec/cella/cella-launch", "cella/_bin/libexec/cella/runners/cella-agent",
    "cella/_bin/libexec/cella/runners/bin/cella-call",
    "cella/_bin/libexec/cella/runners/shims/bin/pip", "cella/_bin/libexec/cella/runners/shims/bin/pip3",
}
SYSTEM_PATH = "/usr/bin:/bin"

SESSIONS = """
import asyncio, cella, cella.sync
with cella.sync.Session() as session:
    session.run("x = 6")
    print(session.run("x * 7").value)
async def main():
    async with cella.Session() as session:
        print((await session.run("6 * 9")).value)
asyncio.run(main())
"""


class Environment:
    """A fresh one with the wheel, on a system that has no cella and names none."""

    def __init__(self, directory, wheel):
        self.directory = directory
        self.variables = {"PATH": f"{directory}/bin:{SYSTEM_PATH}", "HOME": str(directory.parent)}
        subprocess.run([sys.executable, "-m", "venv", directory], check=True, env=self.variables)
        self("pip", "install", "--no-index", "--disable-pip-version-check", wheel)

    def __call__(self, *command, expect=0, **options):
        words = list(map(str, command))
        done = subprocess.run(
            words, env=self.variables, capture_output=True, text=True, timeout=60, check=False, **options
        )
        assert done.returncode == expect, done
        return done.stdout

    def files(self):
        return [path for path in self.directory.rglob("*") if "cella" in path.relative_to(self.directory).as_posix()]


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    return Environment(tmp_path_factory.mktemp("home") / "venv", wheel)


def test_wheel_tag_names_glibc_version_and_architecture(wheel):
    assert wheel.name == f"cella-{cella.__version__}-py3-none-manylinux_2_34_{os.uname().machine}.whl"


def test_wheel_contains_every_installed_file(wheel, install_tree):
    with zipfile.ZipFile(wheel) as archive:
        carried = {entry.filename: entry for entry in archive.infolist() if not entry.is_dir()}
        installed = {
            f"cella/_bin/{path.relative_to(install_tree).as_posix()}": path
            for place in ("bin", "libexec/cella", "share/cella") for path in (install_tree / place).rglob("*")
            if path.is_file() and path.suffix != ".pyc"
        }
        assert installed.keys() <= carried.keys()
        for name, path in installed.items():
            assert archive.read(name) == path.read_bytes(), name
    executable = {name for name, entry in carried.items() if entry.external_attr >> 16 & 0o111}
    assert executable == PROGRAMS
    assert not [name for name in carried if name.endswith(".pyc") or "completion" in name]


def test_wheel_build_is_reproducible(wheel, make_wheel, install_tree, tmp_path):
    code, printed, complaints = make_wheel(install_tree, tmp_path)
    assert code == 0, complaints
    assert pathlib.Path(printed.strip()).read_bytes() == wheel.read_bytes()


def test_cella_of_the_environment_is_the_program_of_the_wheel(environment):
    assert environment("cella", "version") == f"cella {cella.__version__}\n"
    assert environment("cella", "run", "-c", "print(input())", input="passed on\n") == "passed on\n"
    assert environment("cella", "run", "-c", "raise SystemExit(3)", expect=3) == ""
    # In the same process: signals and the exit code are the program's own.
    carried = next(path for path in environment.files() if path.match("_bin/bin/cella"))
    running = subprocess.Popen(
        [environment.directory / "bin/cella", "run", "-c", "print('there', flush=True); input()"],
        env=environment.variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )
    with running:
        assert running.stdout.readline() == b"there\n"
        assert os.path.samefile(f"/proc/{running.pid}/exe", carried)
        running.communicate(b"\n", timeout=60)
    assert running.returncode == 0


def test_sessions_work_with_only_the_wheel(environment):
    assert environment("python", "-c", SESSIONS) == "42\n54\n"


def test_runners_are_compiled_at_install_time(environment):
    files = environment.files()
    sources = [path.stem for path in files if path.match("cella_runner/*.py")]
    compiled = [path.name.partition(".")[0] for path in files if path.match("cella_runner/__pycache__/*.pyc")]
    assert len(sources) > 10 and sorted(compiled) == sorted(sources)


def test_uninstalling_leaves_nothing(environment):
    """The last with this environment: what sessions wrote beside the programs would be found here."""
    assert environment.files()
    environment("pip", "uninstall", "--yes", "cella")
    assert environment.files() == []


def check_floor(tools, floor, wheel):
    command = [tools / "python", PROJECT / "tools/check_floor.py", "--floor", floor, wheel]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_program_that_needs_a_newer_glibc_is_detected(tools, wheel):
    assert check_floor(tools, "2.34", wheel) == (0, "")
    code, words = check_floor(tools, "2.2", wheel)
    assert code == 1 and "runners/libcella_fork.so needs GLIBC_2." in words and "of libc.so.6" in words


def test_program_that_needs_another_library_is_detected(tools, tmp_path, make_wheel, install_tree):
    """Python itself, which needs a library or more: no user gets such a wheel."""
    bad = tmp_path / "prefix"
    shutil.copytree(install_tree, bad)
    shutil.copy(os.path.realpath("/usr/bin/python3"), bad / "bin" / "cella")
    code, _, words = make_wheel(bad, tmp_path / "dist")
    assert code == 1 and "cella/_bin/bin/cella needs lib" in words and "which is not of glibc" in words
    assert not (tmp_path / "dist").exists()


def test_rejects_wheel_without_programs(tools, tmp_path):
    with zipfile.ZipFile(tmp_path / "pure.whl", "w") as archive:
        archive.writestr("cella/__init__.py", "")
    code, words = check_floor(tools, "2.34", tmp_path / "pure.whl")
    assert code == 1 and "no program" in words
