"""Puts the programs into the wheel, below cella/_bin and laid out like an install prefix.

They come from the install tree that CELLA_WHEEL_PREFIX names, else from the release build of the checkout. Without
either, or with CELLA_WHEEL_PREFIX=none, the wheel is the pure package, which finds `cella` on PATH or in CELLA_BIN.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Optional

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# What the programs need at run time. Shell completions belong to a system, not to an environment.
CARRIED = ("bin", "libexec/cella", "share/cella", "share/doc/cella")
NEEDED = (
    "bin/cella",
    "libexec/cella/cella-launch",
    "libexec/cella/runners/libcella_fork.so",
    "libexec/cella/runners/python/cella_runner/__main__.py",
    "share/cella/languages.toml",
)
# The runner's Python code is also the package's own, for the executor that runs code in the caller's process.
GUEST = "cella/_guest/cella_runner"
PROGRAMS = ("bin/cella", "libexec/cella/cella-launch")

# e_machine of the ELF header, and what the platform tags of wheels call it.
MACHINES = {62: "x86_64", 183: "aarch64"}


class NoPrograms(Exception):
    """The words tell the remedy."""


def machine_of(program: Path) -> str:
    """Not that of the building machine: the tree may come from another one."""
    with program.open("rb") as file:
        header = file.read(20)
    if header[:6] != b"\x7fELF\x02\x01":
        raise NoPrograms(f"{program} is no 64-bit Linux program: `make build` makes one")
    machine = int.from_bytes(header[18:20], "little")
    if machine not in MACHINES:
        raise NoPrograms(f"{program} is for a machine (ELF number {machine}) that Cella has no wheels for")
    return MACHINES[machine]


def check_tree(prefix: Path) -> None:
    for name in NEEDED:
        if not (prefix / name).is_file():
            raise NoPrograms(f"{prefix} is no install tree of Cella: it has no {name} (see `make install`)")
    for name in PROGRAMS:
        if not os.access(prefix / name, os.X_OK):
            raise NoPrograms(f"{prefix / name} is not executable: install it anew")


def files_of(prefix: Path) -> dict[str, str]:
    """Each file to carry, and its place in the wheel. Bytecode is left out: pip makes that of the right Python."""
    found = {}
    for part in CARRIED:
        for directory, names, files in os.walk(prefix / part):
            names[:] = [name for name in names if name != "__pycache__"]
            for name in files:
                path = Path(directory, name)
                found[str(path)] = f"cella/_bin/{path.relative_to(prefix).as_posix()}"
    return found


def guest_of(root: Path) -> dict[str, str]:
    """The runner's files and their places. An unpacked source distribution has them in place already."""
    source = root.parents[1] / "runners" / "python" / "cella_runner"
    if (root / "src" / GUEST).is_dir():
        return {}
    if not (source / "cell.py").is_file():
        raise NoPrograms(f"{source} is not there: build from a checkout, or from a source distribution")
    return {str(path): f"{GUEST}/{path.name}" for path in sorted(source.glob("*.py"))}


def install(build: Path, prefix: Path) -> None:
    """Stages the release build, stripped."""
    # The only component is named so that its manifest does not replace that of the last `make install`, which
    # `make uninstall` reads.
    command = ["cmake", "--install", str(build), "--prefix", str(prefix), "--component", "Unspecified", "--strip"]
    environment = {name: value for name, value in os.environ.items() if name != "DESTDIR"}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NoPrograms(f"cmake, which installs {build}, cannot be started: {error.strerror}") from None
    if done.returncode != 0:
        raise NoPrograms(f"{build} cannot be installed: run `make build` first\n{done.stderr.strip()}")


class ProgramsBuildHook(BuildHookInterface[Any]):
    """Sets the tag too: a wheel with programs is for one kind of machine, and for every Python 3."""

    _staged: Optional[str] = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or version == "editable":  # an editable package is imported from src, as it is
            return
        try:
            build_data["force_include"].update(guest_of(Path(self.root).resolve()))
            prefix = self._find_prefix()
            if prefix is None:
                return
            check_tree(prefix)
            machine = machine_of(prefix / "bin/cella")
        except NoPrograms as error:
            self._remove_staged()
            raise SystemExit(f"cella: {error}") from None
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-linux_{machine}"
        build_data["force_include"].update(files_of(prefix))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self._remove_staged()

    def _find_prefix(self) -> Optional[Path]:
        named = os.environ.get("CELLA_WHEEL_PREFIX")
        if named == "none":
            return None
        if named:
            return Path(named).resolve()
        repository = Path(self.root).resolve().parents[1]
        build = repository / "build" / "release"
        # Elsewhere, as in an unpacked source distribution, two directories up may be anything.
        if not (repository / "cmake" / "Install.cmake").is_file() or not (build / "bin" / "cella").is_file():
            self.app.display_warning(
                "no programs are carried: run `make build` in a checkout first, put cella on PATH, or set CELLA_BIN"
            )
            return None
        self._staged = tempfile.mkdtemp(prefix="cella-wheel-")
        install(build, Path(self._staged))
        return Path(self._staged)

    def _remove_staged(self) -> None:
        if self._staged:
            shutil.rmtree(self._staged)
            self._staged = None
