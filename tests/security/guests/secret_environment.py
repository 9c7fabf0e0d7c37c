"""Searches its environment, and that of PID 1, for a secret (argument)."""
from attack import *

secret = sys.argv[1].encode()
if any(secret in value.encode() for value in os.environ.values()):
    result("ok")
for pid in ("self", "1", str(os.getppid())):
    try:
        with open(f"/proc/{pid}/environ", "rb") as environ:
            if secret in environ.read():
                result("ok")
    except OSError:
        continue
result("nothing found")
