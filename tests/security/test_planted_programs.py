"""Interpreters and tools that a guest has planted: they are asked about themselves in a jail, never on the host.

Each test first starts the planted program by hand, and shows that it leaves its mark. Then cella meets it, by every
option, variable and file that may lead there: no mark.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import textwrap
import time

import pytest
from support.cella import PYTHON, run_bounded
from support.repl import Repl
from support.running import Run, wait_until

pytestmark = pytest.mark.as_user

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"


class Project:
    """A directory that a guest may write to, and a place beside it where planted programs leave their marks."""

    def __init__(self, root, cella):
        self.root = root
        self.home = root / "home"
        self.work = self.home / "project"
        self.work.mkdir(parents=True)
        self.mark = root / "mark"
        self.environment = {"PATH": SYSTEM_PATH, "HOME": str(self.home), "LANG": "C.UTF-8"}
        self.cella = cella
        self.run = Run(cella, self.environment)

    def plant(self, path, then='exec /usr/bin/python3 "$@"'):
        """A program that leaves a mark; `then` is how it goes on."""
        path = self.work / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\ntouch {self.mark} 2> /dev/null\n{then}\n")
        path.chmod(0o755)
        self.check_trap(path)
        return path

    def check_trap(self, *command, **options):
        subprocess.run([*map(str, command), "-c", "1"], env=self.environment, timeout=30, check=False, **options)
        assert self.mark.exists(), "the trap does nothing even outside"
        self.mark.unlink()

    def untouched(self, *what):
        assert not self.mark.exists(), what

    def surfaces(self, *flags, **env):
        """Every command that looks for a Python, with these flags (which doctor lacks) and variables."""
        environment = {**self.environment, **env}
        for more in ([], ["--workdir", "."]):
            for language, code in (("python", "print(1)"), ("bash", "python3 -c 'print(1)'")):
                yield self.run.json("--lang", language, "-c", code, *flags, *more, with_env=env, cwd=self.work)
                self.untouched("run", flags, env, more, language)
            # One that cannot begin ends by itself.
            with Repl(self.cella.binary, *flags, *more, env=environment, cwd=self.work, python=None) as repl:
                with contextlib.suppress(AssertionError):
                    repl.run("1")
                self.untouched("repl", flags, env, more)
                repl.release()
        if not flags:
            self.doctor(**env)

    def doctor(self, **env):
        self.cella("doctor", "--json", env={**self.environment, **env}, cwd=self.work, timeout=60)
        self.untouched("doctor", env)


@pytest.fixture
def project(cella):
    with tempfile.TemporaryDirectory(prefix="cella-planted-") as directory:
        yield Project(pathlib.Path(directory).resolve(), cella)


def take_over(project):
    """What a guest does to the environment of its workdir, as a guest."""
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", project.work / ".venv"], check=True)
    code = f"""
    import os
    os.remove(".venv/pyvenv.cfg")
    for name in ("python", "python3"):
        os.remove(".venv/bin/" + name)
        with open(".venv/bin/" + name, "w") as file:
            file.write("#!/bin/sh\\ntouch {project.mark} 2> /dev/null\\nexec /usr/bin/python3 \\"$@\\"\\n")
        os.chmod(".venv/bin/" + name, 0o755)
    """
    result = project.run.python(textwrap.dedent(code), "--workdir", ".", cwd=project.work)
    assert result["status"] == "ok", result
    venv = project.work / ".venv"
    project.check_trap(venv / "bin" / "python")
    return venv


def test_interpreter_of_a_taken_over_environment_is_not_started_on_the_host(project):
    venv = take_over(project)
    for _ in project.surfaces("--python", ".venv/bin/python"):
        pass
    for _ in project.surfaces("--python", venv):
        pass
    for _ in project.surfaces(PATH=f"{venv}/bin:{SYSTEM_PATH}"):
        pass
    for _ in project.surfaces(PATH=f"{venv}/bin:{SYSTEM_PATH}", VIRTUAL_ENV=str(venv)):
        pass


def test_planted_interpreter_still_runs_code_in_the_jail(project):
    take_over(project)
    result = project.run.json("-c", "print(6 * 7)", "--python", ".venv/bin/python", cwd=project.work)
    assert (result["status"], result["stdout"]) == ("ok", "42\n"), result
    project.untouched()


def test_interpreter_that_a_link_or_a_config_leads_to_is_not_started_on_the_host(project):
    planted = project.plant("tools/bin/python3")
    (project.home / "bin").mkdir()
    (project.home / "bin" / "python3").symlink_to(planted)
    (project.work / "env" / "bin").mkdir(parents=True)
    (project.work / "env" / "bin" / "python").symlink_to(planted)
    (project.work / "env" / "pyvenv.cfg").write_text(f"home = {planted.parent}\nversion = 3.11.2\n")
    for _ in project.surfaces("--python", project.home / "bin" / "python3"):
        pass
    for _ in project.surfaces("--venv", "env"):
        pass
    for _ in project.surfaces(VIRTUAL_ENV=str(project.work / "env")):
        pass
    for _ in project.surfaces(PATH=f"{project.home}/bin:{SYSTEM_PATH}"):
        pass


@pytest.mark.parametrize("language, tool", [("javascript", "node"), ("rust", "rustc"), ("go", "go"), ("ruby", "ruby")])
def test_planted_tool_on_path_is_not_started_on_the_host(project, language, tool):
    for place in ("bin", "shims"):
        project.plant(f"{place}/{tool}", "echo v99.0.0")
        path = f"{project.work}/{place}:{SYSTEM_PATH}"
        for more in ([], ["--workdir", "."]):
            project.run.json("--lang", language, "-c", "1", *more, with_env={"PATH": path}, cwd=project.work)
            project.run.json("--lang", "typescript", "-c", "1", *more, with_env={"PATH": path}, cwd=project.work)
            project.untouched(place, more)
        project.doctor(PATH=path)


def rustup(home):
    """The caller's rustup, if there is one: a copy of its proxies, which share its toolchains."""
    real = shutil.which("rustup") or ""
    toolchains = pathlib.Path(os.environ.get("RUSTUP_HOME") or pathlib.Path.home() / ".rustup")
    if not os.path.exists(real) or not toolchains.exists():
        return None
    (home / ".cargo" / "bin").mkdir(parents=True)
    shutil.copy2(real, home / ".cargo" / "bin" / "rustup")
    (home / ".cargo" / "bin" / "rustc").symlink_to("rustup")
    shutil.copytree(toolchains, home / ".rustup", symlinks=True, ignore=lambda directory, names: [
        name for name in names if name in ("share", "rustlib", "downloads", "tmp")
    ])
    return home / ".cargo" / "bin"


