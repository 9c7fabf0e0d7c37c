"""Creates a file in a directory (argument) that must be read-only."""
from attack import *

path = os.path.join(sys.argv[1], "cella-was-here")
attempt(lambda: os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
