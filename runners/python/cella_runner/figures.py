"""Figures of matplotlib: shown once, as PNG and SVG, at show() or at the end of the cell, then closed.

Never imports matplotlib: whatever is asked here is asked because the guest has done so.
"""

import base64
import io
import sys

from . import hooks
from .errors import summary_of

SVG_LIMIT = 4 << 20


class _TooLarge(Exception):
    pass


class _BoundedText(io.StringIO):
    def write(self, text):
        if self.tell() + len(text) > SVG_LIMIT:
            raise _TooLarge
        return super().write(text)


def _managers():
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    return helpers.Gcf.get_all_fig_managers() if helpers else []


def _draw(figure) -> dict:
    """The figure's images; a failure is a line on stderr."""
    images = {}
    if not figure.axes and not figure.lines and not figure.texts and not figure.images:
        return images
    try:
        png = io.BytesIO()
        figure.savefig(png, format="png", bbox_inches="tight", dpi=figure.dpi)
        images["image/png"] = base64.b64encode(png.getbuffer()).decode("ascii")
        svg = _BoundedText()
        figure.savefig(svg, format="svg", bbox_inches="tight")
        images["image/svg+xml"] = svg.getvalue()
    except _TooLarge:
        pass  # the PNG is enough
    except Exception as error:
        print("drawing a figure failed: %s" % summary_of(error), file=sys.stderr)
    return images


def _close(figure):
    try:
        helpers = sys.modules.get("matplotlib._pylab_helpers")
        if helpers:
            helpers.Gcf.destroy_fig(figure)
    except Exception as error:
        print("closing a figure failed: %s" % summary_of(error), file=sys.stderr)


def bundle(value, limit: int):
    """(mime, metadata) of a Figure that is displayed or is a value, which thereby has been shown; else None."""
    module = sys.modules.get("matplotlib.figure")
    if module is None or not issubclass(type(value), module.Figure):
        return None
    from .texts import text_of

    images = _draw(value)
    _close(value)
    images["text/plain"] = text_of(value, limit)
    return images, {}


def show_figure(self, warn=True):
    """Show this figure now."""
    images = _draw(self)
    _close(self)
    if images:
        images["text/plain"] = repr(self)
        hooks.session().displays.publish(images)


def show(*_, **__):
    """Show all open figures now."""
    for manager in _managers():
        show_figure(manager.canvas.figure)


def end_cell(draw: bool):
    managers = _managers()
    for manager in managers:
        if draw:
            show_figure(manager.canvas.figure)
        else:
            _close(manager.canvas.figure)
