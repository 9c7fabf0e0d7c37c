"""How results look in a notebook.

Outputs are the guest's, and a notebook runs whatever script its HTML holds with the user's own rights. So HTML is shown
in a frame without scripts and SVG as a picture; other active forms are left out.
"""

from __future__ import annotations

from html import escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cella.result import Output, Result

_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_PRE = '<pre style="white-space:pre-wrap;margin:0">{}</pre>'
_RED = '<pre style="white-space:pre-wrap;margin:0;color:#b00020">{}</pre>'
_FRAME = '<iframe sandbox="" style="border:0;width:100%;height:{}px" srcdoc="{}"></iframe>'


def _picture(mime: str, data: str) -> str:
    return f'<img src="data:{mime};base64,{escape("".join(data.split()), quote=True)}">'


def _html_of_output(output: Output) -> str:
    for mime in _PICTURES:
        if mime in output.mime:
            return _picture(mime, output.mime[mime])
    if "image/svg+xml" in output.mime:
        from binascii import b2a_base64

        text = output.mime["image/svg+xml"].encode("utf-8", "surrogatepass")
        return _picture("image/svg+xml", b2a_base64(text).decode())
    if "text/html" in output.mime:
        html = output.mime["text/html"]
        height = min(600, 40 + 22 * (html.count("<tr") + html.count("<br") + html.count("<p") + html.count("\n") // 4))
        return _FRAME.format(height, escape(html, quote=True))
    return _PRE.format(escape(output.text)) if output.text else ""


def bundle_of_output(output: Output) -> dict[str, Any]:
    return {"text/plain": output.text or repr(output), "text/html": _html_of_output(output)}


def bundle_of_result(result: Result) -> dict[str, Any]:
    parts = [_PRE.format(escape(result.stdout))] if result.stdout else []
    if result.stderr:
        parts.append(_RED.format(escape(result.stderr)))
    parts += [html for html in map(_html_of_output, result.outputs) if html]
    error = result.error
    if error is not None:
        parts.append(_RED.format(escape(error.traceback or str(error))))
    elif not result.ok:
        parts.append(_RED.format(escape(f"{result.status}, exit code {result.exit_code}")))
    return {"text/plain": str(result), "text/html": "".join(parts) or _PRE.format(result.status)}
