#!/usr/bin/env python3
"""Fails on an #include against the direction of the layers, or of a third-party library outside its folder, and on the name of
an executor's kind outside the tables and the wiring.

    tools/check_layers.py [--self-test]

A folder may include itself, the folders that BELOW lists for it, and all folders below those. Tests may include everything.
"""
import re
import sys
from pathlib import Path

BELOW = {
    "base": [], "os": ["base"], "store": ["base"], "async": ["base"],
    "jail": [], "launcher": ["jail"], "agent": ["jail", "os"], "policy": ["environment"],
    "http": ["async", "os"], "zmtp": ["async"], "jupyter": ["zmtp", "os"], "docker": ["async", "http"],
    "language": ["base", "os", "jail", "async"],
    "environment": ["base", "os"],
    "run": ["async", "os"],
    "calls": ["run"],
    "storage": ["calls", "store"],
    "confine": ["run", "language", "jail"],
    "runner": ["async", "os"],
    "executor": ["confine", "runner", "policy", "jupyter", "docker", "agent", "workspace"],
    "workspace": ["async", "os"],
    "session": ["calls", "run", "workspace"],
    "registry": ["session", "store"],
    "engine": ["executor", "session", "storage"],
    "installer": ["environment", "engine"],
    "server": ["installer", "registry", "policy", "http"],
    "library": ["server", "engine"],
    "doctor": ["language", "os", "jail"],
    "cli": ["server", "launcher", "doctor"],
}
CONFINED = [  # (what, the #include, the only places)
    ("zmq", r"zmq(_addon)?\.h(pp)?$", ["nothing: src/zmtp speaks the protocol itself"]),
    ("Beast", r"boost/beast\b", ["src/http/"]),
    ("Asio", r"boost/asio\b", ["src/async/", "src/http/", "src/docker/"]),
    ("SQLite", r"sqlite3\.h$", ["src/store/"]),
    ("CLI11", r"CLI/", ["src/cli/"]),
    ("toml++", r"toml\+\+/", ["src/environment/", "src/language/", "src/server/"]),
    ("libseccomp", r"seccomp\.h$", ["src/jail/seccomp_policy"]),
]
C_HEADERS = ("stdbool.h", "stddef.h", "stdint.h")  # cella.h is for C too
# What differs between executors is behind the port of src/run, or a row of a table: other code asks for that.
KIND = re.compile(r"\bExecutorKind::k[A-Z]")
NAMES_KINDS = ("include/cella/executors.h", "src/executor/", "src/policy/", "src/engine/", "src/library/host.h", "src/cli/bench_",
               "src/installer/builder_home.cc")
INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')


def reach(folder):
    return {folder}.union(*(reach(lower) for lower in BELOW[folder]))


def broken_rule(path, quote, target):
    """The rule that `target`, included by `path` (relative to the repository), breaks; else None."""
    if path.startswith("tests/") or path.endswith("_test.cc"):
        return None
    first = target.split("/")[0]
    if path.startswith("include/"):
        standard = quote == "<" and (re.fullmatch(r"\w+", target) or path == "include/cella.h" and target in C_HEADERS)
        return None if standard or first in ("cella", "cella.h") else "a public header includes only the standard library and cella/"
    for what, pattern, places in CONFINED:
        if re.match(pattern, target) and not path.startswith(tuple(places)):
            return f"{what} belongs in {' and '.join(places)} only"
    folder = path.split("/")[1]
    if folder not in BELOW:
        return f"src/{folder} is not in the table of tools/check_layers.py"
    if first == "cella" and folder in ("jail", "launcher"):
        return "jail and launcher are freestanding: nothing of include/cella"
    if first in BELOW and first not in reach(folder):
        return f"{folder} may include only {', '.join(sorted(reach(folder)))}"
    generated = target.endswith(".inc")  # in the build folder of the target, which is on no other's path
    if quote == '"' and first not in BELOW and first != "cella" and not generated:
        return "includes of our own are rooted at src/ (\"os/process.h\")"
    return None


