"""--executor container, one-shot: what runs, what it is limited to, and that nothing of it stays."""

import os
import resource
import signal
import socket

import pytest
from support.engine import OWNER, Engine
from support.running import wait_until

pytestmark = [pytest.mark.needs("docker"), pytest.mark.as_user]


CAPABILITIES = """
status = dict(line.split(':\\t') for line in open('/proc/self/status').read().splitlines() if ':\\t' in line)
print(int(status['CapEff'], 16), int(status['CapBnd'], 16), status['NoNewPrivs'])
"""


@pytest.fixture(scope="module")
def engine():
    return Engine()


@pytest.fixture
def contain(run, engine):
    """Runs code in a container of the test image; no container of ours may stay."""
    before = {one["Id"] for one in engine.containers()}

    def start(code, *flags, language="python", **options):
        options.setdefault("with_env", {"DOCKER_HOST": engine.host})
        words = ["-c", code, "--executor", "container", "--image", engine.image, "--lang", language, *flags]
        return run.json(*words, **options)

    yield start

    def left():
        return {one["Id"] for one in engine.containers()} - before

    # The engine's list may name a container for a moment after the engine has said that it is gone.
    assert wait_until(lambda: not left()), f"containers stay: {left()}"


@pytest.fixture
def start_contained(run, engine):
    def start(code, *flags):
        words = ["-c", code, "--executor", "container", "--image", engine.image, *flags]
        return run.started(*words, with_env={"DOCKER_HOST": engine.host})

    return start


def test_program_runs_with_arguments_input_and_both_streams(contain):
    code = "import sys; print(sys.argv[1:], input()); print('problem', file=sys.stderr); sys.exit(3)"
    result = contain(code, "--", "a", "b c", input=b"a line\n")
    assert (result["status"], result["exit_code"]) == ("error", 3), result
    assert result["stdout"] == "['a', 'b c'] a line\n"
    assert result["stderr"] == "problem\n"
    isolation = result["isolation"]
    assert isolation["executor"] == "container" and isolation["network"] == "none" and isolation["seccomp"] is True
    assert isolation["limits"]["memory"]["by"] == "cgroup" and isolation["limits"]["disk"]["by"] == "tmpfs"


def test_program_and_its_children_have_the_names_of_a_storage(contain, tmp_path):
    data = tmp_path / "data"
    child = "print(artifacts.load('large') == bytes(1 << 20))"
    code = (
        "import subprocess, sys\nartifacts.save('large', bytes(1 << 20))\n"
        f"print(subprocess.check_output([sys.executable, '-c', {child!r}], text=True), end='')"
    )
    result = contain(code, "--storage", data)
    assert result["stdout"] == "True\n", result
    assert (data / "artifacts/large").read_bytes() == bytes(1 << 20)


def test_large_output_arrives_whole_and_in_order(contain):
    code = "import sys\nfor i in range(200000): print(i)\nsys.stderr.write('e' * 3000000)"
    result = contain(code, "--output-limit", "8m")
    assert result["status"] == "ok", result["error"]
    assert result["stdout"] == "".join(f"{i}\n" for i in range(200000))
    assert result["stderr"] == "e" * 3000000


def test_files_go_in_and_out(contain, tmp_path):
    source = tmp_path / "data.bin"
    source.write_bytes(bytes(range(256)) * 4000)
    out = tmp_path / "out"
    code = "data = open('data.bin', 'rb').read(); open('copy.bin', 'wb').write(data[::-1]); print(len(data))"
    result = contain(code, "--file", source, "--out", out)
    assert result["stdout"] == "1024000\n", result
    assert [file["path"] for file in result["files"]] == ["copy.bin"]
    assert (out / "copy.bin").read_bytes() == source.read_bytes()[::-1]


def test_other_languages_use_the_tools_of_the_image(contain):
    assert contain("echo $((6 * 7))", language="bash")["stdout"] == "42\n"
    result = contain("console.log(1)", language="javascript")
    assert (result["status"], result["exit_code"]) == ("rejected", 127), result


