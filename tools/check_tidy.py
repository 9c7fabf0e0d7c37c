#!/usr/bin/env python3
"""Runs clang-tidy over the sources of a build that are not known to be clean.

    tools/check_tidy.py [--all] build/release

A file is known to be clean if the file, its command, our headers that it includes, and .clang-tidy are unchanged since it
passed. A stamp file in the user's cache directory, named by their hash, records this for all clones. Of the other files,
only those that recent commits or uncommitted work changed are checked; --all checks all of them, which takes minutes.

clang-tidy spends most of its time on third-party headers. Therefore the files of one target are checked together, through
a file that includes them. Files whose private names collide are checked in different batches.
"""
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAMPS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cella" / "tidy"
BATCHES = ROOT / "build" / "tidy"
COMMITS = 20
MONTH = 30 * 24 * 3600
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
TOGETHER = 12  # files per batch; larger batches save little and leave cores idle at the end


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
    digest = hashlib.sha256(entry.get("command", "").replace(str(ROOT), "").encode())
    for file in [ROOT / ".clang-tidy", *reached(Path(entry["file"]))]:
        digest.update(file.read_bytes())
    return STAMPS / digest.hexdigest()[:32]


class Batch:
    """Files of one target, and a generated file that includes them all."""

    def __init__(self, entries):
        self.entries = entries
        self.folder = BATCHES / stamp(entries[0]).name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file = self.folder / "batch.cc"
        self.file.write_text("".join(f'#include "{entry["file"]}"\n' for entry in entries))
        words = shlex.split(entries[0]["command"])
        out = words.index("-o")
        self.command = [word for word in words[:out] if not word.startswith("-W")] + ["-w", "-c", str(self.file)]
        # Remove the compiler launcher in front of the compiler.
        first = next(at for at, word in enumerate(self.command) if "clang" in Path(word).name)
        self.command = self.command[first:]
        self.directory = entries[0]["directory"]
        (self.folder / "compile_commands.json").write_text(json.dumps(
            [{"directory": self.directory, "file": str(self.file), "command": shlex.join(self.command)}]))

    def colliding(self):
        """Files that do not compile after the others in one batch."""
        done = subprocess.run([*self.command, "-fsyntax-only", "-ferror-limit=0"], cwd=self.directory,
                              capture_output=True, text=True)
        named = set(re.findall(r"^(/[^:\n]+):\d+:\d+: (?:fatal )?error: ", done.stderr, re.M))
        if done.returncode == 0:
            return []
        blamed = [entry for entry in self.entries if entry["file"] in named]
        # The errors are in a header, or in all files: split the batch in half.
        return blamed if 0 < len(blamed) < len(self.entries) else self.entries[len(self.entries) // 2:]

    def check(self):
        """Returns whether clang-tidy found nothing; prints its findings otherwise."""
        done = subprocess.run(["clang-tidy-19", "--quiet", "--header-filter=/(src|include/cella)/.*\\.(h|cc)$",
                               "-p", str(self.folder), str(self.file)], cwd=ROOT, capture_output=True, text=True)
        if done.returncode == 0:
            for entry in self.entries:
                stamp(entry).touch()
            return True
        noise = re.compile(r"^\d+ warnings? (generated|treated)|^Suppressed |^Use -header-filter")
        print(done.stdout + "\n".join(line for line in done.stderr.splitlines() if not noise.match(line)), flush=True)
        return False


def tidy(entries):
    """Returns the entries that passed."""
    passed = []
    while entries:
        together = entries
        while len(together) > 1 and (colliding := Batch(together).colliding()):
            together = [entry for entry in together if entry not in colliding]
        if Batch(together).check():
            passed += together
        entries = [entry for entry in entries if entry not in together]
    return passed


def batches(entries):
    targets = defaultdict(list)
    for entry in entries:
        targets[re.search(r"-o (\S+\.dir)/", entry["command"])[1]].append(entry)
    return [files[at:at + TOGETHER] for files in targets.values() for at in range(0, len(files), TOGETHER)]


def changed_lately():
    """Sources that recent commits or uncommitted work changed, directly or in their own header. None: git failed."""
    def git(*words):
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.splitlines() if done.returncode == 0 else None

    commits = git("rev-list", f"--max-count={COMMITS}", "HEAD")
    if not commits:
        return None
    names = (git("diff", "--name-only", commits[-1]) or []) + (git("ls-files", "--others", "--exclude-standard") or [])
    return {str((ROOT / name).with_suffix(".cc")) for name in names}


def select(entries, everything):
    """Returns the entries to check, and a note for the output."""
    todo = [entry for entry in entries if not stamp(entry).exists()]
    if not everything and todo and (changed := changed_lately()) is not None:
        todo = [entry for entry in todo if entry["file"] in changed]
        return todo, f" of what the last {COMMITS} commits changed; `make tidy` looks at everything"
    return todo, ""


def forget_old_stamps():
    for path in STAMPS.iterdir():
        if path.stat().st_mtime < time.time() - MONTH:
            path.unlink(missing_ok=True)


def main():
    everything = sys.argv[1] == "--all"
    folder = Path(sys.argv[-1])
    entries = json.loads((folder / "compile_commands.json").read_text())
    ours = [entry for entry in entries if Path(entry["file"]).is_relative_to(ROOT / "src")
            and not entry["file"].endswith("_test.cc")]
    STAMPS.mkdir(parents=True, exist_ok=True)
    forget_old_stamps()
    todo, which = select(ours, everything)
    print(f"== clang-tidy: {len(todo)} of {len(ours)} files to check{which}", file=sys.stderr, flush=True)
    start = time.monotonic()
    with ThreadPoolExecutor(int(os.environ.get("JOBS") or os.cpu_count())) as pool:
        passed = sum(len(clean) for clean in pool.map(tidy, batches(todo)))
    shutil.rmtree(BATCHES, ignore_errors=True)
    print(f"tidy: {passed} of {len(todo)} files are in batches without findings, {time.monotonic() - start:.0f} s")
    sys.exit(passed != len(todo))


main()
