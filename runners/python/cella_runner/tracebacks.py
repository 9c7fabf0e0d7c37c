"""The traceback that Python itself prints, without the runner's frames, folded and bounded."""

import os
import traceback

from .errors import cut, summary_of

_own = (os.path.dirname(os.path.abspath(__file__)) + os.sep,)  # frames of files below these are not shown
SHOWN_ENTRIES = 60
DEEPEST = 2000
TRACEBACK_LIMIT = 512 << 10


def hide(directory: str):
    """Frames of files below it are not the guest's either."""
    global _own
    if directory not in _own:
        _own = (*_own, directory)


class _Stack(traceback.StackSummary):
    """Frames of the guest alone; mutual recursion is cut in the middle (the base class folds only equal lines)."""

    def format(self, **options):
        entries = super().format(**options)
        if len(entries) <= SHOWN_ENTRIES:
            return entries
        half = SHOWN_ENTRIES // 2
        return [*entries[:half], "  [%d more entries]\n" % (len(entries) - 2 * half), *entries[-half:]]


def _clean(summary, seen):
    """Drops the runner's frames from an exception and from all that it is chained to."""
    if summary is None or id(summary) in seen:
        return
    seen.add(id(summary))
    if summary.stack is not None:
        summary.stack = _Stack(frame for frame in summary.stack if not frame.filename.startswith(_own))
    _clean(summary.__cause__, seen)
    _clean(summary.__context__, seen)
    for part in getattr(summary, "exceptions", None) or ():
        _clean(part, seen)


def _guest_part(trace):
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_own):
        trace = trace.tb_next
    return trace


def _depth(trace) -> int:
    depth = 0
    while trace is not None:
        depth += 1
        trace = trace.tb_next
    return depth


def format_traceback(error: BaseException) -> str:
    trace = _guest_part(error.__traceback__)
    limit = -SHOWN_ENTRIES * 10 if _depth(trace) > DEEPEST else None
    try:
        summary = traceback.TracebackException(type(error), error, trace, limit=limit)
        _clean(summary, set())
        return cut("".join(summary.format()), TRACEBACK_LIMIT)
    except Exception:
        # Exceptions that lie about themselves, or a chain too deep to follow.
        try:
            frames = [frame for frame in traceback.extract_tb(trace, limit=-SHOWN_ENTRIES)]
            frames = "".join(traceback.format_list(frames))
        except Exception:
            frames = ""
        return "Traceback (most recent call last):\n%s%s\n" % (frames, summary_of(error))
