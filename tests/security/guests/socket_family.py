"""Opens a socket of a family (arguments: family number, type, protocol, bits for the upper half of the family).

Where the kernel has no such family it says so only after it has judged the type; an impossible type thus tells
a kernel without the family (EINVAL) from a jail that refuses it.
"""
from attack import *

family, kind, protocol, high = (int(a, 0) for a in sys.argv[1:5])
ABSENT = (errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT)
IMPOSSIBLE_TYPE = 12
try:
    syscall("socket", family | high, kind, protocol)
except OSError as error:
    if error.errno in ABSENT:
        try:
            syscall("socket", family | high, IMPOSSIBLE_TYPE, protocol)
        except OSError as second:
            if second.errno == errno.EINVAL:
                result("unbuilt")
    result(errno.errorcode[error.errno])
result("ok")
