"""display(), update_display() and the value of a cell, as frames: bounded in size and number."""

import builtins
import os
import sys

from . import mime
from .errors import summary_of
from .frames import FRAME_LIMIT, encode
from .texts import text_of

MOST_DISPLAYS = 1000
# The supervisor takes the text alone of a bundle with more.
MOST_TYPES = 64
MOST_METADATA = 1000


class DisplayHandle:
    """What display(..., display_id=...) returns: shows and updates under one id."""

    def __init__(self, displays, display_id: str):
        self._displays = displays
        self.display_id = display_id

    def __repr__(self):
        return "<DisplayHandle display_id=%s>" % self.display_id

    def display(self, *objects, **options):
        self._displays.display(*objects, display_id=self.display_id, **options)

    def update(self, *objects, **options):
        self._displays.display(*objects, display_id=self.display_id, update=True, **options)


class Displays:
    def __init__(self, session, names=builtins.__dict__):
        """`names` are the built-in names of the session."""
        self._session = session
        self._names = names
        self._sent = 0
        self.dropped = 0

    def install(self):
        self._names["display"] = self.display
        self._names["update_display"] = self.update_display
        self._names["clear_output"] = self.clear_output

    def begin(self):
        self._sent = self.dropped = 0

    def end(self, draw=True):
        """After a cell: its figures, and a word about what was left out."""
        if "matplotlib.pyplot" in sys.modules:
            from . import figures

            try:
                figures.end_cell(draw)
            except Exception as error:
                print("showing figures failed: %s" % summary_of(error), file=sys.stderr)
        if self.dropped:
            text = "[%d more displays of this run were dropped: at most %d are sent]" % (self.dropped, MOST_DISPLAYS)
            self._send_display({"text/plain": text}, None, None, False)

    def value(self, value):
        self._session.interrupts.check()
        self._names["_"] = value
        limit = self._session.value_limit
        if mime.is_plain(value):
            bundle, metadata = {"text/plain": text_of(value, limit)}, {}
        elif "_ipython_display_" in mime.defined(value):
            self._display_itself(value)
            bundle, metadata = {"text/plain": text_of(value, limit)}, {}
        else:
            bundle, metadata = self._bundle(value)
        text = bundle["text/plain"]
        self._session.streams.flush()
        self._send({"type": "value", "text": text, "mime": bundle, "metadata": metadata})

    def display(self, *objects, display_id=None, update=False, raw=False, metadata=None, **_):
        """Show objects, with every representation that they have."""
        if display_id is True:
            display_id = os.urandom(16).hex()
        if display_id is not None:
            display_id = str(display_id)
        for value in objects:
            if raw:
                self.publish(mime.raw(value, self._session.value_limit), metadata, display_id, update)
            elif not mime.is_plain(value) and "_ipython_display_" in mime.defined(value):
                self._display_itself(value)
            else:
                bundle, own = self._bundle(value)
                own.update(mime.clean_metadata(metadata))
                self.publish(bundle, own, display_id, update)
        return DisplayHandle(self, display_id) if display_id is not None and not update else None

    def update_display(self, value, *, display_id, **options):
        """Replace what was shown under that id."""
        self.display(value, display_id=display_id, update=True, **options)

    def clear_output(self, wait=False):
        """Accepted; what was shown stays shown."""

    def publish(self, bundle: dict, metadata=None, display_id=None, update=False):
        """One display frame."""
        if self._sent >= MOST_DISPLAYS:
            self.dropped += 1
            return
        self._sent += 1
        self._send_display(bundle, metadata, display_id, bool(update))

    def _send_display(self, bundle: dict, metadata, display_id, update):
        metadata = mime.clean_metadata(metadata)
        frame = {"type": "display", "mime": bundle, "metadata": metadata, "display_id": display_id, "update": update}
        self._session.streams.flush()
        mark = self._session.mark_text()
        if mark:
            frame["mark"] = mark
        self._send(frame)

    def _bundle(self, value):
        limit = self._session.value_limit
        if "matplotlib.figure" in sys.modules:
            from . import figures

            drawn = figures.bundle(value, limit)
            if drawn is not None:
                return drawn
        return mime.bundle(value, limit)

    def _display_itself(self, value):
        try:
            value._ipython_display_()
        except Exception as error:
            print("_ipython_display_ failed: %s" % summary_of(error), file=sys.stderr)

    def _send(self, frame: dict):
        if len(frame["mime"]) > MOST_TYPES:
            text = bundle_text(frame["mime"])
            note = "[%d representations were left out: at most %d are sent]" % (len(frame["mime"]) - 1, MOST_TYPES)
            frame["mime"] = {"text/plain": text + "\n" + note if text else note}
        if mime.count_nodes(frame["metadata"], MOST_METADATA) > MOST_METADATA:
            frame["metadata"] = {}
            print("metadata of more than %d values was left out" % MOST_METADATA, file=sys.stderr)
        body = encode(frame)
        if len(body) > FRAME_LIMIT:
            body = encode(reduced(frame, len(body)))
        self._session.channel.send_bytes(body)


def reduced(frame: dict, size: int) -> dict:
    """A frame that is too large, with a note in place of its content."""
    text = bundle_text(frame["mime"])
    note = "[a display of %.1f MiB was left out: at most 16 MiB are sent]" % (size / (1 << 20))
    changed = dict(frame, mime={"text/plain": text + "\n" + note if text else note})
    if "text" in frame:
        changed["text"] = text
    return changed


def bundle_text(bundle: dict) -> str:
    """What stays of a bundle that is too large: its plain text, if that is small."""
    text = bundle.get("text/plain", "")
    return text if len(text) <= 1 << 20 else text[: 1 << 20] + "…"