def names_kind(path, line):
    return bool(KIND.search(line)) and not path.startswith(NAMES_KINDS) and not path.endswith("_test.cc")


def check(root):
    errors = []
    files = [f for d in ("include", "src") for f in sorted((root / d).rglob("*")) if f.suffix in (".h", ".cc", ".inc")]
    for file in files:
        path = file.relative_to(root).as_posix()
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if match := INCLUDE.match(line):
                if rule := broken_rule(path, *match.groups()):
                    errors.append(f"{path}:{number}: #include {match[2]}: {rule}")
            if names_kind(path, line):
                errors.append(f"{path}:{number}: names an executor's kind: ask for a key that it takes (policy::Takes), or extend the port")
    return errors, len(files)


def self_test():
    good = ['src/os/a.h "base/result.h"', 'src/cli/a.cc "base/units.h"', 'src/cli/a.cc <CLI/CLI.hpp>',
            'src/session/a.cc "os/cgroup.h"', 'src/executor/a.cc "confine/launch.h"', 'src/engine/a.cc "executor/a.h"', 'src/launcher/main.cc "jail/spec.h"',
            'src/http/a.cc <boost/beast/core.hpp>', 'src/language/a.cc <toml++/toml.h>',
            'src/jail/seccomp_policy.cc <seccomp.h>', 'src/jail/a.cc <linux/seccomp.h>', 'src/base/a.h <fmt/core.h>',
            'src/base/a.h "cella/policy.h"', 'include/cella/a.h <vector>', 'include/cella/a.h "cella/policy.h"',
            'src/doctor/a.cc "jail/steps.h"', 'src/cli/a.cc "doctor/judge.h"',
            'src/jail/a.cc "filters.inc"', 'src/jail/a_test.cc "os/process.h"', 'tests/a.cc <boost/asio.hpp>']
    bad = ['src/base/a.h "os/cgroup.h"', 'src/jail/a.h "base/result.h"', 'src/jail/a.h "cella/policy.h"',
           'src/launcher/main.cc "base/result.h"', 'src/os/a.cc "jail/spec.h"', 'src/executor/a.cc "session/run.h"',
           'src/session/a.cc "cli/run.h"', 'src/run/a.cc "confine/launch.h"', 'src/session/a.cc "executor/a.h"',
           'src/confine/a.cc "executor/a.h"', 'src/confine/a.cc "runner/protocol.h"', 'src/registry/a.cc "engine/engine.h"',
           'src/doctor/a.cc "executor/limits.h"', 'src/session/a.cc "doctor/judge.h"',
           'src/async/a.h "http/server.h"', 'src/http/a.cc <zmq.hpp>',
           'src/server/a.cc <boost/beast.hpp>', 'src/executor/a.cc <boost/asio/post.hpp>',
           'src/session/a.cc <sqlite3.h>', 'src/server/a.cc <CLI/CLI.hpp>', 'src/cli/a.cc <toml++/toml.h>',
           'src/jail/steps.cc <seccomp.h>', 'src/misc/a.cc <vector>', 'src/os/a.cc "cgroup.h"',
           'include/cella/a.h <fmt/core.h>', 'include/cella/a.h "base/result.h"', 'include/cella/a.h <unistd.h>']
    for cases, expected in ((good, False), (bad, True)):
        for case in cases:
            path, include = case.split(" ")
            rule = broken_rule(path, *INCLUDE.match("# include " + include).groups())
            assert bool(rule) == expected, f"{case}: {rule}"
    kind = "if (spec.executor == ExecutorKind::kLocal) return {};"
    assert names_kind("src/server/a.cc", kind) and not names_kind("src/engine/engine.cc", kind)
    assert not names_kind("src/server/a.cc", "ExecutorKind kind = kDefaultExecutor;")
    return len(good) + len(bad)


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        print(f"layers: self-test of {self_test()} cases passed")
    else:
        found, count = check(Path(__file__).resolve().parent.parent)
        print(*found, sep="\n", end="\n" if found else "")
        print(f"layers: {count} files, {len(found)} violations")
        sys.exit(bool(found))
