#!/usr/bin/env python3
"""Builds the wheel that carries the programs, and checks that it runs wherever its tag says.

    make_wheel.py [--prefix DIR] [--tools DIR] TARGET

The programs are those of the release build, or of the install tree DIR. What builds and checks the wheel is installed
into an environment of its own, build/wheel-tools or --tools, and used again as long as nothing else is asked for.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

PROJECT = pathlib.Path(__file__).resolve().parents[1]
REPOSITORY = PROJECT.parents[1]
TOOLS = PROJECT / "tools"
BUILD = REPOSITORY / "build" / "release"

# Debian 12, Ubuntu 22.04, RHEL 9, Amazon Linux 2023 and all that is newer.
FLOOR = (2, 34)


class Failure(Exception):
    """The words tell the remedy."""


def say(words):
    print(f"== {words}", file=sys.stderr, flush=True)


def run(command, what, **options):
    """What a command says is shown only if it fails."""
    done = subprocess.run(
        list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False, **options,
    )
    if done.returncode != 0:
        raise Failure(f"{what} failed:\n{done.stdout.strip()}")


def ready_tools(directory):
    """The environment with the requirements in it. Their text, written last, is the sign that all are there."""
    wanted = (TOOLS / "wheel_requirements.txt").read_text()
    sign = directory / "requirements.txt"
    if not sign.exists() or sign.read_text() != wanted:
        say(f"installing the tools that make wheels into {directory} (first run only)")
        shutil.rmtree(directory, ignore_errors=True)
        directory.parent.mkdir(parents=True, exist_ok=True)
        run([sys.executable, "-m", "venv", directory], "making an environment (is python3-venv installed?)")
        pip = [directory / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        run([*pip, "-r", TOOLS / "wheel_requirements.txt"], "installing the tools")
        sign.write_text(wanted)
    return directory / "bin"


def build_wheel(tools, prefix, directory):
    if prefix is None and not (BUILD / "bin" / "cella").is_file():
        raise Failure(f"{BUILD} has no programs: run `make build` first, or name an install tree with --prefix")
    environment = dict(os.environ)
    environment.pop("CELLA_WHEEL_PREFIX", None)
    if prefix is not None:
        environment["CELLA_WHEEL_PREFIX"] = str(prefix.resolve())
    command = [tools / "python", "-m", "hatchling", "build", "-t", "wheel", "-d", directory]
    run(command, "building the wheel", cwd=PROJECT, env=environment)
    return next(directory.glob("cella-*.whl"))


def tag_wheel(tools, wheel, directory):
    """Names the floor in the tag. auditwheel does so only after a look of its own at every program."""
    machine = wheel.stem.rpartition("-linux_")[2]
    platform = f"manylinux_{FLOOR[0]}_{FLOOR[1]}_{machine}"
    environment = {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ.get('PATH', os.defpath)}",  # patchelf is there
        # As hatchling: the same programs make the same wheel, to the byte.
        "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", "1580601600"),
    }
    command = [tools / "auditwheel", "repair", "--plat", platform, "--only-plat", "-w", directory, wheel]
    run(command, f"auditwheel, asked for the tag {platform},", env=environment)
    return next(directory.glob(f"cella-*-{platform}.whl"))


def make_wheel(prefix, tools_directory, target):
    tools = ready_tools(tools_directory)
    with tempfile.TemporaryDirectory(prefix="cella-wheel-") as name:
        scratch = pathlib.Path(name)
        say("building the wheel")
        wheel = build_wheel(tools, prefix, scratch / "built")
        floor = ".".join(map(str, FLOOR))
        run([tools / "python", TOOLS / "check_floor.py", "--floor", floor, wheel], f"the check for glibc {floor}")
        tagged = tag_wheel(tools, wheel, scratch / "tagged")
        target.mkdir(parents=True, exist_ok=True)
        made = target / tagged.name
        # Another may be reading the one from before: it is replaced at once, not written over.
        shutil.copyfile(tagged, target / f".{tagged.name}")
        os.replace(target / f".{tagged.name}", made)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prefix", type=pathlib.Path, help="an install tree to take the programs from")
    parser.add_argument("--tools", type=pathlib.Path, default=REPOSITORY / "build" / "wheel-tools")
    parser.add_argument("target", type=pathlib.Path, help="the directory that the wheel is written to")
    options = parser.parse_args()
    try:
        print(make_wheel(options.prefix, options.tools, options.target))
    except Failure as failure:
        print(f"make_wheel: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
