"""What a run may leave behind on the machine: processes, mounts, cgroups, directories."""

import os
import pathlib
import re

from support.running import wait_until

CGROUPS = pathlib.Path("/sys/fs/cgroup")


def processes_with(token):
    """Every process, of any namespace below ours, that has the token among its arguments. Zombies have none."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                words = pathlib.Path("/proc", entry, "cmdline").read_bytes()
            except OSError:
                continue
            if token.encode() in words:
                found[int(entry)] = words
    return found


def assert_no_process(token, seconds=5.0):
    assert wait_until(lambda: not processes_with(token), seconds), f"still alive: {processes_with(token)}"


def mounts():
    """Mount points and their file systems. Numbers are left out: they are reused. So are the mounts that a container
    engine makes and removes at any time; "…/overlay" is where Podman keeps layers."""
    lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    found = ((line.split()[4], line.partition(" - ")[2]) for line in lines)
    return sorted(
        (place, source)
        for place, source in found
        if not source.startswith(("overlay ", "nsfs ")) and not place.endswith("/overlay")
    )


def cgroups_of(pids):
    """The directories of groups that these supervisors made."""
    wanted = {int(pid) for pid in pids}
    found = []
    for parent, names, _ in os.walk(CGROUPS):
        for name in list(names):
            match = re.match(r"cella-\d+-(\d+)-", name)
            if match:
                names.remove(name)
                if int(match[1]) in wanted:
                    found.append(os.path.join(parent, name))
    return found


def scratch_of(pids, parent="/tmp"):
    """The directories of the local executor for these supervisors: "cella-local-<namespace>-<pid>-<start>-…"."""
    wanted = {str(pid) for pid in pids}
    return [name for name in os.listdir(parent) if (m := re.match(r"cella-local-\d+-(\d+)-", name)) and m[1] in wanted]
