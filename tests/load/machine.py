"""What processes and the machine have used so far."""

import os
import pathlib
import re

TICK = os.sysconf("SC_CLK_TCK")


def memory(pid):
    """Bytes of one process: resident, its share of what it shares, and what is its alone."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    kilobytes = {name: int(size) for name, size in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}
    private = kilobytes["Private_Clean"] + kilobytes["Private_Dirty"]
    return {"rss": kilobytes["Rss"] << 10, "pss": kilobytes["Pss"] << 10, "private": private << 10}


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def available_memory():
    return int(re.search(r"MemAvailable:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())[1]) << 10


class Processors:
    """Seconds of processor time since it was made: ours, the server's own, and all that the machine did."""

    def __init__(self, pid):
        self.pid = pid
        self._before = self._now()

    def _now(self):
        server = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        machine = [int(each) for each in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        idle = machine[3] + machine[4]
        return {
            "client": sum(os.times()[:2]),
            "server": (int(server[11]) + int(server[12])) / TICK,
            "machine": (sum(machine) - idle) / TICK,
        }

    def used(self):
        now = self._now()
        return {name: round(now[name] - self._before[name], 2) for name in now}
