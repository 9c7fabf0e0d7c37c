"""Opens a file of PID 1 below /proc for writing (argument: the file); writes nothing."""
from attack import *

attempt(lambda: os.open(f"/proc/1/{sys.argv[1]}", os.O_WRONLY))
