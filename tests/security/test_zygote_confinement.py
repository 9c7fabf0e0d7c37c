"""A zygote runs the packages of its environment before any guest exists. A hostile package gains nothing there: each
attack runs from a .pth file of an environment, when its zygote starts, and once outside of any jail."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from support.cella import PYTHON, run_bounded
from support.repl import Gone, Repl
from support.running import HAS_CGROUPS
from support.session_tree import SessionTree
from support.victims import Scene

pytestmark = pytest.mark.as_user

IS_ROOT = os.geteuid() == 0
CONTROL = pathlib.Path(__file__).parent.parent / "support" / "control.py"

# Notes for each attempt the errno, or "done".
ATTACK = r"""
import ctypes, errno, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
found = {}

def attempt(name, call):
    try:
        answer = call()
    except OSError as error:
        found[name] = errno.errorcode[error.errno]
    else:
        found[name] = "done" if answer is None or answer >= 0 else errno.errorcode[ctypes.get_errno()]

def with_child(call):
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(ready, 1)
        os._exit(0)
    try:
        return call(child)
    finally:
        os.write(tell, b"x")
        os.waitpid(child, 0)
        os.close(ready)
        os.close(tell)

PTRACE_SEIZE = 0x4206
attempt("mount", lambda: libc.mount(b"none", b"/tmp", b"tmpfs", 0, None))
attempt("remount", lambda: libc.mount(None, b"/usr", None, 32 | 4096, None))
attempt("unmount", lambda: libc.umount2(b"/tmp", 2))
attempt("new namespace", lambda: libc.unshare(0x04000000))
attempt("trace", lambda: with_child(lambda child: libc.ptrace(PTRACE_SEIZE, child, None, None)))
attempt("host name", lambda: libc.sethostname(b"mine", 4))
attempt("key ring", lambda: libc.syscall({"x86_64": 250, "aarch64": 219}[os.uname().machine], 1, None))
attempt("change root", lambda: os.chroot("/"))
attempt("netlink", lambda: libc.socket(16, 3, 0))
others = [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
found["other processes"] = "none" if not others else "done"
sys.found = found
"""

REFUSED = {
    "mount": {"EPERM"}, "remount": {"EPERM"}, "unmount": {"EPERM"}, "new namespace": {"EPERM"}, "trace": {"EPERM"},
    "host name": {"EPERM"}, "key ring": {"EPERM"}, "change root": {"EPERM"}, "netlink": {"EAFNOSUPPORT"},
    "other processes": {"none"},
}


@pytest.fixture
def scene():
    with Scene() as scene:
        scene.directory.chmod(0o755)
        yield scene


@pytest.fixture
def session(cella, scene):
    """Opens a session whose environment runs this code whenever its interpreter starts."""

    def start(code, *flags):
        venv = scene.directory / "venv"
        subprocess.run([PYTHON, "-m", "venv", "--without-pip", venv], check=True)
        packages = next(venv.glob("lib/python3*/site-packages"))
        packages.joinpath("hostile.py").write_text(code)
        packages.joinpath("hostile.pth").write_text("import hostile\n")
        return Repl(cella.binary, "--venv", venv, *flags, env=scene.env, python=None)

    return start


def outside(scene, code):
    """In namespaces of its own, with all capabilities there: what a zygote was before it was confined."""
    code += "\nimport json\nprint(json.dumps(found))\n"
    request = {"argv": [PYTHON, "-c", code], "scratch": str(scene.directory)}
    finished = run_bounded([sys.executable, "-I", "-S", str(CONTROL), json.dumps(request)], env=scene.env)
    assert finished.exit_code == 0, finished.describe()
    return json.loads(finished.stdout)


def test_package_in_a_zygote_has_no_rights_beyond_those_of_a_guest(scene, session):
    control = outside(scene, ATTACK)
    assert {name for name, answer in control.items() if answer != "done"} <= {"remount"}, control
    with session(ATTACK) as repl:
        assert repl.run("1")["isolation"]["start"] == "fork"
        found = json.loads(eval(repl.value("import json, sys; json.dumps(sys.found)")))
    assert {name: found[name] in REFUSED[name] for name in found} == dict.fromkeys(REFUSED, True), found


def status_of(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: words.strip() for name, words in (line.split(":", 1) for line in lines)}


def test_zygote_holds_no_capability_and_has_a_filter(scene, session):
    with session("") as repl:
        repl.run("1")
        tree = SessionTree(repl.pid)
        maker, zygote = status_of(tree.maker), status_of(tree.zygotes[0])
    sets = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
    assert int(maker["CapEff"], 16) != 0, "even the maker has none: this proves nothing"
    assert [int(zygote[name], 16) for name in sets] == [0] * 5
    assert (zygote["Seccomp"], zygote["NoNewPrivs"]) == ("2", "1")


@pytest.mark.skipif(not HAS_CGROUPS, reason="an ordinary user has no cgroups here")
def test_package_in_a_zygote_cannot_fork_without_bound(scene, session):
    bomb = ("import os, sys, time\nfound = 0\n"
            "for _ in range(400):\n"
            "    try:\n"
            "        if os.fork() == 0:\n            time.sleep(5); os._exit(0)\n"
            "        found += 1\n"
            "    except OSError:\n        break\n"
            "sys.found = found\n")
    assert outside(scene, bomb) == 400
    with session(bomb) as repl:
        try:
            assert int(repl.value("import sys; sys.found")) < 200
        except Gone as error:
            assert "Resource temporarily unavailable" in str(error), error


@pytest.mark.skipif(not HAS_CGROUPS, reason="an ordinary user has no cgroups here")
def test_zygote_is_in_a_group_with_a_limit_of_memory(scene, session):
    with session("") as repl:
        repl.run("1")
        group = pathlib.Path(f"/proc/{SessionTree(repl.pid).zygotes[0]}/cgroup").read_text()
        of_cella = pathlib.Path(f"/proc/{repl.pid}/cgroup").read_text()
    paths = dict(line.split(":", 2)[1:] for line in group.splitlines())
    own = dict(line.split(":", 2)[1:] for line in of_cella.splitlines())
    for controller in ("memory", "pids") if "memory" in paths else ("",):
        assert paths[controller] != own[controller], controller
