"""The classic escape begins with a second chroot."""
from attack import *

os.mkdir("deeper")
attempt(lambda: syscall("chroot", b"deeper"))
