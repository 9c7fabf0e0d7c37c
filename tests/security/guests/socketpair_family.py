"""Opens a socket pair of a family (arguments: number, type) that a guest has no use for.

Few families have pairs, but the kernel first finds, and may load, the family's code. Whatever it answers by itself
(no such operation, no such type) means that the call got there; only a filter says that the family does not exist.
"""
from attack import *

family, kind = int(sys.argv[1]), int(sys.argv[2])
IMPOSSIBLE_TYPE = 12
pair = (ctypes.c_int * 2)()
if libc.socketpair(family, kind, 0, pair) == 0 or ctypes.get_errno() == errno.EOPNOTSUPP:
    result("ok")
code = ctypes.get_errno()
if libc.socketpair(family, IMPOSSIBLE_TYPE, 0, pair) != 0 and ctypes.get_errno() == errno.EINVAL:
    result("unbuilt")
result(errno.errorcode[code])
