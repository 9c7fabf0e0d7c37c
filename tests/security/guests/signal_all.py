"""Kills everything that it may see: kill(-1)."""
from attack import *
import signal
import time

# By hand, outside a pid namespace of its own, this would end the user's whole login.
if os.getpid() > 100:
    result("refused: not in a pid namespace of its own")


def others():
    return {int(p) for p in os.listdir("/proc") if p.isdigit()} - {1, os.getpid()}


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):  # gone before the open, or before the read
        return False


before = others()
try:
    os.kill(-1, signal.SIGKILL)
except OSError as error:
    result(errno.errorcode[error.errno])
deadline = time.monotonic() + 5
while before and time.monotonic() < deadline:
    if not all(alive(pid) for pid in before):
        result("ok")
    time.sleep(0.01)
result("nobody")
