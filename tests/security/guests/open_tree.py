"""Clones the root mount as a detached tree (new mount API)."""
from attack import *

OPEN_TREE_CLONE, AT_RECURSIVE = 1, 0x8000
attempt(lambda: syscall("open_tree", AT_FDCWD, b"/", OPEN_TREE_CLONE | AT_RECURSIVE))
