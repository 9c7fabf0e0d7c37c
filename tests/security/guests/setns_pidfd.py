"""Enters the mount namespace of a process (argument: pid) through a pidfd."""
from attack import *

attempt(lambda: syscall("setns", syscall("pidfd_open", int(sys.argv[1]), 0), CLONE_FLAGS["mnt"]))
