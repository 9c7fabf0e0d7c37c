"""`make` before anything is built: what it would install, what it asks, and what it says where it cannot go on."""

import os
import pty
import shutil
import subprocess

import pytest
from support.cella import REPOSITORY

BOUND = 30.0


@pytest.fixture
def machine(tmp_path):
    """A PATH with the shell's tools and programs of our choice, and nothing else; they log how they are called."""
    place = tmp_path / "bin"
    place.mkdir()
    for name in ("bash", "dirname", "env", "sed", "grep", "mktemp", "rm", "tail", "nproc", "sleep", "mkdir", "cat"):
        for folder in ("/usr/bin", "/bin"):
            if os.path.exists(f"{folder}/{name}") and not (place / name).exists():
                (place / name).symlink_to(f"{folder}/{name}")
    log = tmp_path / "calls"
    log.touch()

    def add(name, script="exit 0"):
        (place / name).write_text(f"#!/bin/bash\nbuiltin echo {name} \"$@\" >>{log}\n{script}\n")
        (place / name).chmod(0o755)

    add("uname", "echo Linux")
    add.place, add.log = place, log
    return add


def call(machine, *words, **env):
    return subprocess.run(words, cwd=REPOSITORY, env={"PATH": str(machine.place), **env}, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=BOUND)


def debian(machine):
    """Every package is missing, and apt would replace Boost's headers."""
    machine("dpkg-query")
    machine("apt-cache", "echo '  Candidate: 1.0'")
    machine("apt-get", "[[ $* == *' -s '* ]] && echo 'Remv libboost1.74-dev [1.74]'; exit 0")
    machine("sudo", '[[ $1 == true ]] || exec "$@"')


def on_terminal(machine, answers):
    """What it prints on a terminal where these answers are typed, and its exit status."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(REPOSITORY)
        os.execve("/bin/bash", ["bash", "tools/setup.sh", "build"], {"PATH": str(machine.place)})
    printed = b""
    os.write(terminal, answers.encode())
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # the end of a terminal
            break
        if not part:
            break
        printed += part
    return printed.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def installs(machine):
    lines = machine.log.read_text().splitlines()
    return [line for line in lines if line.startswith("apt-get") and " install " in line and " -s " not in line]


def test_other_systems_are_told_what_to_use(machine):
    machine("uname", "echo Darwin")
    told = call(machine, "bash", "tools/setup.sh", "build")
    assert told.returncode == 1 and "virtual machine" in told.stderr and "Session(url=" in told.stderr, told
    # From make too, and without complaints about what such a system lacks.
    (machine.place / "nproc").unlink()
    (machine.place / "make").symlink_to(shutil.which("make"))
    told = call(machine, "make", "build")
    assert told.returncode == 2 and "virtual machine" in told.stderr and "not found" not in told.stderr, told


def test_system_without_apt_is_told_what_is_needed(machine):
    told = call(machine, "bash", "tools/setup.sh", "build")
    assert told.returncode == 0 and "cmake" in told.stderr and "install these" in told.stderr, told


def test_refusal_on_a_terminal_changes_nothing(machine):
    debian(machine)
    printed, status = on_terminal(machine, "n\n")
    assert status == 1 and "[Y/n]" in printed and "Nothing was changed" in printed, printed
    assert installs(machine) == []


def test_replaced_packages_are_named_before_they_go(machine):
    debian(machine)
    # As an ordinary user there is a question before sudo.
    printed, status = on_terminal(machine, "n\n" if os.geteuid() == 0 else "y\nn\n")
    assert status == 1 and "libboost1.74-dev" in printed, printed
    assert installs(machine) == []
    printed, status = on_terminal(machine, "y\ny\n")
    assert status == 0 and len(installs(machine)) == 1, printed


def test_missing_build_tools_are_named(machine):
    told = call(machine, "bash", "tools/build.sh", "release", "programs")
    assert told.returncode == 1 and "cmake" in told.stderr and "tools/setup.sh build" in told.stderr, told
    machine("cmake", "echo cmake version 3.22.1")
    machine("ninja")
    told = call(machine, "bash", "tools/build.sh", "release", "programs")
    assert told.returncode == 1 and "cmake 3.22 is too old" in told.stderr, told
    machine("cmake", "echo cmake version 3.31.2")
    told = call(machine, "bash", "tools/build.sh", "release", "programs", CXX="no-such-compiler")
    assert told.returncode == 1 and "no-such-compiler" in told.stderr and "CXX=" in told.stderr, told
