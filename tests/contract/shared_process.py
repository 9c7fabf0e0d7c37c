"""Which cases apply where code shares the process of its caller: in the Python package and in the C++ library.

What would end that process, its directory, its signal handlers, its descriptors and its children are not the session's.
docs/executors.md has these rows.
"""

import pathlib

FILES = ("deps", "display", "errors", "input", "interrupts", "magics", "output", "questions", "state", "values", "variables")
DIFFERENT = {
    "a module of the workspace shows its own lines", "getpass sends a password request",
    "code may catch an interrupt and go on", "an interrupt reaches a subprocess that the code waits for",
    "signal handlers of the code work", "an alarm in a later run calls its handler",
    "writes below Python are captured, in order", "output of subprocesses is captured, in order",
    "Python's own output comes before a subprocess even unflushed", "C's own buffers are flushed",
    "a character split over two writes is complete", "a hundred megabytes of output do not fill memory",
    "invalid UTF-8 is replaced", "output beyond the limit keeps head and tail and counts the rest",
    "a thread that prints after its run does not disturb the next", "classes of a cell can be pickled",
    "reset forgets everything but the files", "reset ends background processes and threads",
    "the working directory is kept, and files are there", "%cd changes the directory for later runs", "environment variables that code sets are kept",
    # the pip of what code starts is that of the application
    "pip does not take what the operator decides", "pip is a command of shell scripts", "threads and child processes reach deps",
    # what code starts has the standard input of the application
    "subprocesses find an empty standard input",
    # the caller has hooks of its own for these two
    "an exception in a thread is printed on stderr and ends nothing", "warnings go to stderr",
    "files are shared by the runs of a session", "the same warning in a later cell is seen again",
}


def is_fit_for_a_shared_process(case):
    file = pathlib.PurePath(case.origin.partition(":")[0]).stem
    return (file in FILES and case.name not in DIFFERENT) or case.name.startswith("sys.exit")
