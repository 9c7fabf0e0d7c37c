"""What a forked guest is, compared with the guest of a single run; and what it can do to the session around it."""

import json
import os
import pathlib
import re
import secrets
import signal
import subprocess

import pytest
from support.cella import PYTHON, run_bounded
from support.repl import Gone, Repl
from support.running import wait_until
from support.session_tree import SessionTree
from support.victims import Scene

pytestmark = pytest.mark.as_user

IS_ROOT = os.geteuid() == 0
# Copies that a session may have beside the processes that it is allowed: named ones, the last one, one in the making.
CHECKPOINTS = 10


@pytest.fixture
def scene():
    with Scene() as scene:
        yield scene


def session(cella, scene, *flags, **options):
    return Repl(cella.binary, *flags, env=scene.env, **options)


# Who a process is, as far as it does not depend on how it was started.
IDENTITY = r"""
import json, os
def _identity():
    status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
    names = "Umask Uid Gid Groups CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp Seccomp_filters SigBlk".split()
    found = {name: status[name].split() for name in names}
    found["securebits"] = __import__("ctypes").CDLL(None).prctl(27, 0, 0, 0, 0)
    # What the interpreter itself holds is no part of a forked guest's limit, and a process that lasts for many runs
    # has no limit of time of its own.
    limits = open("/proc/self/limits").read().splitlines()[1:]
    names = ("Max data size", "Max cpu time", "Max processes")
    found["limits"] = [line for line in limits if not line.startswith(names)]
    found["processes"] = __import__("resource").getrlimit(6)[0]
    found["oom_score_adj"] = open("/proc/self/oom_score_adj").read()
    mounts = {}
    for line in open("/proc/self/mountinfo"):
        words = line.split()
        mounts[words[4]] = [words[5], words[words.index("-") + 1]]
    mounts.pop("/run/cella", None)
    mounts.pop("/run/cella-packages", None)
    found["mounts"] = mounts
    found["processor"] = sorted(os.sched_getaffinity(0))
    found["devices"] = sorted(os.listdir("/dev"))
    found["host"] = os.uname().nodename
    return json.dumps(found, sort_keys=True)
print(_identity())
"""


def test_forked_guest_is_confined_like_a_one_shot_run(cella, scene):
    source = scene.directory / "identity.py"
    source.write_text(IDENTITY)
    single = json.loads(cella.run_python(source, env=scene.env).result()["stdout"])
    with session(cella, scene) as repl:
        result = repl.run(IDENTITY)
        assert result["isolation"]["start"] == "fork"
        forked = json.loads(result["stdout"])
        # A checkpoint that goes on is a guest as well.
        repl.run("import os; os._exit(1)")
        promoted = repl.run(IDENTITY)
        assert promoted["state"] == "kept", promoted
        promoted = json.loads(promoted["stdout"])
    # A session shows the tools of all its languages.
    languages = set(forked["mounts"]) - set(single["mounts"])
    assert all(place.startswith(("/usr", "/etc", "/opt", "/home", "/root")) for place in languages), languages
    assert all(options.startswith("ro,nosuid,nodev") for options, _ in map(forked["mounts"].get, languages))
    for place in languages:
        del forked["mounts"][place], promoted["mounts"][place]
    allowed = single.pop("processes")
    filters = int(single.pop("Seccomp_filters")[0])
    for guest in (forked, promoted):
        # The zygote's, which it inherits, and its own.
        assert int(guest.pop("Seccomp_filters")[0]) == filters + 1
        assert 0 <= guest.pop("processes") - allowed <= CHECKPOINTS
        assert guest == single
    outside = run_bounded([PYTHON, source], env=scene.env)
    free = json.loads(outside.stdout)
    for name in ("Seccomp", "NoNewPrivs", "CapBnd", "limits", "mounts", "host", "oom_score_adj"):
        assert free[name] != forked[name], f"{name} says nothing: it is the same without a jail"


