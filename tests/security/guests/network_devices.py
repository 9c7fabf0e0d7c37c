"""Looks for a network device besides the loopback."""
from attack import *

with open("/proc/self/net/dev") as table:
    devices = [line.split(":")[0].strip() for line in table if ":" in line]
print("devices:", devices)
result("ok" if set(devices) - {"lo"} else "nothing found")
