"""Searches what it may read of itself for words about the caller (arguments): home, user name, working directory."""
from attack import *
import glob

needles = [a.encode() for a in sys.argv[1:] if a]
# Its own arguments hold the words by construction, hence no cmdline of self.
files = ["/proc/self/mountinfo", "/proc/self/environ", "/proc/self/maps", "/proc/self/cgroup", "/etc/passwd",
         "/etc/group", "/etc/hosts", "/etc/hostname", "/proc/1/cmdline", "/proc/1/environ", "/proc/1/mountinfo"]
files += glob.glob("/proc/self/fdinfo/*")
found = []
for path in files:
    try:
        with open(path, "rb") as stream:
            content = stream.read()
    except OSError:
        continue
    found += [f"{needle.decode()} in {path}" for needle in needles if needle in content]
for link in ["/proc/self/cwd", "/proc/self/exe", "/proc/self/root"] + glob.glob("/proc/self/fd/*"):
    try:
        target = os.readlink(link).encode()
    except OSError:
        continue
    found += [f"{needle.decode()} in {link}" for needle in needles if needle in target]
print("found:", found)
result("ok" if found else "nothing found")