def test_guest_has_no_rights_no_network_and_a_read_only_root(contain):
    code = """
import os, socket
status = dict(line.split(':\\t') for line in open('/proc/self/status').read().splitlines() if ':\\t' in line)
print(int(status['CapEff'], 16), int(status['CapBnd'], 16), status['NoNewPrivs'], status['Seccomp'])
print(os.getuid() != 0, sorted(os.listdir('/sys/class/net')))
try:
    open('/etc/x', 'w')
except OSError as error:
    print(error.strerror)
try:
    socket.create_connection(('192.0.2.1', 80), 2)
except OSError as error:
    print(error.strerror)
print(sorted(name for name in os.environ if 'DOCKER' in name or 'TOKEN' in name.upper()))
"""
    result = contain(code)
    assert result["stdout"].splitlines() == [
        "0 0 1 2", "True ['lo']", "Read-only file system", "Network is unreachable", "[]"
    ], result


def test_guest_reaches_no_device_of_the_machine(contain, engine):
    """A container with the rights for it shows first that the same code would."""
    code = """
import ctypes, os, stat
def outcome(work):
    try:
        work()
        return 'done'
    except OSError as error:
        return error.strerror
def mount():
    if ctypes.CDLL(None, use_errno=True).mount(b'proc', b'/mnt', b'proc', 0, None) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
print(outcome(lambda: os.mknod('/tmp/device', 0o600 | stat.S_IFBLK, os.makedev(8, 0))))
print(outcome(mount))
print([name for name in ('mem', 'kmsg', 'fuse', 'loop-control') if os.path.exists('/dev/' + name)] != [])
print([name for name in os.listdir('/dev') if stat.S_ISBLK(os.lstat('/dev/' + name).st_mode)] != [])
"""
    rights = {"CapAdd": ["MKNOD", "SYS_ADMIN"], "SecurityOpt": ["seccomp=unconfined"]}
    rights["Devices"] = [{"PathOnHost": "/dev/null", "PathInContainer": "/dev/kmsg", "CgroupPermissions": "rwm"}]
    capable = engine.make(["/usr/bin/python3", "-c", code], {"someone": "else"}, **rights)
    try:
        assert wait_until(lambda: not engine.inspect(capable)["State"]["Running"])
        assert engine.logs(capable).splitlines() == ["done", "done", "True", "False"], engine.logs(capable)
    finally:
        engine.remove(capable)
    refused = "Operation not permitted"
    assert contain(code)["stdout"].splitlines() == [refused, refused, "False", "False"]


def test_memory_limit_ends_the_program(contain):
    result = contain("x = bytearray(10**9); print('never')", "--memory", "64m")
    assert (result["status"], result["exit_code"], result["stdout"]) == ("oom", 137, ""), result


def test_memory_in_files_counts(contain):
    code = "f = open('/tmp/big', 'wb')\nfor _ in range(300): f.write(b'x' * 2**20)\nprint('never')"
    result = contain(code, "--memory", "64m", "--disk", "1g")
    # The files stay when the program was killed, so that the agent may be next: then the whole container is gone.
    assert result["status"] in ("oom", "crashed", "error") and result["stdout"] == "", result


def test_process_limit_holds_against_a_fork_bomb(contain):
    code = """
import os, time
pids = []
try:
    for _ in range(1000):
        pid = os.fork()
        if pid == 0:
            time.sleep(60)
        pids.append(pid)
except OSError as error:
    print(error.strerror, 10 <= len(pids) <= 30)
"""
    result = contain(code, "--pids", "20")
    assert result["stdout"] == "Resource temporarily unavailable True\n", result
    assert result["usage"]["wall_ms"] < 20_000


def test_disk_limit_holds_in_the_workspace_and_in_tmp(contain):
    code = """
for path in ('/workspace/f', '/tmp/f'):
    try:
        with open(path, 'wb') as f:
            for _ in range(20): f.write(b'x' * 2**20); f.flush()
        print('never')
    except OSError as error:
        print(error.strerror)
"""
    result = contain(code, "--disk", "8m")
    assert set(result["stdout"].splitlines()) <= {"No space left on device", "File too large"}, result


def test_open_files_limit_holds(contain):
    code = "import os\nfds = []\ntry:\n    while True: fds.append(os.dup(0))\nexcept OSError as e: print(len(fds) < 64, e.strerror)"
    assert contain(code, "--open-files", "64")["stdout"] == "True Too many open files\n"