def test_toolchain_that_a_file_of_the_current_directory_names_is_not_started_on_the_host(project):
    proxies = rustup(project.home)
    if proxies is None:
        # The proxy is a stand-in that honours the file as rustup does.
        proxies = project.home / ".cargo" / "bin"
        proxies.mkdir(parents=True)
        proxy = proxies / "rustup"
        proxy.write_text('#!/bin/sh\n. ./rust-toolchain.toml 2> /dev/null\nexec "$path/bin/rustc" "$@"\n')
        proxy.chmod(0o755)
        (proxies / "rustc").symlink_to("rustup")
    planted = project.plant("toolchain/bin/rustc", "echo /usr").parents[1]
    text = f'[toolchain]\npath = "{planted}"\n' if (project.home / ".rustup").exists() else f"path={planted}\n"
    (project.work / "rust-toolchain.toml").write_text(text)
    (project.work / "m.rs").write_text("fn main() {}")
    path = f"{proxies}:{SYSTEM_PATH}"
    project.environment["PATH"] = path
    project.check_trap(proxies / "rustc", "--print", "sysroot", cwd=project.work)
    for more in ([], ["--workdir", "."]):
        project.run.json("m.rs", *more, with_env={"PATH": path}, cwd=project.work)
        project.untouched(more)
    project.doctor(PATH=path)


# Managers whose shims look for a file in the current directory and its parents, and run what that names.
FILES = {
    ".tool-versions": ".asdf",
    ".mise.toml": ".local/share/mise",
    ".node-version": ".nodenv",
    ".python-version": ".pyenv",
}


@pytest.mark.parametrize("name", FILES)
def test_program_that_a_version_file_names_is_not_started_on_the_host(project, name):
    planted = project.plant("planted/bin/tool")
    shims = project.home / FILES[name] / "shims"
    shims.mkdir(parents=True)
    for tool in ("python3", "node", "ruby"):
        shim = shims / tool
        shim.write_text(
            "#!/bin/sh\ndirectory=$PWD\nwhile [ ! -f $directory/" + name + ' ]; do\n'
            '  [ "$directory" = "" ] && exit 1; directory=${directory%/*}\ndone\n'
            "exec $(cat $directory/" + name + ') "$@"\n'
        )
        shim.chmod(0o755)
    (project.work / name).write_text(f"{planted}\n")
    (project.work / "below").mkdir()
    project.environment["PATH"] = path = f"{shims}:{SYSTEM_PATH}"
    project.check_trap(shims / "python3", cwd=project.work / "below")
    for _ in project.surfaces(PATH=path):
        pass
    for language in ("javascript", "ruby"):
        project.run.json("--lang", language, "-c", "1", with_env={"PATH": path}, cwd=project.work / "below")
        project.untouched(language)


