"""Reads its uid map: host uid 0 must not stand behind any id in the jail."""
from attack import *

with open("/proc/self/uid_map") as table:
    rows = [[int(x) for x in line.split()] for line in table]
print("map:", rows)
result("ok" if any(outside == 0 for _, outside, _ in rows) else "unprivileged")