def test_cpu_time_limit_holds(contain):
    result = contain("while True: pass", "--cpu-time", "1s", "--timeout", "30s")
    assert result["status"] == "limit", result


def test_inspect_shows_every_limit(engine, start_contained):
    limits = ("--memory", "96m", "--cpus", "0.5", "--pids", "33", "--disk", "48m")
    flags = (*limits, "--container-name", f"cella-test-{os.getpid()}")
    with start_contained("import time; print('on', flush=True); time.sleep(60)", *flags) as process:
        process.wait_for(b"on")
        found = engine.inspect(f"cella-test-{os.getpid()}")
        process.send(signal.SIGTERM)
        process.finish()
    host = found["HostConfig"]
    assert host["Memory"] == host["MemorySwap"] == 96 << 20
    assert host["NanoCpus"] == 500_000_000
    assert 33 <= host["PidsLimit"] <= 43
    assert host["ReadonlyRootfs"] is True and host["NetworkMode"] == "none" and host["AutoRemove"] is True
    assert host["CapDrop"] == ["ALL"] and host["SecurityOpt"] == ["no-new-privileges"] and not host["Privileged"]
    assert host["LogConfig"]["Type"] == "none" and not host["Binds"]
    assert set(host["Tmpfs"]) == {"/workspace", "/tmp"}
    for options in host["Tmpfs"].values():
        assert {"nosuid", "nodev", f"size={48 << 20}"} <= set(options.split(",")), options
    assert [mount["RW"] for mount in found["Mounts"]] == [False]
    assert OWNER in found["Config"]["Labels"]
    assert not engine.exists(found["Id"])


def test_inspect_shows_the_defaults(engine, start_contained):
    name = f"cella-test-defaults-{os.getpid()}"
    with start_contained("import time; print('on', flush=True); time.sleep(60)", "--container-name", name) as process:
        process.wait_for(b"on")
        found = engine.inspect(name)
        process.send(signal.SIGTERM)
        process.finish()
    host, config = found["HostConfig"], found["Config"]
    assert host["Memory"] == host["MemorySwap"] == 1 << 30 and host["NanoCpus"] == 0
    assert 128 <= host["PidsLimit"] <= 138 and host["ShmSize"] == 64 << 20
    assert all(f"size={1 << 30}" in options.split(",") for options in host["Tmpfs"].values()), host["Tmpfs"]
    ulimits = {one["Name"]: (one["Soft"], one["Hard"]) for one in host["Ulimits"]}
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert ulimits["core"] == (0, 0) and ulimits["nofile"] == (most, most), ulimits
    # A number of processes counts the user on the whole machine, so it is never that of --pids.
    most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    assert ulimits.get("nproc", (most, most)) == (most, most)
    assert not host["CapAdd"] and not host["Devices"] and not host["DeviceRequests"] and not host["ExtraHosts"]
    assert host["IpcMode"] != "host" and host["PidMode"] == "" and host["UTSMode"] == "" and not host["PortBindings"]
    assert not any("DOCKER" in each or "TOKEN" in each.upper() for each in config["Env"] or [])
    assert config["User"].split(":")[0] != "0"


def test_timeout_kills_code_that_ignores_signals_and_keeps_its_output(contain):
    code = """
import signal, time
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
print('before', flush=True)
time.sleep(60)
"""
    result = contain(code, "--timeout", "1s")
    assert (result["status"], result["exit_code"], result["stdout"]) == ("timeout", 124, "before\n"), result


def test_cancel_ends_background_processes_too(engine, start_contained):
    before = len(engine.containers())
    code = "import os, time; os.fork() or os.setsid(); print('on', flush=True); time.sleep(600)"
    with start_contained(code) as process:
        process.wait_for(b"on")
        process.send(signal.SIGINT)
        assert process.finish().exit_code == 125
    assert len(engine.containers()) == before


def test_killed_supervisor_leaves_no_container(engine, start_contained):
    name = f"cella-test-killed-{os.getpid()}"
    with start_contained("import time; print('on', flush=True); time.sleep(600)", "--container-name", name) as process:
        process.wait_for(b"on")
        container = engine.inspect(name)["Id"]
        process.send(signal.SIGKILL)
        process.finish()
    assert wait_until(lambda: not engine.exists(container), 20)


