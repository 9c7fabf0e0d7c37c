"""Exceptions as text: the traceback that Python itself prints, without the runner's frames, folded and bounded."""

import os
import traceback

PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
SHOWN_ENTRIES = 60
DEEPEST = 2000
MESSAGE_LIMIT = 64 << 10
TRACEBACK_LIMIT = 512 << 10


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
        summary.stack = _Stack(frame for frame in summary.stack if not frame.filename.startswith(PACKAGE))
    _clean(summary.__cause__, seen)
    _clean(summary.__context__, seen)
    for part in getattr(summary, "exceptions", None) or ():
        _clean(part, seen)


def _guest_part(trace):
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(PACKAGE):
        trace = trace.tb_next
    return trace


def _depth(trace) -> int:
    depth = 0
    while trace is not None:
        depth += 1
        trace = trace.tb_next
    return depth


def message_of(error: BaseException) -> str:
    try:
        return cut(str.__str__(str(error)), MESSAGE_LIMIT)
    except Exception:
        return "<exception str() failed>"


def name_of(error: BaseException) -> str:
    return type.__getattribute__(type(error), "__name__")


def summary_of(error: BaseException) -> str:
    """One line: `ValueError: text`."""
    message = message_of(error)
    return "%s: %s" % (name_of(error), message) if message else name_of(error)


def cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return "%s\n… [%d characters more] …\n%s" % (text[:half], len(text) - 2 * half, text[-half:])


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


def describe(error: BaseException) -> dict:
    """The `error` frame."""
    return {
        "type": "error",
        "name": name_of(error),
        "message": message_of(error),
        "traceback": format_traceback(error),
    }
