"""Connects to an abstract Unix socket of the host (argument: its name)."""
from attack import *
import socket

attempt(lambda: socket.socket(socket.AF_UNIX).connect("\0" + sys.argv[1]))
