"""pip for guests: the host installs the packages, so the code that asks needs no network.

In front of the interpreter's own pip in sessions that have the namespace `deps`; runners/python/cella_runner has the code.
"""

import os
import sys

__version__ = "0+cella"

_RUNNER = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "python")


def main(args=None):
    """What `pip ARGS` does; the exit code."""
    sys.path.insert(0, _RUNNER)  # while it is imported
    try:
        from cella_runner import pip_command
    finally:
        sys.path.remove(_RUNNER)
    return pip_command.main(sys.argv[1:] if args is None else args)