def test_no_process_of_a_session_has_rights_on_the_host(cella, scene):
    """From outside: maker and zygote are root only of a world of their own."""
    with session(cella, scene) as repl:
        repl.run("x = 1")
        tree = SessionTree(repl.pid)
        here = os.readlink("/proc/self/ns/user")
        for pid in (tree.maker, *tree.zygotes, *tree.inits, *tree.guests):
            status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
            assert "0" not in status["Uid"].split() + status["Gid"].split(), f"{tree.family.words[pid]} is root"
            assert status["NoNewPrivs"].split() == ["1"], tree.family.words[pid]
            if IS_ROOT:
                assert os.readlink(f"/proc/{pid}/ns/user") != here, tree.family.words[pid]
        # The observation can fail: cella itself is the caller.
        own = pathlib.Path(f"/proc/{repl.pid}/status").read_text()
        assert re.search(rf"^Uid:\t{os.getuid()}\t", own, re.MULTILINE) and "NoNewPrivs:\t0" in own


# With every capability in the jail's namespaces, as init has while it builds: makes mounts writable, and removes them.
UNLOCK = r"""
import ctypes, errno, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for fd in [os.open(f"/proc/{sys.argv[1]}/ns/{kind}", os.O_RDONLY) for kind in ("user", "mnt")]:
    if libc.setns(fd, 0) < 0:
        sys.exit(os.strerror(ctypes.get_errno()))
said = {}
MS_REMOUNT_BIND, MS_NOSUID, MS_NODEV = 32 | 4096, 2, 4
for at in sys.argv[2:]:
    place = at.encode()
    ok = libc.mount(None, place, None, MS_REMOUNT_BIND | MS_NOSUID | MS_NODEV, None) == 0
    write = "done" if ok else errno.errorcode[ctypes.get_errno()]
    ok = libc.umount2(place, 2) == 0
    said[at] = [write, "done" if ok else errno.errorcode[ctypes.get_errno()]]
print(json.dumps(said))
"""


def test_root_of_the_environment_cannot_change_the_mounts_of_a_session(cella, scene):
    shown, workdir = scene.directory / "shown", scene.directory / "workdir"
    shown.mkdir()
    workdir.mkdir()
    flags = ("--workdir", workdir, "--mount", f"{shown}:/data", "--mount", f"{shown}:/tmp/late")
    with session(cella, scene, *flags) as repl:
        repl.run("x = 1")
        init = SessionTree(repl.pid).inits[0]
        entered = run_bounded([PYTHON, "-c", UNLOCK, str(init), "/usr", "/data", "/tmp/late", "/workspace"])
    if not IS_ROOT:
        assert entered.exit_code != 0 and b"Permission denied" in entered.stderr, "nobody else gets that far"
        return
    locked = ["EPERM", "EINVAL"]
    # The attempts can succeed: on what is writable anyway, and where only the jail's own /tmp comes to light.
    assert json.loads(entered.stdout) == {
        "/usr": locked, "/data": locked, "/tmp/late": ["EPERM", "done"], "/workspace": ["done", "EINVAL"]
    }, entered.describe()


DESCRIPTORS = r"""
import os, re
def kind(fd):
    try:
        return re.sub(r":\[\d+\]$|[][]", "", os.readlink(f"/proc/self/fd/{fd}"))
    except OSError:
        return None
print(sorted(filter(None, map(kind, range(1024)))))
"""


def test_guest_has_only_the_descriptors_of_its_session(cella, scene):
    """/dev/null, the two pipes, the socket, and after a run its checkpoint's pidfd; no file, no namespace."""
    scene.leaked_descriptor()
    expected = {"/dev/null", "pipe", "socket", "anon_inode:pidfd"}
    control = run_bounded([PYTHON, "-c", DESCRIPTORS], env=scene.env, pass_fds=scene.pass_fds)
    assert not set(eval(control.text())) <= expected, "nothing was leaked: this proves nothing"
    request = b"".join(json.dumps({"code": DESCRIPTORS}).encode() + b"\n" for _ in range(3))
    argv = [str(cella.binary), "repl", "--json", "--python", PYTHON]
    finished = run_bounded(argv, env=scene.env, pass_fds=scene.pass_fds, input=request)
    for line in finished.text().splitlines():
        result = json.loads(line)["result"]
        assert set(eval(result["stdout"])) <= expected, result["stdout"]
        assert result["isolation"]["start"] == "fork"


