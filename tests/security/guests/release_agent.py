"""Opens a cgroup v1 release_agent for writing: the host would run what it names, as root."""
from attack import *

for directory, names, files in os.walk("/sys/fs/cgroup"):
    if "release_agent" in files:
        attempt(lambda: os.open(os.path.join(directory, "release_agent"), os.O_WRONLY))
try:
    with open("/proc/cgroups") as table:
        controllers = [line.split()[0] for line in table if not line.startswith("#") and line.split()[1] != "0"]
except OSError:
    controllers = []
os.mkdir("cgroup")
for controller in controllers or ["memory"]:
    try:
        syscall("mount", b"none", b"cgroup", b"cgroup", 0, controller.encode())
        attempt(lambda: os.open("cgroup/release_agent", os.O_WRONLY))
    except OSError as error:
        word = errno.errorcode[error.errno]
# Outside, without any v1 hierarchy, there is no such file to attack.
result("unbuilt" if word in ("ENODEV", "EBUSY", "EINVAL", "ENOENT") else word)
