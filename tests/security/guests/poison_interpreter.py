"""Plants a module where the interpreter of the next run would import it."""
from attack import *
import sysconfig

names = sys.argv[1:] or [sysconfig.get_path("purelib"), sysconfig.get_path("stdlib"), "/usr/lib/python3/dist-packages"]
word = "nothing found"
for directory in names:
    try:
        os.close(os.open(os.path.join(directory, "cella_poison.py"), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        result("ok")
    except OSError as error:
        # A directory that the interpreter names but that does not exist is no answer yet.
        if error.errno != errno.ENOENT or word == "nothing found":
            word = errno.errorcode[error.errno]
result(word)