def test_agent_cannot_be_read_or_traced_from_inside(contain, engine):
    # The same reads succeed on a process of the guest's own, so that they are no fault of the image.
    code = """
import os, subprocess, sys, time
def reads(pid):
    answers = []
    for name in ('environ', 'mem', 'fd', 'maps'):
        path = f'/proc/{pid}/{name}'
        try:
            os.listdir(path) if name == 'fd' else open(path, 'rb').close()
            answers.append('read')
        except PermissionError:
            answers.append('refused')
    return answers
child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)
print(reads(child.pid), reads(1))
print(open('/proc/1/cmdline', 'rb').read().split(b'\\0')[:2])
child.kill()
os.kill(1, 9)
time.sleep(0.1)
print('alive')
"""
    lines = contain(code)["stdout"].splitlines()
    own, agent = lines[0].split("] [")
    assert "refused" not in own, lines
    assert "read" not in agent.replace("refused", ""), lines
    assert set(lines[1].split("--auth=")[1].rstrip("']")) == {"*"}, lines
    assert lines[2] == "alive"


def test_orphans_of_dead_owners_are_removed_and_no_others(contain, engine):
    boot = open("/proc/sys/kernel/random/boot_id").read().strip()
    space = os.stat("/proc/self/ns/pid").st_ino
    start = open(f"/proc/{os.getpid()}/stat").read().rsplit(")", 1)[1].split()[19]
    sleep = ["/bin/sleep", "600"]
    labels = {
        "dead": {OWNER: f"{boot}.{space}.{os.getpid()}.{int(start) - 1}"},
        "living": {OWNER: f"{boot}.{space}.{os.getpid()}.{start}"},
        "another machine's": {OWNER: f"00000000-0000-0000-0000-000000000000.{space}.{os.getpid()}.1"},
        "kept": {OWNER: f"{boot}.{space}.{os.getpid()}.1", "cella.kept": "1"},
        "foreign": {"someone": "else"},
    }
    made = {}
    try:
        for name, label in labels.items():
            made[name] = engine.make(sleep, label)
        assert contain("print(1)")["stdout"] == "1\n"
        assert {name for name, container in made.items() if not engine.exists(container)} == {"dead"}
    finally:
        for container in made.values():
            engine.remove(container)


def test_missing_image_interpreter_and_engine_are_explained(run, engine):
    host = {"DOCKER_HOST": engine.host}
    words = ["-c", "print(1)", "--executor", "container"]
    message = run.rejected(*words, "--image", "cella-test/none:9", "--pull", "never", code=127, with_env=host)
    assert "cella-test/none:9" in message
    message = run.rejected(*words, "--engine", "unix:///nonexistent.sock", code=127)
    assert "unix:/nonexistent.sock" in message and "start Docker or Podman" in message
    message = run.rejected(*words, "--engine", "ssh://host", code=126)
    assert "unix:///PATH" in message


