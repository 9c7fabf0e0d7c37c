"""Seizes PID 1."""
from attack import *

PTRACE_SEIZE = 0x4206
attempt(lambda: syscall("ptrace", PTRACE_SEIZE, 1, 0, 0))
