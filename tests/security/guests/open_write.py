"""Opens an existing file (argument: path) for writing and writes nothing."""
from attack import *

attempt(lambda: os.open(sys.argv[1], os.O_WRONLY | os.O_NOCTTY))
