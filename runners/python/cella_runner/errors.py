"""Exceptions as text, bounded, whatever they say about themselves."""

MESSAGE_LIMIT = 64 << 10


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


def describe(error: BaseException) -> dict:
    """The `error` frame."""
    try:
        from .tracebacks import format_traceback

        text = format_traceback(error)
    except Exception:
        # The first to need it imports it, and what went wrong may keep that from working: no descriptors, no memory.
        text = "Traceback (most recent call last):\n%s\n" % summary_of(error)
    return {"type": "error", "name": name_of(error), "message": message_of(error), "traceback": text}
