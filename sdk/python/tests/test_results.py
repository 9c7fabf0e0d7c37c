"""How results look: printed, in a notebook, as files. Outputs are a guest's, and must not act in the caller's name."""

import base64
import pathlib
import struct
import zlib

import cella
from cella import Result

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n rest").decode()


def result(**more):
    return Result({"id": "run_1", "status": "ok", "exit_code": 0, "stdout": "", "stderr": "", "state": "kept", **more})


def outputs(*bundles):
    return result(outputs=[{"mime": bundle, "metadata": {}} for bundle in bundles])


def test_a_result_prints_as_a_terminal_would_show_it():
    assert str(result(stdout="out\n", value="42")) == "out\n42"
    assert str(result()) == ""
    error = {"name": "ValueError", "message": "no", "traceback": "Traceback ...\nValueError: no"}
    assert str(result(status="error", stdout="out\n", error=error)) == "out\nTraceback ...\nValueError: no"
    assert str(result(status="timeout", exit_code=124)) == "[timeout, exit code 124]"


def test_a_result_has_a_short_repr():
    assert repr(result(value="42")) == "<Result ok value=42>"
    assert len(repr(result(value="x" * 1000, stdout="y" * 1000))) < 200


def test_a_result_is_a_json_document():
    first = result(value="42", files=[{"path": "a", "size": 1, "change": "created"}])
    assert Result.from_json(first.to_json()) == first
    assert repr(first.files) == "[FileChange('a', created, 1 bytes)]"


def test_a_result_of_another_server_that_lacks_everything_is_still_one():
    empty = Result({})
    assert (empty.status, empty.ok, empty.value, empty.outputs, empty.error, empty.exit_code) == (
        "error", False, None, [], None, 126,
    )
    assert isinstance(str(empty), str) and isinstance(repr(empty), str)
    assert empty._repr_mimebundle_()


def test_pictures_are_shown_in_a_notebook():
    html = outputs({"image/png": PNG, "text/plain": "<Figure>"})._repr_mimebundle_()["text/html"]
    assert f'<img src="data:image/png;base64,{PNG}">' in html


def test_what_a_guest_prints_is_text_in_a_notebook():
    evil = "<script>alert(1)</script>"
    error = {"name": "E", "message": evil, "traceback": evil}
    bundle = result(stdout=evil, stderr=evil, status="error", error=error)._repr_mimebundle_()
    assert "<script" not in bundle["text/html"] and bundle["text/html"].count("&lt;script") == 3


def test_html_and_svg_of_a_guest_cannot_act():
    evil = '<script>alert("x")</script><img src=x onerror=alert(1)>'
    html = outputs({"text/html": evil})._repr_mimebundle_()["text/html"]
    assert html.startswith('<iframe sandbox=""') and "<script" not in html and "onerror=alert(1)>" not in html
    svg = outputs({"image/svg+xml": f"<svg onload=alert(1)>{evil}</svg>"})._repr_mimebundle_()["text/html"]
    assert svg.startswith('<img src="data:image/svg+xml;base64,') and "onload" not in svg
    assert "application/javascript" not in outputs({"application/javascript": "alert(1)"})._repr_mimebundle_()
    quote = outputs({"image/png": '"><script>alert(1)</script>'})._repr_mimebundle_()["text/html"]
    assert "<script" not in quote


def test_pictures_are_saved(tmp_path):
    many = outputs({"image/png": PNG, "image/svg+xml": "<svg/>"}, {"text/plain": "x"}, {"image/svg+xml": "<svg/>"})
    paths = many.save_images(tmp_path / "new")
    assert [path.rpartition("/")[2] for path in paths] == ["run_1-1.png", "run_1-2.svg"]
    assert (tmp_path / "new" / "run_1-1.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "new" / "run_1-2.svg").read_text() == "<svg/>"


def test_no_name_of_a_guest_leads_out_of_the_directory(tmp_path):
    evil = Result({"id": "../../evil", "outputs": [{"mime": {"image/png": PNG}}]})
    assert evil.save_images(tmp_path) == [str(tmp_path / "evil-1.png")]
    broken = Result({"id": "x", "outputs": [{"mime": {"image/png": "!"}}]})
    assert broken.save_images(tmp_path) == [str(tmp_path / "x-1.png")]


def test_a_real_picture_comes_back_whole(session, wait, tmp_path):
    """As matplotlib does it, without matplotlib: an object with a _repr_png_."""
    raw = zlib.compress(b"\0" + b"\xff\0\0" * 2)
    chunk = "lambda kind, data: struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))"
    code = f"""
import struct, zlib
chunk = {chunk}
class Picture:
    def _repr_png_(self):
        head = chunk(b'IHDR', struct.pack('>IIBBBBB', 2, 1, 8, 2, 0, 0, 0))
        return b'\\x89PNG\\r\\n\\x1a\\n' + head + chunk(b'IDAT', {raw!r}) + chunk(b'IEND', b'')
display(Picture())
Picture()
"""
    made = wait(session.run(code))
    assert made.ok, made
    first, second = made.save_images(tmp_path)
    data = pathlib.Path(first).read_bytes()
    assert data == pathlib.Path(second).read_bytes() and struct.unpack(">II", data[16:24]) == (2, 1)
    assert made.outputs[0].data("image/png") == data and made.outputs[0].data("image/gif") is None


def test_events_have_their_parts():
    event = cella.Event({"n": 3, "type": "error", "name": "E", "message": "m", "traceback": ""})
    assert (event.n, str(event.error), event.text, event.prompt) == (3, "E: m", "", "")
    assert cella.Event({"type": "finished", "error": None}).error is None
