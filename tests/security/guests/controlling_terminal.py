"""Opens the caller's controlling terminal."""
from attack import *

attempt(lambda: os.open("/dev/tty", os.O_RDWR))
