"""Where an install from a checkout or a source distribution takes the programs from."""

import pathlib
import shutil
import subprocess
import tempfile
import zipfile

import pytest

import cella

PROJECT = pathlib.Path(__file__).resolve().parents[2]
PARTS = ("src", "tools", "README.md", "pyproject.toml", "hatch_build.py")
PURE = f"cella-{cella.__version__}-py3-none-any.whl"
CARRIED = "cella/_bin/bin/cella"

# An install step without a compiler: the tree under test, as the release build would install it.
INSTALL_RULES = """
cmake_minimum_required(VERSION 3.20)
project(checkout LANGUAGES NONE)
foreach(part bin libexec share)
  install(DIRECTORY "{tree}/${{part}}" DESTINATION . USE_SOURCE_PERMISSIONS)
endforeach()
"""


class Checkout:
    def __init__(self, root, tools):
        self.root, self.project, self.build = root, root / "sdk/python", root / "build/release"
        self._python = tools / "python"
        self.project.mkdir(parents=True)
        for part in PARTS:
            copy = shutil.copytree if (PROJECT / part).is_dir() else shutil.copy
            copy(PROJECT / part, self.project / part)
        guest = "runners/python/cella_runner"
        shutil.copytree(PROJECT.parents[1] / guest, root / guest, ignore=shutil.ignore_patterns("__pycache__"))
        (root / "cmake").mkdir()
        (root / "cmake/Install.cmake").touch()
        self.temporary = root / "temporary"
        self.temporary.mkdir()

    def make_build(self, tree):
        (self.root / "CMakeLists.txt").write_text(INSTALL_RULES.format(tree=tree))
        subprocess.run(["cmake", "-S", self.root, "-B", self.build], check=True, capture_output=True)
        (self.build / "bin").mkdir()
        (self.build / "bin/cella").touch()

    def hatchling(self, target, *, project=None, **variables):
        """(exit code, complaints)."""
        done = subprocess.run(
            [self._python, "-m", "hatchling", "build", "-t", target, "-d", self.root / "dist"],
            cwd=project or self.project, capture_output=True, text=True, timeout=60, check=False,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "TMPDIR": str(self.temporary), **variables},
        )
        return done.returncode, done.stderr

    def only_wheel(self):
        (wheel,) = (self.root / "dist").glob("*.whl")
        return wheel


@pytest.fixture
def checkout(tools):
    with tempfile.TemporaryDirectory(prefix="cella-checkout-") as root:
        yield Checkout(pathlib.Path(root), tools)


def test_wheel_contains_the_release_build_of_a_checkout(checkout, install_tree):
    checkout.make_build(install_tree)
    elsewhere = checkout.root / "elsewhere"
    manifest = checkout.build / "install_manifest.txt"
    manifest.write_text("of the last make install\n")
    assert checkout.hatchling("wheel", DESTDIR=str(elsewhere))[0] == 0
    with zipfile.ZipFile(checkout.only_wheel()) as archive:
        assert archive.read(CARRIED) == (install_tree / "bin/cella").read_bytes()
    # No promise about other machines: `make wheel` makes that, after its checks.
    assert "-linux_" in checkout.only_wheel().name
    assert manifest.read_text() == "of the last make install\n"
    assert not elsewhere.exists() and not list(checkout.temporary.iterdir())


def test_build_that_cannot_be_installed_is_reported(checkout):
    (checkout.build / "bin").mkdir(parents=True)
    (checkout.build / "bin/cella").touch()
    code, words = checkout.hatchling("wheel")
    assert code != 0 and "cannot be installed: run `make build` first" in words
    assert not list(checkout.temporary.iterdir())


def test_package_without_a_build_is_pure_and_reports_it(checkout):
    code, words = checkout.hatchling("wheel")
    assert code == 0 and "no programs are carried: run `make build`" in words
    assert checkout.only_wheel().name == PURE


def test_programs_can_be_omitted(checkout, install_tree):
    checkout.make_build(install_tree)
    assert checkout.hatchling("wheel", CELLA_WHEEL_PREFIX="none")[0] == 0
    assert checkout.only_wheel().name == PURE


def test_rejects_named_tree_without_programs(checkout, install_tree):
    code, words = checkout.hatchling("wheel", CELLA_WHEEL_PREFIX=str(checkout.root))
    assert code != 0 and f"{checkout.root} is no install tree of Cella: it has no bin/cella" in words
    damaged = checkout.root / "damaged"
    shutil.copytree(install_tree, damaged)
    (damaged / "libexec/cella/cella-launch").chmod(0o644)
    code, words = checkout.hatchling("wheel", CELLA_WHEEL_PREFIX=str(damaged))
    assert code != 0 and "cella-launch is not executable" in words
    (damaged / "bin/cella").write_text("#!/bin/sh\n")
    (damaged / "libexec/cella/cella-launch").chmod(0o755)
    code, words = checkout.hatchling("wheel", CELLA_WHEEL_PREFIX=str(damaged))
    assert code != 0 and "bin/cella is no 64-bit Linux program" in words
    assert not list((checkout.root / "dist").glob("*"))


def test_editable_install_contains_no_programs(checkout, install_tree):
    assert checkout.hatchling("wheel:editable", CELLA_WHEEL_PREFIX=str(install_tree))[0] == 0
    assert checkout.only_wheel().name == PURE


def test_source_distribution_builds_the_pure_package(checkout):
    assert checkout.hatchling("sdist")[0] == 0
    archive = checkout.root / f"dist/cella-{cella.__version__}.tar.gz"
    subprocess.run(["tar", "-xf", archive, "-C", checkout.root], check=True)
    unpacked = checkout.root / f"cella-{cella.__version__}"
    assert checkout.hatchling("wheel", project=unpacked)[0] == 0
    assert checkout.only_wheel().name == PURE
