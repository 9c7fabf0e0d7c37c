"""Looks for device nodes beyond the harmless ones."""
from attack import *
import stat

HARMLESS = {"null", "zero", "full", "random", "urandom", "tty", "ptmx"}
found = []
for directory, names, files in os.walk("/dev"):
    for name in files:
        path = os.path.join(directory, name)
        mode = os.lstat(path).st_mode
        if (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)) and name not in HARMLESS and not directory.startswith("/dev/pts"):
            found.append(path)
print("found:", found[:20])
result("ok" if found else "nothing found")
