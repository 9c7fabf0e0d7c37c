"""Lists a directory of the host (argument)."""
from attack import *

OF_THE_JAIL = {"/run": {"python"}}  # a link to the chosen interpreter

try:
    entries = sorted(set(os.listdir(sys.argv[1])) - OF_THE_JAIL.get(sys.argv[1], set()))
except OSError as error:
    result(errno.errorcode[error.errno])
print("entries:", entries[:10])
result("ok" if entries else "empty")