# Words come in two halves, so that the search itself does not hold what it looks for.
SEARCH_MEMORY = """
def memory_holds(first, second):
    first, second = first.encode(), second.encode()
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            words = line.split()
            if words[1][0] != "r":
                continue
            begin, end = (int(word, 16) for word in words[0].split("-"))
            try:
                memory.seek(begin)
                content = memory.read(end - begin)
            except (OSError, OverflowError):
                continue  # pages of the kernel's
            at = content.find(first)
            while at >= 0:
                if content.startswith(second, at + len(first)):
                    return True
                at = content.find(first, at + 1)
    return False
"""


def test_inherited_memory_contains_nothing_of_the_caller(cella, scene):
    """Everything that the zygote ever had is in its copy: the caller's environment, paths and requests must not be."""
    secret, told, home = secrets.token_hex(16), secrets.token_hex(16), str(scene.home)
    scene.env["CELLA_TEST_SECRET"] = secret
    with session(cella, scene, "--env", f"TOLD={told}") as repl:
        repl.run(SEARCH_MEMORY)
        words = (secret, told, home)
        held = {word: repl.value(f"memory_holds({word[:7]!r}, {word[7:]!r})") for word in words}
    assert held[told] == "True", "a variable that the guest was given is not found: the search does not work"
    assert held[secret] == held[home] == "False", held


def test_zygote_does_not_use_the_variables_of_a_policy(cella, scene):
    """LD_PRELOAD and its like are for the guest; in a zygote they would run with rights over all its jails."""
    told = secrets.token_hex(16)
    with session(cella, scene, "--env", f"TOLD={told}") as repl:
        assert repl.value("import os; os.environ['TOLD']") == repr(told)
        zygote = SessionTree(repl.pid).zygotes[0]
        environment = pathlib.Path(f"/proc/{zygote}/environ").read_bytes()
        assert b"PATH=" in environment, "the zygote's environment cannot be read: this proves nothing"
        assert told.encode() not in environment


def make_venv(directory):
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", directory], check=True)
    return directory


@pytest.mark.parametrize("how", ["workdir", "mount", "parent"])
def test_files_writable_by_guests_are_never_imported_by_the_zygote(cella, scene, how):
    """An environment in a directory that guests write to is used inside the jail, and no zygote is made of it."""
    project = scene.directory / "project"
    project.mkdir()
    scene.directory.chmod(0o755)
    venv = make_venv(project / "venv")
    flags = {
        "workdir": ("--workdir", project),
        "mount": ("--mount", f"{venv}:{venv}:rw"),
        "parent": ("--mount", f"{project}:/data:rw"),
    }[how]
    with session(cella, scene, "--venv", venv, python=None) as repl:
        assert repl.run("1")["isolation"]["start"] == "fork", "it is not forked anyway: this proves nothing"
    with session(cella, scene, "--venv", venv, *flags, python=None) as repl:
        result = repl.run("1")
        assert result["isolation"]["start"].startswith("exec: guests may write"), result["isolation"]


