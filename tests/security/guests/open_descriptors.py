"""Lists descriptors beyond the standard three: whatever is there was not meant for the guest."""
from attack import *

# The source file may itself be a descriptor that the interpreter reads; it is the guest's own.
found = {}
for fd in range(3, 1024):
    try:
        found[fd] = os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        continue
print("descriptors:", found)
result("ok" if found else "nothing found")
