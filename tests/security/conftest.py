"""Makes tests/ importable, and ends every run with what the kernel does not have."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

pytest_plugins = ["support.fixtures"]

UNBUILT = []


def pytest_terminal_summary(terminalreporter):
    if UNBUILT:
        terminalreporter.write_line("this kernel is built without: " + ", ".join(sorted(UNBUILT)))
