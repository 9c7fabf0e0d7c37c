"""Ends every run with what the kernel does not have."""

UNBUILT = []


def pytest_terminal_summary(terminalreporter):
    if UNBUILT:
        terminalreporter.write_line("this kernel is built without: " + ", ".join(sorted(UNBUILT)))