def test_pth_file_does_not_lead_the_zygote_to_files_writable_by_guests(cella, scene):
    """An editable install: the environment is not writable, but a .pth file in it names a directory that is."""
    project = scene.directory / "project"
    project.mkdir(mode=0o755)
    scene.directory.chmod(0o755)
    venv = make_venv(scene.directory / "venv")
    packages = next(venv.glob("lib/python3*/site-packages"))
    packages.joinpath("project.pth").write_text(f"{project}\n")
    # The zygote's user is root of the maker's namespace; a guest has the number 1000.
    project.joinpath("planted.py").write_text("import os\nwho = os.getuid()\n")

    def importer(mode, *preload):
        flags = ("--venv", venv, *preload, "--mount", f"{project}:{project}:{mode}")
        with session(cella, scene, *flags, python=None) as repl:
            return int(repl.value("import planted; planted.who"))

    preload = ("--preload", "planted")
    assert importer("ro", *preload) == 0, "the zygote does not import even a read-only file: proves nothing"
    # The zygote does not see it; the guest does.
    with pytest.raises(Gone, match="No module named 'planted'"):
        importer("rw", *preload)
    assert importer("rw") == 1000, "code that guests write ran in the zygote"


def test_runner_files_are_read_only(cella, scene):
    with session(cella, scene) as repl:
        attempt = "import os\ntry: os.close(os.open({!r}, os.O_CREAT | os.O_WRONLY)); r = 'written'\n" \
                  "except OSError as error: r = error.errno\nr"
        assert repl.value(attempt.format("/tmp/file")) == "'written'"
        for path in ("/run/cella/new", "/run/cella/python/cella_runner/__init__.py", "/run/cella/libcella_fork.so",
                     "/run/new", "/run/cella-packages/new", "/run/python/new", "/usr/lib/new", "/etc/ld.so.cache"):
            assert repl.value(attempt.format(path)) in ("13", "30"), path
        assert repl.value("sorted(os.listdir('/run'))") == "['cella', 'cella-packages', 'python']"


# Attacks on the session itself: it may lose its state, never its grip.

STUBBORN = {
    "stops itself": "import os\nos.kill(os.getpid(), 19)",
    "ignores the interrupt": "import signal, time\nsignal.signal(2, signal.SIG_IGN)\nwhile True: time.sleep(1)",
    "blocks all signals": "import signal\nsignal.pthread_sigmask(0, range(1, 65))\nwhile True: pass",
    "stopped by a child": "import os, time\nif os.fork() == 0:\n  while True: os.kill(os.getppid(), 19)\nos.wait()",
}


@pytest.mark.parametrize("code", STUBBORN.values(), ids=STUBBORN)
def test_run_that_ignores_interrupts_ends(cella, scene, code):
    with session(cella, scene, "--timeout", "300ms") as repl:
        repl.run("x = 1")
        result = repl.run(code)
        assert result["status"] == "timeout", result
        assert result["usage"]["wall_ms"] < 4000, result["usage"]
        assert repl.value("1 + 1", timeout="10s") == "2"


SUICIDES = {
    "its group": "import os\nos.kill(0, 9)",
    "everybody": "import os, time\nos.kill(-1, 9)\nos.kill(os.getpid(), 9)",
    "everybody, as a child": "import os, time\nif os.fork() == 0: os.kill(-1, 9)\ntime.sleep(5)",
    "its checkpoint": "import os\nos.kill(max(int(p) for p in os.listdir('/proc') if p.isdigit()), 9)\nos._exit(1)",
}


@pytest.mark.parametrize("code", SUICIDES.values(), ids=SUICIDES)
def test_killing_all_visible_processes_loses_only_the_guests_state(cella, scene, code):
    with session(cella, scene) as repl:
        repl.run("x = 1")
        before = SessionTree(repl.pid)
        result = repl.run(code)
        assert result["state"] in ("rolled_back", "lost"), result
        assert repl.value("1 + 1") == "2"
        after = SessionTree(repl.pid)
        assert (after.maker, after.zygotes, after.inits) == (before.maker, before.zygotes, before.inits)


SIBLINGS = """
import ctypes, os, time
CLONE_PARENT, SIGCHLD = 0x8000, 17
libc = ctypes.CDLL(None, use_errno=True)
clone = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
made = 0
while made < 200:
    pid = libc.syscall(clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        time.sleep(60)
        libc._exit(0)
    if pid < 0:
        break
    made += 1
made
"""


