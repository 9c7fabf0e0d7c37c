"""Gives a file capabilities (security.capability)."""
from attack import *
import struct

VERSION_2_EFFECTIVE, NET_RAW = 0x02000001, 1 << 13
open("file", "w").close()
value = struct.pack("<5I", VERSION_2_EFFECTIVE, NET_RAW, 0, 0, 0)
attempt(lambda: os.setxattr("file", "security.capability", value))
