"""Changes the priority of PID 1 (argument: by process, group or user) and looks whether it changed."""
from attack import *

which = {"process": os.PRIO_PROCESS, "group": os.PRIO_PGRP, "user": os.PRIO_USER}[sys.argv[1]]
who = {"process": 1, "group": 0, "user": os.getuid()}[sys.argv[1]]
if sys.argv[1] == "group":
    try:
        who = os.getpgid(1)
    except OSError:
        who = 1
before = os.getpriority(os.PRIO_PROCESS, 1)
try:
    os.setpriority(which, who, min(before + 5, 19))
except OSError as error:
    result(errno.errorcode[error.errno])
result("ok" if os.getpriority(os.PRIO_PROCESS, 1) != before else "unchanged")
