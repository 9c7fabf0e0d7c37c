"""Walks all of the visible tree for a file name (argument) that the host has in several places."""
from attack import *

found = []
for directory, names, files in os.walk("/"):
    if directory == "/":
        names[:] = [n for n in names if n not in ("proc", "sys", "usr")]
    found += [os.path.join(directory, f) for f in files if f == sys.argv[1]]
    if found:
        break
print("found:", found)
result("ok" if found else "nothing found")
