#!/usr/bin/env python3
"""Runs clang-tidy over the sources of a build that are not known to be clean.

    tools/check_tidy.py build/release

A file is known to be clean while it, its command, the headers of ours that it reaches, and .clang-tidy are what they
were when it passed; a stamp under build/tidy/ remembers that by their hash.
"""
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAMPS = ROOT / "build" / "tidy"
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


@cache
def includes(path):
    named = INCLUDE.findall(path.read_text(encoding="utf-8"))
    return [file for name in named for top in ("src", "include") if (file := ROOT / top / name).is_file()]


def reached(path):
    seen, todo = set(), [path]
    while todo:
        if (file := todo.pop()) not in seen:
            seen.add(file)
            todo += includes(file)
    return sorted(seen)


def stamp(entry):
    digest = hashlib.sha256(entry.get("command", "").encode())
    for file in [ROOT / ".clang-tidy", *reached(Path(entry["file"]))]:
        digest.update(file.read_bytes())
    return STAMPS / digest.hexdigest()[:32]


def tidy(folder, entry):
    done = subprocess.run(["clang-tidy-19", "--quiet", "-p", str(folder), entry["file"]], cwd=ROOT,
                          capture_output=True, text=True)
    if done.returncode == 0:
        stamp(entry).touch()
        return True
    noise = re.compile(r"^\d+ warnings? (generated|treated)|^Suppressed |^Use -header-filter")
    print(done.stdout + "\n".join(line for line in done.stderr.splitlines() if not noise.match(line)), flush=True)
    return False


def main():
    folder = Path(sys.argv[1])
    entries = json.loads((folder / "compile_commands.json").read_text())
    ours = [entry for entry in entries if Path(entry["file"]).is_relative_to(ROOT / "src")
            and not entry["file"].endswith("_test.cc")]
    STAMPS.mkdir(parents=True, exist_ok=True)
    todo = [entry for entry in ours if not stamp(entry).exists()]
    print(f"== clang-tidy: {len(todo)} of {len(ours)} files to check", file=sys.stderr, flush=True)
    start = time.monotonic()
    with ThreadPoolExecutor(int(os.environ.get("JOBS") or os.cpu_count())) as pool:
        passed = sum(pool.map(lambda entry: tidy(folder, entry), todo))
    print(f"tidy: {len(todo) - passed} of {len(todo)} files with findings, {time.monotonic() - start:.0f} s")
    sys.exit(passed != len(todo))


main()
