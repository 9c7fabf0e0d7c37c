"""Looks whether execve may still grant privileges."""
from attack import *

PR_GET_NO_NEW_PRIVS = 39
result("set" if libc.prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 else "ok")
