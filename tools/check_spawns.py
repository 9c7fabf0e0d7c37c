#!/usr/bin/env python3
"""Fails when a file starts a process that is not in the list below.

    tools/check_spawns.py [--self-test]

Whatever a user names may have been planted by a guest. Such a program runs in a jail: as a guest, or, when it is only
asked about itself, by confine/ask_program.h. Everything else that starts processes is in ALLOWED, with what it starts.
Tests, and what lives inside guests (runners/), are not looked at.
"""
import re
import sys
from pathlib import Path

ALLOWED = {
    # C++
    "src/os/process.cc": "the one way to start a program; its callers are listed too",
    "src/confine/launcher.cc": "cella-launch",
    "src/executor/subprocess/kernel_zygote.cc": "the interpreter of kernels without a jail, as zygote",
    "src/launcher/sibling.h": "copies of zygotes and of checkpoints",
    "src/confine/ask_program.cc": "cella-launch, for one question",
    "src/doctor/proof.cc": "cella itself",
    "src/doctor/child.cc": "a fork that tries system calls and executes nothing",
    "src/doctor/namespace_probe.cc": "a clone that tries namespaces and executes nothing",
    "src/cli/bench_programs.cc": "the interpreter that is measured, and bwrap and docker, after CheckHostProgram",
    "src/cli/bench_floor.cc": "a fork that times unshare() and executes nothing",
    "src/jail/sys.h": "the clone3 of the jail's own processes",
    "src/jail/build.cc": "init",
    "src/jail/idmapped_mount.cc": "a process that holds a user namespace and executes nothing",
    "src/jail/init.cc": "guests",
    "src/jail/guest.cc": "the guest's program, confined",
    "src/jail/maker.cc": "makers of jails, and zygotes",
    "src/agent/main.cc": "init, in a container",
    "src/launcher/fork_library.cc": "forks of a zygote, which become guests",
    "src/store/test_directory.h": "tests",
    "src/language/test_files.h": "tests",
    # The Python package
    "sdk/python/src/cella/_private_server.py": "cella",
    "sdk/python/src/cella/_command.py": "cella",
    "sdk/python/src/cella/bench.py": "its own interpreter",
    "sdk/python/src/cella/_bench_calls.py": "its own interpreter",
}

CALLS = "posix_spawnp?|v?fork|exec(?:l|le|lp|v|ve|vp|vpe|veat)|fexecve|clone3?|Clone3|system|popen"
CPP = re.compile(rf"(?<![\w.>\"])(?:::)?(?:{CALLS})\s*\(|\bSYS_(?:execve|execveat|clone3?|v?fork)\b|\bProcess::Spawn\b")
PYTHON = re.compile(
    r"\bsubprocess\b|\bmultiprocessing\b|\bProcessPoolExecutor\b|\bcreate_subprocess_\w+|\bpty\.(?:spawn|fork)\b"
    r"|\bos\.(?:system|popen|fork|forkpty|posix_spawnp?|spawn\w+|exec\w+)\b"
)
RAW = re.compile(r'R"([^()\s\\]*)\(.*?\)\1"', re.DOTALL)
# Comments and strings, in the order in which they begin.
CPP_TEXT = re.compile(r"//[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\\n])'|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
PYTHON_TEXT = re.compile(r'"""(?:\\.|.)*?"""|\'\'\'(?:\\.|.)*?\'\'\'|#[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def blank(match):
    """Of the same number of lines."""
    return "\n" * match[0].count("\n")


def spawns(name, text):
    """The lines that start a process, as (number, line)."""
    if name.endswith(".py"):
        bare, pattern = PYTHON_TEXT.sub(blank, text), PYTHON
    else:
        bare, pattern = CPP_TEXT.sub(blank, RAW.sub(blank, text)), CPP
    return [(number, line.strip()) for number, line in enumerate(bare.splitlines(), 1) if pattern.search(line)]


def is_checked(name):
    return not name.endswith("_test.cc")


def check(root):
    files = [f for d in ("include", "src") for f in (root / d).rglob("*") if f.suffix in (".h", ".cc", ".inc")]
    files += (root / "sdk" / "python" / "src").rglob("*.py")
    errors, used = [], set()
    for file in sorted(files):
        name = file.relative_to(root).as_posix()
        if not is_checked(name):
            continue
        for number, line in spawns(name, file.read_text(encoding="utf-8")):
            used.add(name)
            if name not in ALLOWED:
                errors.append(f"{name}:{number}: {line}: starts a process; ask programs through ToolAsker, run them as "
                              "guests, or add the file to tools/check_spawns.py with the reason")
    errors += [f"tools/check_spawns.py: {name} starts no process: remove it from the list" for name in set(ALLOWED) - used]
    return errors, len(files)


def self_test():
    found = ["pid = fork();", "::fork()", "if (vfork() == 0)", "execve(a, b, c);", "posix_spawn(&pid, p, 0, 0, a, e)",
             "return std::system(text);", "popen (x)", "syscall(SYS_execve, a)", "os::Process::Spawn(options)",
             "auto p = Process::Spawn(o); // fork", "sys::Clone3(&args)", "clone(F, s, 0, &c)"]
    silent = ["// fork() here", 'x = "execve";', '"fork()"', "file.system(x)", "p->clone()", "refork(x)", "/* system(\n) */",
              'R"(os.fork())"', "c == '\"' || fork_ == '\"'", "prefork()", "system_clock::now()", "kSystem(", "class Process;"]
    python = ["subprocess.run(x)", "os.posix_spawn(a, b, c)", "os.execv(p, a)", "asyncio.create_subprocess_exec(x)",
              "from multiprocessing import Pool", "os.system(x)"]
    python_silent = ["# os.fork() is fine", '"""subprocess"""', "'os.system'", "os.path.join(x)", "self.spawn(x)"]
    for cases, name, expected in ((found, "a.cc", True), (silent, "a.cc", False), (python, "a.py", True),
                                  (python_silent, "a.py", False)):
        for case in cases:
            assert bool(spawns(name, case)) == expected, f"{name}: {case}"
    return len(found + silent + python + python_silent)


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        print(f"spawns: self-test of {self_test()} cases passed")
    else:
        problems, count = check(Path(__file__).resolve().parent.parent)
        print(*problems, sep="\n", end="\n" if problems else "")
        print(f"spawns: {count} files, {len(problems)} problems")
        sys.exit(bool(problems))
