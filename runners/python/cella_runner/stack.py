"""What code sees of the stack below it: traceback.print_stack() and warnings end where the runner's frames begin."""

import os
import sys

PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def _is_own(frame) -> bool:
    return frame.f_code.co_filename.startswith(PACKAGE)


def _until_own(frames):
    for frame, line in frames:
        if _is_own(frame):
            return
        yield frame, line


def patch_traceback(module):
    original = module.walk_stack
    if getattr(original, "__module__", None) == __name__:
        return

    def walk_stack(f):
        """Walk a stack yielding the frame and line number for each frame."""
        return _until_own(original(sys._getframe(1) if f is None else f))

    module.walk_stack = walk_stack


def patch_warnings(module):
    original = module.warn
    if getattr(original, "__module__", None) == __name__:
        return

    def warn(message, category=None, stacklevel=1, source=None, **options):
        """Issue a warning, or maybe ignore it or raise an exception."""
        # Beyond the code's own frames, the outermost of them is named.
        depth, frame = 1, sys._getframe(1).f_back
        while depth < stacklevel and frame is not None and not _is_own(frame):
            depth, frame = depth + 1, frame.f_back
        original(message, category, depth + 1, source, **options)

    module.warn = warn
