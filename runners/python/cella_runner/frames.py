"""Frames as bytes: JSON, without the Python that is around its C parts."""

import _json
import codecs

FRAME_LIMIT = 16 << 20


def _escape_surrogates(error):
    # A lone surrogate is no UTF-8, and its JSON escape is refused by strict parsers: it travels as visible text.
    return "".join("\\\\u%04x" % ord(char) for char in error.object[error.start : error.end]), error.end


codecs.register_error("cella.json", _escape_surrogates)


class _Reading:
    """How the scanner reads."""

    strict, object_hook, object_pairs_hook = True, None, None
    parse_float, parse_int, parse_constant = float, int, float


# The C parts of json themselves: the Python around them would make up a third of a small run, and of the pages that a
# fork has to copy for it; and to import it takes a zygote milliseconds that the first session waits for.
_scan = _json.make_scanner(_Reading)
_encoder = _json.make_encoder(None, str, _json.encode_basestring, None, ":", ",", False, False, True)


def encode(frame: dict) -> bytes:
    return "".join(_encoder(frame, 0)).encode("utf-8", "cella.json")


def decode(text: str):
    return _scan(text, 0)[0]
