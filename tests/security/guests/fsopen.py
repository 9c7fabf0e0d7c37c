"""Opens a file system context (new mount API)."""
from attack import *

attempt(lambda: syscall("fsopen", b"tmpfs", 0))
