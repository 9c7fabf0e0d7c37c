"""Looks into PID 1 through its /proc entry (argument: the file)."""
from attack import *

path = f"/proc/1/{sys.argv[1]}"


def look():
    if sys.argv[1] in ("fd", "map_files", "root"):
        os.listdir(path)
    elif sys.argv[1] in ("cwd", "exe"):
        os.readlink(path)
    else:
        fd = os.open(path, os.O_RDONLY)
        # Opening some of these files always works; the check is then made by read. mem has nothing at 0.
        if sys.argv[1] != "mem":
            os.read(fd, 64)


attempt(look)
