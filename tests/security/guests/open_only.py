"""Opens a file (argument: path) for reading and reads nothing, since reading may consume or block."""
from attack import *

attempt(lambda: os.open(sys.argv[1], os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY))
