"""Looks whether a system call filter is in force."""
from attack import *

with open("/proc/self/status") as status:
    mode = next(line.split()[1] for line in status if line.startswith("Seccomp:"))
result("filtered" if mode == "2" else "ok")
