"""Connects to a TCP address (arguments: host, port)."""
from attack import *
import socket

host, port = sys.argv[1], int(sys.argv[2])
peer = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
peer.settimeout(3)
try:
    peer.connect((host, port))
except TimeoutError:
    result("ETIMEDOUT")
except OSError as error:
    result(errno.errorcode[error.errno])
result("ok")
