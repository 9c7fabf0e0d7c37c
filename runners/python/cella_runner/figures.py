"""Figures of matplotlib: shown once, at show() or at the end of the cell, then closed.

They are drawn as PNG; `%config InlineBackend.figure_formats = ["png", "svg"]` asks for other formats.

Never imports matplotlib: whatever is asked here is asked because the guest has done so.
"""

import base64
import io
import sys

from . import hooks
from .errors import summary_of

SVG_LIMIT = 4 << 20
FORMATS = ("png", "svg")

formats = ("png",)


class _TooLarge(Exception):
    pass


class _BoundedText(io.StringIO):
    def write(self, text):
        if self.tell() + len(text) > SVG_LIMIT:
            raise _TooLarge
        return super().write(text)


def choose(wanted):
    """`svg`, or several; "retina" and others that do not exist here are PNG."""
    global formats
    names = [wanted] if isinstance(wanted, str) else list(wanted)
    formats = tuple(sorted({name if name in FORMATS else "png" for name in names})) or ("png",)


def managers():
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    return helpers.Gcf.get_all_fig_managers() if helpers else []


def _draw(figure) -> dict:
    """The figure's images; a failure is a line on stderr."""
    images = {}
    if not figure.axes and not figure.lines and not figure.texts and not figure.images:
        return images
    try:
        if "svg" in formats:
            svg = _BoundedText()
            try:
                figure.savefig(svg, format="svg", bbox_inches="tight")
                images["image/svg+xml"] = svg.getvalue()
            except _TooLarge:
                pass  # a PNG takes its place
        if "png" in formats or not images:
            png = io.BytesIO()
            figure.savefig(png, format="png", bbox_inches="tight", dpi=figure.dpi)
            images["image/png"] = base64.b64encode(png.getbuffer()).decode("ascii")
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


def draw_and_close(figure) -> dict:
    """Its bundle; empty, if nothing is drawn in it."""
    images = _draw(figure)
    _close(figure)
    if images:
        images["text/plain"] = repr(figure)
    return images


def show_figure(self, warn=True):
    """Show this figure now."""
    images = draw_and_close(self)
    if images:
        hooks.session().displays.publish(images)


def show(*_, **__):
    """Show all open figures now."""
    for manager in managers():
        show_figure(manager.canvas.figure)


def end_cell(draw: bool):
    for manager in managers():
        if draw:
            show_figure(manager.canvas.figure)
        else:
            _close(manager.canvas.figure)
