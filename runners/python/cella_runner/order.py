"""The order of text and displays, which travel apart: text in pipes, displays on the session's socket.

Before a display, its number is written into both pipes, in a mark that the supervisor takes out of the text. A mark is
small enough to be written whole, whatever other processes write. Only runs that display something write marks.
"""

import os


class Order:
    def __init__(self):
        self._token = None
        self._last = 0

    def begin(self, token):
        """`token`: of the run, with which its marks begin; None: no marks are wanted."""
        self._token = token
        self._last = 0

    def mark(self, pipes) -> int:
        """The number of a mark that is now in the pipes, behind everything that was written; 0: there is none."""
        if not self._token:
            return 0
        self._last = number = self._last + 1
        text = b"\0cella %s %d\0" % (self._token.encode(), number)
        for pipe in pipes:
            try:
                os.write(pipe, text)
            except OSError:
                pass  # closed, or full and non-blocking: the supervisor does not wait long for the mark
        return number