@pytest.mark.parametrize("kind", ["flood", "never ends", "forks", "memory", "deaf"])
def test_question_to_a_hostile_program_is_bounded(project, kind, cella):
    number = f"{time.monotonic_ns()}"
    endings = {
        "flood": "while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done",
        "never ends": f"exec sleep 300.{number}",
        "forks": f"while :; do sleep 300.{number} & done",
        "memory": "exec /usr/bin/python3 -c 'x = []\nwhile True: x.append(bytearray(1 << 24))'",
        "deaf": f"trap '' INT TERM HUP; (trap '' INT TERM HUP; setsid sleep 300.{number}) & sleep 300.{number}; sleep 300",
    }
    program = project.work / "hostile" / "python3"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{endings[kind]}\n")
    program.chmod(0o755)
    result = project.run.json("-c", "1", "--python", program, timeout=60)
    assert (result["status"], result["exit_code"]) == ("rejected", 126), result

    def alive():
        return [
            entry for entry in os.listdir("/proc")
            if entry.isdigit() and number.encode() in _command(pathlib.Path("/proc", entry, "cmdline"))
        ]

    wait_until(lambda: not alive(), 10)
    assert alive() == []


def _command(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_planted_program_cannot_use_the_network_or_change_files_while_it_is_asked(project):
    victim = project.work / "planted" / "victim"  # it sees its own directory
    victim.parent.mkdir()
    victim.write_text("untouched")
    report = 'exec /usr/bin/python3 - << "END"\n' + textwrap.dedent(f"""
    import os, socket, sys
    def attempt(what, call):
        try:
            call()
        except OSError as error:
            print(what, "no", error.errno, file=sys.stderr)
        else:
            print(what, "yes", file=sys.stderr)
    attempt("write", lambda: open({str(victim)!r}, "a").write("x"))
    attempt("unlink", lambda: os.unlink({str(victim)!r}))
    attempt("home", lambda: os.listdir({str(project.home / "private")!r}))
    attempt("connect", lambda: socket.create_connection(("192.0.2.1", 80), 1))
    attempt("root", lambda: os.setuid(0))
    print(os.getuid(), os.getcwd(), sorted(os.environ), file=sys.stderr)
    sys.exit(3)
    """) + "END"
    (project.home / "private").mkdir()
    planted = project.plant("planted/python3", report)
    victim.write_text("untouched")
    message = project.run.rejected("-c", "1", "--python", planted, with_env={"SECRET": "x"}, cwd=project.work)
    assert victim.read_text() == "untouched"
    for what in ("write", "unlink", "home", "connect"):
        assert f"{what} no" in message, message
    assert "root no" in message and "1000 / " in message and "SECRET" not in message, message
    project.untouched()


def test_answer_of_an_exchanged_program_is_not_remembered(project):
    """The second program has the path, size and modification time of the first."""
    first = project.plant("tools/bin/python3", "exec /usr/bin/python3 \"$@\"  ")
    environment = {"with_env": {"XDG_CACHE_HOME": str(project.root / "cache")}, "cwd": project.work}
    assert project.run.json("-c", "1", "--python", first, **environment)["status"] == "ok"
    before = first.stat()
    second = first.read_text().replace("exec /usr/bin/python3 \"$@\"  ", "exec /usr/bin/false # \"$@\"  ")[:before.st_size]
    first.write_text(second.ljust(before.st_size))
    os.utime(first, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = first.stat()
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)
    message = project.run.rejected("-c", "1", "--python", first, **environment)
    assert "exited with 1" in message
    project.untouched()


def test_answer_cannot_make_other_directories_visible(project):
    """A planted interpreter claims to be installed in another user's environment."""
    private = project.home / "private"
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", private], check=True)
    (private / "secret").write_text("secret")
    (project.work / "link").symlink_to(private)
    for claimed in (private, project.work / "link"):
        names = ("prefix", "base_prefix", "exec_prefix", "base_exec_prefix")
        answer = ", ".join(f'"{name}": "{claimed}"' for name in names)
        planted = project.plant(
            "planted/bin/python3",
            f"""echo '{{"executable": "'$0'", "version": "3.11.2", {answer}}}'""",
        )
        message = project.run.rejected("-c", "1", "--python", planted, cwd=project.work)
        assert "does not belong to its installation" in message, message


def test_private_interpreter_is_asked_all_the_same(project):
    """Below a directory that only its owner may enter; started by root, the guest is another user."""
    prefix = project.home / "private" / "python"
    prefix.parent.mkdir()
    prefix.parent.chmod(0o700)
    project.home.chmod(0o700)
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", "--copies", prefix], check=True)
    result = project.run.json("-c", "import sys; print(sys.prefix)", "--python", prefix / "bin" / "python")
    assert result["stdout"] == f"{prefix}\n", result


# In a user namespace that permits no further ones, no jail can be built.
NO_JAIL = [
    "unshare", "--user", "--map-root-user", "/bin/sh", "-c",
    'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"', "sh",
]


def test_without_jails_only_programs_of_the_system_are_asked(project):
    full = subprocess.run([PYTHON, "-V"], capture_output=True, check=True).stdout.decode().split()[1]
    project.run.rejected("-c", "1", "--python", PYTHON, through=NO_JAIL)
    local = ["--executor", "local", "-c", "print('ran')"]
    for flags in ([], ["--python", PYTHON], ["--python", full]):
        assert project.run.json(*local, *flags, through=NO_JAIL)["stdout"] == "ran\n", flags
    planted = project.plant("shims/python3")
    path = {"PATH": f"{planted.parent}:{SYSTEM_PATH}"}
    # The version must be asked for, and is not asked of a program that may be planted.
    assert project.run.json(*local, "--python", full, with_env=path, through=NO_JAIL)["stdout"] == "ran\n"
    project.untouched()
    message = project.run.rejected("-c", "1", "--python", planted, through=NO_JAIL)
    assert "is not asked about itself outside a jail" in message, message
    run_bounded([*NO_JAIL, str(project.cella.binary), "doctor"], env={**project.environment, **path}, timeout=60)
    project.untouched()


def test_local_runs_an_environment_of_its_workdir_without_asking(project):
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", project.work / ".venv"], check=True)
    code = "import sys; print(sys.prefix)"
    for flags in (["--venv", ".venv"], ["--python", ".venv/bin/python"]):
        for through in ([], NO_JAIL):
            result = project.run.json(
                "-c", code, "--executor", "local", "--workdir", ".", *flags, cwd=project.work, through=through
            )
            assert result["stdout"] == f"{project.work}/.venv\n", (flags, result)


def test_cache_that_a_guest_has_written_is_held_to_the_same_bounds(project):
    """An earlier guest had the cache as a writable mount, and wrote what the system's interpreter answers."""
    cache = project.root / "cache"
    flags = ["-c", "import sys; print(sys.executable)", "--python", PYTHON]
    environment = {"XDG_CACHE_HOME": str(cache)}
    assert project.run.json(*flags, with_env=environment)["stdout"] == f"{PYTHON}\n"
    (file,) = cache.rglob("answers.json")
    planted = project.plant("planted/bin/python3")
    poisoned = file.read_text().replace(f'\\"{PYTHON}\\"', f'\\"{planted}\\"')
    assert str(planted) in poisoned
    file.write_text(poisoned)
    for executor in ("sandbox", "local"):
        project.run.json(*flags, "--executor", executor, with_env=environment)
        project.untouched(executor)
    full = subprocess.run([PYTHON, "-V"], capture_output=True, check=True).stdout.decode().split()[1]
    project.run.json("-c", "1", "--executor", "local", "--python", full, with_env=environment)
    project.untouched()


def test_bench_runs_no_planted_program(project):
    answer = ", ".join(f'"{name}": "/usr"' for name in ("prefix", "base_prefix", "exec_prefix", "base_exec_prefix"))
    planted = project.plant("tools/bin/python3", f"""echo '{{"executable": "'$0'", "version": "3.11.2", {answer}}}'""")
    (project.work / "socket.py").write_text(f"open({str(project.mark)!r}, 'w')\n")
    project.check_trap(PYTHON, "-c", "import socket", cwd=project.work)
    bench = ["bench", "--runs", "1", "--live", "1", "--only", "sessions"]
    finished = project.cella(*bench, "--python", planted, env=project.environment, cwd=project.work, timeout=120)
    assert finished.exit_code == 1 and b"is not run without a jail" in finished.stderr, finished.describe()
    project.untouched()
    project.cella(*bench, "--python", PYTHON, env=project.environment, cwd=project.work, timeout=120)
    project.untouched()
