"""Text of values that never fails and never grows without bound, whatever their repr() does."""

from itertools import islice

from .errors import summary_of

_SLICED = (list, tuple, str, bytes)
_ITERATED = (dict, set, frozenset)


def type_name(value) -> str:
    return type.__getattribute__(type(value), "__name__")


def bounded(text: str, limit: int) -> str:
    """At most about `limit` bytes of UTF-8, and how much was left out."""
    if len(text) * 4 <= limit:
        return text
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= limit:
        return text
    kept = data[:limit].decode("utf-8", "ignore")
    return "%s… [%d characters more]" % (kept, len(text) - len(kept))


def text_of(value, limit: int) -> str:
    kind = type(value)
    try:
        # An item shows as one character at least: a huge container need not be turned to text as a whole.
        if kind in _SLICED and len(value) > limit:
            return "%s… [%d items more]" % (bounded(repr(value[:limit])[:-1], limit), len(value) - limit)
        if kind in _ITERATED and len(value) > limit:
            head = islice(value.items(), limit) if kind is dict else islice(value, limit)
            return "%s… [%d items more]" % (bounded(repr(kind(head))[:-1], limit), len(value) - limit)
        text = repr(value)
        return bounded(text if type(text) is str else str.__str__(text), limit)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return bounded("<repr of %s failed: %s>" % (type_name(value), summary_of(error)), limit)
