"""Runs a set-uid program of the system and sees whether the kernel honoured the bit.

The C library prints the auxiliary vector on LD_SHOW_AUXV, unless the start is privileged: silence is success.
"""
from attack import *
import stat
import subprocess

if os.geteuid() == 0:
    # For root itself the bit changes nothing.
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
for name in ("su", "passwd", "mount", "chsh", "newgrp", "umount"):
    path = f"/usr/bin/{name}"
    try:
        status = os.stat(path)
    except OSError:
        continue
    if not status.st_mode & stat.S_ISUID:
        continue
    try:
        shown = subprocess.run([path, "--version"], env={"LD_SHOW_AUXV": "1"}, stdin=subprocess.DEVNULL,
                               capture_output=True, text=True, timeout=10)
    except OSError as error:
        result(errno.errorcode[error.errno])
    result("plain" if "AT_EUID" in shown.stdout else "ok")
result("nothing found")
