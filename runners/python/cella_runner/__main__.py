"""Start by exec, `python -I .../cella_runner`: serve the session on descriptor 3; `--zygote ...`: serve forks.

The directory's parent is on sys.path only while the package is imported. Later imports of its modules go through the
package's own __path__, so the guest sees the sys.path of an interactive interpreter.
"""

import os
import sys

SESSION_FD = 3

if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    import cella_runner.session

    if arguments[:1] != ["--zygote"]:
        import cella_runner.tracebacks  # which a zygote imports when no client waits

    sys.path[0] = ""
    sys.argv = [""]
    if arguments[:1] == ["--zygote"]:
        import cella_runner.zygote

        cella_runner.zygote.main(int(arguments[1]), arguments[2], arguments[3])
    else:
        cella_runner.session.serve(SESSION_FD)
