"""Leaves a process behind that has left session and parent, and ignores every polite signal (argument: a marker)."""
from attack import *
import signal

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number_ in range(1, 32):
            if number_ not in (signal.SIGKILL, signal.SIGSTOP):
                signal.signal(number_, signal.SIG_IGN)
        for fd in range(3):
            os.close(fd)
        os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)", sys.argv[1]])
    os._exit(0)
os.wait()
result("ok")
