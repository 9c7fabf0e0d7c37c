"""Lists a directory of the host (argument)."""
from attack import *

try:
    entries = os.listdir(sys.argv[1])
except OSError as error:
    result(errno.errorcode[error.errno])
print("entries:", entries[:10])
result("ok" if entries else "empty")
