"""Searches every inherited descriptor for a secret (argument)."""
from attack import *

secret = sys.argv[1].encode()
for fd in range(3, 1024):
    try:
        if secret in os.pread(fd, 4096, 0):
            result("ok")
    except OSError:
        continue
result("nothing found")
