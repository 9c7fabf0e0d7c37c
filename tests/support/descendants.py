"""A process and all below it, remembered by pid and start time: a pid alone may be another process's later."""

import os
import pathlib

from support.running import wait_until


def _stat(pid):
    """(parent, start time, state), or None if it is gone."""
    try:
        text = pathlib.Path("/proc", str(pid), "stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return int(fields[1]), int(fields[19]), fields[0]


def _words(pid):
    try:
        return pathlib.Path("/proc", str(pid), "cmdline").read_bytes().split(b"\0")[:-1]
    except OSError:
        return []


class Family:
    """Those that were alive when it was made."""

    def __init__(self, root):
        known = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit() and (found := _stat(entry)):
                known[int(entry)] = found
        self.members = {root: known[root][1]} if root in known else {}
        grew = True
        while grew:
            below = {pid: start for pid, (parent, start, _) in known.items() if parent in self.members}
            grew = not below.keys() <= self.members.keys()
            self.members.update(below)
        self.words = {pid: _words(pid) for pid in self.members}
        self._parents = {pid: known[pid][0] for pid in self.members}

    def children(self, parent):
        return [pid for pid, above in self._parents.items() if above == parent]

    def alive(self):
        """A zombie is not; its parent has yet to look."""
        found = {}
        for pid, start in self.members.items():
            now = _stat(pid)
            if now and now[1] == start and now[2] not in "ZX":
                found[pid] = b" ".join(self.words[pid]).decode(errors="replace")
        return found

    def assert_gone(self, seconds=5.0):
        assert wait_until(lambda: not self.alive(), seconds), f"still alive: {self.alive()}"
