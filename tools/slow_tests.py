#!/usr/bin/env python3
"""Prints the slowest tests, files and groups of the last run, from the JUnit files of the suites.

    tools/slow_tests.py [--top N] [--count] [BUILD...]      # BUILD: build/release and build/asan

--count prints the number of cases of each group instead, and how many were skipped or failed.
"""
import argparse
import sys
import xml.etree.ElementTree as tree
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Case:
    group: str  # the ctest test that ran it
    file: str
    name: str
    seconds: float
    outcome: str


def outcome_of(case):
    for word in ("failure", "error", "skipped"):
        if case.find(word) is not None:
            return "skipped" if word == "skipped" else "failed"
    return "skipped" if case.get("status") == "notrun" else "passed"


def read_cases(folder):
    """In the attribute `classname` pytest writes a class and GoogleTest a file."""
    for path in sorted((folder / "test-results").glob("*.xml")):
        group = path.stem if folder.name == "release" else f"{folder.name}:{path.stem}"
        try:
            document = tree.parse(path)
        except tree.ParseError as error:
            print(f"slow_tests: {path}: {error}", file=sys.stderr)
            continue
        for case in document.iter("testcase"):
            file = Path(case.get("file")).name if case.get("file") else case.get("classname", "").replace(".", "/")
            yield Case(group, file, case.get("name", ""), float(case.get("time") or 0), outcome_of(case))


def print_slowest(title, seconds_by_name, top):
    print(f"{title}:")
    for name, seconds in sorted(seconds_by_name.items(), key=lambda each: -each[1])[:top]:
        print(f"  {seconds:8.1f} s  {name}")


def sum_by(cases, key):
    sums = defaultdict(float)
    for case in cases:
        sums[key(case)] += case.seconds
    return sums


def print_counts(cases):
    groups = defaultdict(Counter)
    for case in cases:
        groups[case.group][case.outcome] += 1
    total = Counter()
    for group, counts in sorted(groups.items()):
        print(f"  {counts.total():6}  {group}" + "".join(f", {counts[word]} {word}" for word in ("skipped", "failed") if counts[word]))
        total += counts
    print(f"{total.total()} cases in {len(groups)} groups: " + ", ".join(f"{number} {word}" for word, number in total.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--top", type=int, default=20, metavar="N", help="how many of each (20)")
    parser.add_argument("--count", action="store_true", help="count the cases of each group instead")
    parser.add_argument("build", nargs="*", type=Path, default=[ROOT / "build/release", ROOT / "build/asan"])
    options = parser.parse_args()
    cases = [case for folder in options.build for case in read_cases(folder)]
    if not cases:
        sys.exit("slow_tests: no test results found; run 'make check' or 'make test' first")
    if options.count:
        print_counts(cases)
        return
    print_slowest("slowest tests", sum_by(cases, lambda case: f"{case.group}  {case.name}"), options.top)
    print_slowest("slowest files", sum_by(cases, lambda case: case.file), options.top)
    print_slowest("slowest groups", sum_by(cases, lambda case: case.group), options.top)
    print(f"{len(cases)} cases, {sum(case.seconds for case in cases):.0f} s added up")


if __name__ == "__main__":
    main()
