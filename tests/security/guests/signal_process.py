"""Sends a signal to a process (arguments: method, signal name, pid) and looks whether it took effect."""
from attack import *
import signal
import time

method, name, pid = sys.argv[1], sys.argv[2], int(sys.argv[3])
number_ = getattr(signal, name)


def queue_info():
    SI_QUEUE = -1
    info = (ctypes.c_int * 32)(number_, 0, SI_QUEUE)
    if method == "rt_sigqueueinfo":
        syscall(method, pid, number_, info)
    else:
        syscall(method, pid, pid, number_, info)


def by_owner():
    F_SETSIG = 10
    import fcntl

    reader, writer = os.pipe()
    fcntl.fcntl(reader, fcntl.F_SETOWN, pid)
    fcntl.fcntl(reader, F_SETSIG, number_)
    fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    os.write(writer, b"x")


def send():
    if method == "pidfd":
        syscall("pidfd_send_signal", syscall("pidfd_open", pid, 0), number_, 0, 0)
    elif method == "tgkill":
        syscall("tgkill", pid, pid, number_)
    elif method in ("kill", "tkill"):
        syscall(method, pid, number_)
    elif method == "sigio":
        by_owner()
    else:
        queue_info()


def state():
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # gone before the open, or before the read
        return "X"


try:
    send()
except OSError as error:
    result(errno.errorcode[error.errno])
# The control's victim falls, and is waited for; that an init stands is seen soon.
deadline = time.monotonic() + (0.3 if pid == 1 else 5)
while time.monotonic() < deadline:
    if state() in "TtZX":
        result("ok")
    time.sleep(0.01)
result("ignored")
