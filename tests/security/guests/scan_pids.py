"""Looks for any process other than itself and PID 1: in /proc, and by probing every number with signal 0."""
from attack import *

found = {int(p) for p in os.listdir("/proc") if p.isdigit()}
for pid in range(1, 70000):
    if libc.kill(pid, 0) == 0 or ctypes.get_errno() == errno.EPERM:
        found.add(pid)
strangers = sorted(found - {1, os.getpid()})
print("strangers:", strangers[:20])
result("ok" if strangers else "nothing found")