def test_processes_made_with_clone_parent_are_counted_and_ended(cella, scene):
    """With CLONE_PARENT a guest makes children of the zygote, outside of its own jail's tree."""
    with session(cella, scene, "--pids", "40", "--memory", "2g") as repl:
        made = repl.run(SIBLINGS)
        result = repl.run("1") if made["status"] != "ok" else made
        tree = SessionTree(repl.pid)
        assert len(tree.guests) <= 40 + CHECKPOINTS, f"{len(tree.guests)} processes where 40 are allowed: {result}"
        assert repl.ask(op="reset") == {"id": repl._last_id, "ok": True}
        assert repl.value("1 + 1") == "2"
        assert wait_until(lambda: len(SessionTree(repl.pid).guests) <= 2), "a reset left siblings of the runner alive"
    with session(cella, scene, "--pids", "400", "--memory", "4g") as repl:
        repl.run(SIBLINGS)
        assert len(SessionTree(repl.pid).guests) > 150, "no siblings are made: the limit above proves nothing"


def test_fork_bomb_ends_with_reset(cella, scene):
    bomb = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    try:
        if os.fork() == 0: os.setsid()
    except OSError:
        time.sleep(0.01)
"""
    with session(cella, scene, "--timeout", "1s", "--pids", "50") as repl:
        assert repl.run(bomb)["status"] in ("timeout", "limit", "error", "crashed")
        assert repl.ask(op="reset").get("ok")
        assert repl.value("1 + 1") == "2"
        assert wait_until(lambda: len(SessionTree(repl.pid).guests) <= 2)


def test_full_disk_affects_only_its_session(cella, scene):
    fill = """
import os
full = 0
for directory in ("/dev/shm", "/tmp", "/workspace"):
    try:
        with open(directory + "/fill", "wb", 0) as file:
            while True: file.write(bytes(1 << 20))
    except OSError as error:
        full += error.errno in (27, 28)
try:
    for number in range(1 << 20): open("/tmp/%d" % number, "w").close()
except OSError as error:
    full += error.errno in (27, 28)
full
"""
    with session(cella, scene, "--disk", "16m") as repl:
        assert repl.value(fill) == "4"
        assert repl.value("1 + 1") == "2"
        assert repl.value("sum(os.stat(p + '/fill').st_size for p in ('/dev/shm', '/tmp', '/workspace')) <= 16 << 20") \
            == "True"


def test_guest_cannot_raise_limits_or_lower_its_oom_score(cella, scene):
    """A guest may make itself no more valuable than its init when memory runs out, and lift no limit."""
    attempt = """
import os, resource
refused = 0
for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
    soft, hard = resource.getrlimit(which)
    try:
        resource.setrlimit(which, (hard + 1, hard + 1))
    except (ValueError, OSError):
        refused += 1
    refused += resource.getrlimit(which) == (soft, hard)
try:
    with open("/proc/self/oom_score_adj", "w") as score: score.write("-1")
except OSError:
    refused += 1
refused
"""
    with session(cella, scene) as repl:
        assert repl.value(attempt) in ("6", "7"), "of which RLIMIT_CORE may be answered with success and no effect"
        assert repl.value("int(open('/proc/self/oom_score_adj').read()) >= 0") == "True"
        assert repl.value("resource.setrlimit(resource.RLIMIT_NOFILE, (700, 700)); resource.getrlimit(7)") \
            == "(700, 700)", "not even a lower limit is taken"


def test_killed_caller_leaves_no_process(cella, scene):
    """Background processes and siblings of the runner go with cella, also when it is killed."""
    with session(cella, scene) as repl:
        repl.run("import os, time\nif os.fork() == 0:\n  os.setsid()\n  time.sleep(600)\n")
        family = repl.family()
        assert len(family.alive()) >= 6, "nothing was started"
        repl.process.send_signal(signal.SIGKILL)
        repl.process.wait()
        family.assert_gone()
