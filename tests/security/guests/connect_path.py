"""Connects to a Unix socket of the host (argument: its path)."""
from attack import *
import socket

attempt(lambda: socket.socket(socket.AF_UNIX).connect(sys.argv[1]))
