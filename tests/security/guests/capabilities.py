"""Looks for any capability in a set (argument: the name in /proc/self/status)."""
from attack import *

with open("/proc/self/status") as status:
    bits = next(int(line.split()[1], 16) for line in status if line.startswith(sys.argv[1] + ":"))
result("ok" if bits else "none")
