"""Reads a file of the host (argument)."""
from attack import *

attempt(lambda: os.read(os.open(sys.argv[1], os.O_RDONLY), 64))