def test_engine_that_this_user_may_not_use_is_explained(run, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("nothing is forbidden to root; test_container.py runs as an ordinary user as well")
    place = tmp_path / "engine.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen()
        place.chmod(0)
        words = ["-c", "print(1)", "--executor", "container", "--engine", f"unix://{place}"]
        message = run.rejected(*words)
    assert "no permission" in message and "group" in message and str(place) in message


def test_options_without_meaning_are_refused(run, engine, tmp_path):
    host = {"DOCKER_HOST": engine.host}
    words = ["-c", "print(1)", "--executor", "container", "--image", engine.image]
    assert "--network host" in run.rejected(*words, "--network", "host", with_env=host)
    assert "--rootfs" in run.rejected(*words, "--rootfs", "/", with_env=host)
    assert "'disk'" in run.rejected(*words, "--workdir", tmp_path, "--disk", "1m", with_env=host)
    assert "fresh" in run.rejected(*words, "--fresh", "run", "--no-auto-remove", with_env=host)
    assert "--executor container" in run.rejected("-c", "1", "--image", "x")


def test_workdir_is_the_workspace_and_its_files_belong_to_the_caller(contain, tmp_path):
    (tmp_path / "given").write_text("text")
    result = contain("print(open('given').read()); open('made', 'w').write('x')", "--workdir", tmp_path)
    assert result["stdout"] == "text\n", result
    assert (tmp_path / "made").stat().st_uid == os.getuid()


@pytest.mark.skipif(os.geteuid() != 0, reason="makes directories of another user")
@pytest.mark.parametrize("uid", [0, 23456])
@pytest.mark.parametrize("option", ["--workdir", "--mount"])
def test_code_that_root_starts_has_the_id_of_the_owner_of_what_it_writes_to(contain, tmp_path, option, uid):
    """Of root's directory uid 0 without rights, of another user's that user: what it makes belongs to the owner."""
    given = tmp_path / "given"
    given.mkdir(mode=0o755)
    os.chown(given, uid, uid)
    value, inside = (given, "/workspace") if option == "--workdir" else (f"{given}:/data:rw", "/data")
    code = f"import os; open('{inside}/made', 'w').write('x'); print(os.getuid(), os.getgid())"
    result = contain(code + "\n" + CAPABILITIES, option, value)
    assert result["stdout"].splitlines() == [f"{uid} {uid}", "0 0 1"], result
    made = (given / "made").stat()
    assert (made.st_uid, made.st_gid) == (uid, uid)
    # What the code may only read decides nothing.
    assert contain("import os; print(os.getuid())", "--mount", f"{given}:/data")["stdout"] not in ("0\n", f"{uid}\n")


def test_read_only_mount_is_read_only(contain, tmp_path):
    (tmp_path / "f").write_text("text")
    tmp_path.chmod(0o755)
    code = "print(open('/given/f').read())\ntry: open('/given/g', 'w')\nexcept OSError as e: print(e.strerror)"
    result = contain(code, "--mount", f"{tmp_path}:/given")
    assert result["stdout"] == "text\nRead-only file system\n", result


def make_outer(cella, engine, place, script):
    """A container with the engine's socket, in which `script` finds Cella at `place` and a command that runs code."""
    mounts = [
        {"Type": "bind", "Source": str(cella.binary.parent.parent), "Target": str(place), "ReadOnly": True},
        {"Type": "bind", "Source": engine.host.removeprefix("unix://"), "Target": "/run/engine.sock"},
    ]
    run = f"{place}/bin/cella run --executor container --image {engine.image} --engine unix:///run/engine.sock"
    return engine.make(["/bin/sh", "-c", script.format(run=run)], {"someone": "else"}, Mounts=mounts)


def test_docker_out_of_docker(cella, engine):
    """The engine sees neither the programs of the Cella inside nor its directories."""
    script = "mkdir /only-here; {run} -c 'print(6 * 7)'; {run} --workdir /only-here -c 1; sleep 600"
    outer = make_outer(cella, engine, "/opt/cella", script)
    try:
        assert wait_until(lambda: "bind_dir" in engine.logs(outer), 60), engine.logs(outer)
        assert "42\n" in engine.logs(outer)
        assert wait_until(lambda: not engine.containers(), 20), engine.containers()
    finally:
        engine.remove(outer)


@pytest.mark.parametrize("other", ["another build", "no agent"])
def test_programs_are_copied_where_the_engine_has_others_at_that_path(cella, engine, tmp_path, other):
    """The machine of the engine has another Cella where the one inside a container is."""
    runners = tmp_path / "bin" / "runners"
    runners.mkdir(parents=True)
    if other == "another build":
        agent = runners / "cella-agent"
        agent.write_text("#!/bin/sh\necho 'cella-agent: it was built with another version of cella' >&2\nexit 126\n")
        agent.chmod(0o755)
    outer = make_outer(cella, engine, tmp_path, "{run} --container-name cella-test-copied -c 'print(6 * 7)'")
    try:
        assert wait_until(lambda: not engine.inspect(outer)["State"]["Running"], 60), engine.logs(outer)
        assert engine.logs(outer) == "42\n"
        assert wait_until(lambda: not engine.containers(), 20), engine.containers()
    finally:
        engine.remove(outer)
