"""How results look: printed, in a notebook, as files. Outputs are a guest's, and must not act in the caller's name."""

import base64
import pathlib
import struct
import subprocess
import sys
import zlib

import pytest

import cella
import cella.sync
from cella import Result
from support.needs import require
from support.running import LONG

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n rest").decode()


def result(**more):
    return Result({"id": "run_1", "status": "ok", "exit_code": 0, "stdout": "", "stderr": "", "state": "kept", **more})


def outputs(*bundles):
    return result(outputs=[{"mime": bundle, "metadata": {}} for bundle in bundles])


def test_result_prints_like_a_terminal():
    assert str(result(stdout="out\n", value="42")) == "out\n42"
    assert str(result()) == ""
    error = {"name": "ValueError", "message": "no", "traceback": "Traceback ...\nValueError: no"}
    assert str(result(status="error", stdout="out\n", error=error)) == "out\nTraceback ...\nValueError: no"
    assert str(result(status="timeout", exit_code=124)) == "[timeout, exit code 124]"


def test_result_has_a_short_repr():
    assert repr(result(value="42")) == "<Result ok value=42>"
    assert len(repr(result(value="x" * 1000, stdout="y" * 1000))) < 200


def test_result_is_a_json_document():
    first = result(value="42", files=[{"path": "a", "size": 1, "change": "created"}])
    assert Result.from_json(first.to_json()) == first
    assert repr(first.files) == "[FileChange('a', created, 1 bytes)]"


def test_result_without_fields_has_defaults():
    empty = Result({})
    assert (empty.status, empty.ok, empty.value, empty.outputs, empty.error, empty.exit_code) == (
        "error", False, None, [], None, 126,
    )
    assert isinstance(str(empty), str) and isinstance(repr(empty), str)
    assert empty._repr_mimebundle_()


def test_images_are_shown_in_a_notebook():
    html = outputs({"image/png": PNG, "text/plain": "<Figure>"})._repr_mimebundle_()["text/html"]
    assert f'<img src="data:image/png;base64,{PNG}">' in html


def test_output_of_a_guest_is_escaped_in_a_notebook():
    evil = "<script>alert(1)</script>"
    error = {"name": "E", "message": evil, "traceback": evil}
    bundle = result(stdout=evil, stderr=evil, status="error", error=error)._repr_mimebundle_()
    assert "<script" not in bundle["text/html"] and bundle["text/html"].count("&lt;script") == 3


def test_html_and_svg_of_a_guest_cannot_run_scripts():
    evil = '<script>alert("x")</script><img src=x onerror=alert(1)>'
    html = outputs({"text/html": evil})._repr_mimebundle_()["text/html"]
    assert html.startswith('<iframe sandbox=""') and "<script" not in html and "onerror=alert(1)>" not in html
    svg = outputs({"image/svg+xml": f"<svg onload=alert(1)>{evil}</svg>"})._repr_mimebundle_()["text/html"]
    assert svg.startswith('<img src="data:image/svg+xml;base64,') and "onload" not in svg
    assert "application/javascript" not in outputs({"application/javascript": "alert(1)"})._repr_mimebundle_()
    quote = outputs({"image/png": '"><script>alert(1)</script>'})._repr_mimebundle_()["text/html"]
    assert "<script" not in quote


def test_images_are_saved(tmp_path):
    many = outputs({"image/png": PNG, "image/svg+xml": "<svg/>"}, {"text/plain": "x"}, {"image/svg+xml": "<svg/>"})
    paths = many.save_images(tmp_path / "new")
    assert [path.rpartition("/")[2] for path in paths] == ["run_1-1.png", "run_1-2.svg"]
    assert (tmp_path / "new" / "run_1-1.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "new" / "run_1-2.svg").read_text() == "<svg/>"


def test_run_id_cannot_lead_out_of_the_directory(tmp_path):
    evil = Result({"id": "../../evil", "outputs": [{"mime": {"image/png": PNG}}]})
    assert evil.save_images(tmp_path) == [str(tmp_path / "evil-1.png")]
    broken = Result({"id": "x", "outputs": [{"mime": {"image/png": "!"}}]})
    assert broken.save_images(tmp_path) == [str(tmp_path / "x-1.png")]


def test_png_representation_round_trips(session, wait, tmp_path):
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


def test_events_have_typed_fields():
    event = cella.Event({"n": 3, "type": "error", "name": "E", "message": "m", "traceback": ""})
    assert (event.n, str(event.error), event.text, event.prompt) == (3, "E: m", "", "")
    assert cella.Event({"type": "finished", "error": None}).error is None


PNG_HEAD = "iVBORw0KGgoAAAANSUhEUgAAAoAAAAHg"  # 640x480


def test_text_of_a_result_names_pictures_and_shows_displays():
    table = {"mime": {"text/plain": "   a\n0  1", "text/html": "<table/>"}, "metadata": {}}
    figure = {"mime": {"text/plain": "<Figure>", "image/png": PNG_HEAD}, "metadata": {}}
    number = {"mime": {"text/plain": "42"}, "metadata": {}}
    assert str(result(outputs=[table, figure])) == "   a\n0  1\n[image/png 640x480]"
    assert str(result(stdout="out\n", value="42", outputs=[number])) == "out\n42"
    assert str(result(value="<Figure>", outputs=[figure])) == "[image/png 640x480]"
    assert str(result(outputs=[{"mime": {"text/html": "<b>"}}, {"mime": {"image/svg+xml": "<svg/>"}}])) == (
        "[text/html]\n[image/svg+xml]"
    )
    broken = result(outputs=[{"mime": {"image/png": "not base64 at all"}}])
    assert str(broken) == "[image/png]"


def test_items_are_in_the_order_of_the_code(open_session, wait):
    session = open_session(cella.InProcessExecutor())
    code = "for n in range(3):\n    print('text', n)\n    display(n)\nprint('end')\n'value'"
    for _ in range(100):
        done = wait(session.run(code))
        assert str(done) == "text 0\n0\ntext 1\n1\ntext 2\n2\nend\n'value'"
        assert [type(item).__name__ for item in done.items] == ["Text", "Output"] * 3 + ["Text", "Output"]


def kernel():
    return cella.SubprocessExecutor(python_version=require("jupyter")["JUPYTER_PYTHON"])


@pytest.mark.parametrize("executor", [cella.SandboxExecutor, pytest.param(kernel, marks=pytest.mark.needs("jupyter"))])
def test_items_of_a_server_are_in_the_order_of_the_code(open_session, wait, executor):
    session = open_session(executor())
    code = (
        "import sys\nprint('first')\ndisplay('shown')\nprint('said'); print('warned', file=sys.stderr)\n"
        "display(2)\nprint('last', end='')\n'value'"
    )
    done = wait(session.run(code))
    assert done.ok, done
    assert [str(item) for item in done.items] == ["first\n", "'shown'", "said\n", "warned\n", "2", "last", "'value'"]
    assert str(done) == "first\n'shown'\nsaid\nwarned\n2\nlast\n'value'"


def test_items_of_text_alone_are_the_streams(session, wait):
    done = wait(session.run("import sys\nprint('a', file=sys.stderr)\nprint('b')"))
    assert [(item.stream, item.text) for item in done.items] == [("stdout", "b\n"), ("stderr", "a\n")]


def test_items_of_bytes_that_are_no_text_stay_in_order(session, wait):
    done = wait(session.run("import os\nos.write(1, b'\\xff1')\ndisplay(1)\nos.write(1, '\u00e9'.encode())\nNone"))
    assert [str(item) for item in done.items] == ["\ufffd1", "1", "\u00e9"] and done.stdout == "\ufffd1\u00e9"


def test_a_failed_run_shows_its_items_before_the_traceback(session, wait):
    done = wait(session.run("print('a')\ndisplay(1)\nprint('b')\n1 / 0"))
    assert str(done).startswith("a\n1\nb\nTraceback") and str(done).endswith("ZeroDivisionError: division by zero")


# Text of all kinds in turns with displays, and a value at the end.
IN_TURNS = """
import os, subprocess, sys
for n in range(3):
    print('text', n, end='')
    display(n)
    os.write(1, b'raw')
    display('x' * n * 30000)
    if not n: subprocess.run(['echo', 'child'])
print('end', end='')
'value'
"""
FAILING = IN_TURNS.replace("'value'", "1 / 0")
SHOWN = ["text 0", "0", "raw", "''", "child\ntext 1", "1", "raw", "x", "text 2", "2", "raw", "x", "end"]


@pytest.mark.parametrize("busy", [0, 2])
def test_text_and_displays_arrive_in_the_order_of_the_code(busy):
    """Also with busy loops beside them, and before an error. Text travels in pipes, displays on a socket."""
    loop = "import time\nend = time.monotonic() + 600\nwhile time.monotonic() < end: pass"
    loops = [subprocess.Popen([sys.executable, "-c", loop]) for _ in range(busy)]
    try:
        with cella.sync.Session() as session:
            for number in range(500 if LONG else 60):
                code, last = (IN_TURNS, "'value'") if number % 2 else (FAILING, "ZeroDivisionError")
                shown, was_text = [], False
                for event in session.stream(code):
                    if event.type == "stdout" and was_text:
                        shown[-1] += event.text
                    elif event.type in ("stdout", "display", "value", "error"):
                        shown.append(event.error.name if event.error else event.text or event.output.text)
                        was_text = event.type == "stdout"
                assert [text if len(text) < 100 else text[1] for text in shown] == [*SHOWN, last]
                items = [type(item).__name__ for item in session.run(code).items]
                assert items == (["Text", "Output"] * 7)[: 14 if code is IN_TURNS else 13]
    finally:
        for each in loops:
            each.kill()
            each.wait()


def test_interrupted_display_does_not_hold_up_the_text(open_session, wait):
    """A mark without its display: the text behind it comes all the same, and the next display has its place."""
    session = open_session()
    code = """
import __main__, os, sys
runner = sys.modules["cella_runner.hooks"].session()
print("before")
sys.stdout.flush()
runner.mark_text()
print("behind")
display("shown")
print("end")
"""
    done = wait(session.run(code))
    assert [str(item) for item in done.items] == ["before\nbehind\n", "'shown'", "end\n"]
    forged = wait(session.run("import sys; runner.mark_text(); print('text')"))
    assert forged.stdout == "text\n"


# Random bytes, as a picture that no compression makes smaller.
LARGE = """
import base64, os
class Picture:
    def __init__(self, size): self.size = size
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"image/png": base64.b64encode(os.urandom(self.size)).decode(), "text/plain": "<Picture>"}
"""


def test_result_with_callbacks_has_its_large_plots(session, wait):
    wait(session.run(LARGE))
    for number in range(30):
        events = []
        done = wait(session.run("display(Picture(3_000_000))", on_display=events.append))
        assert len(done.outputs) == len(events) == 1, number
        assert len(done.outputs[0].data("image/png")) == 3_000_000
        assert done.outputs[0].mime == events[0].mime


def test_result_of_a_started_run_has_its_large_plots_later(session, wait):
    wait(session.run(LARGE))
    run = wait(session.start("print('a'); display(Picture(3_000_000))"))
    for _ in range(3):
        done = wait(run.result())
        assert len(done.outputs[0].data("image/png")) == 3_000_000 and str(done.items[0]) == "a\n"
    assert wait(session.fetch_output(done, 0, "image/png")) == done.outputs[0].data("image/png")
    assert wait(session.fetch_output(done.id, 0, "text/plain")) == b"<Picture>"


def test_outputs_that_exceed_a_result_are_named_and_can_be_fetched(session, wait):
    wait(session.run(LARGE))
    done = wait(session.run("for _ in range(5): display(Picture(6_000_000))\ndisplay('small')"))
    assert done.ok and len(done.outputs) == 6 and done.truncated["outputs"] == 1, done.truncated
    whole, left_out = done.outputs[0], done.outputs[4]
    assert len(whole.data("image/png")) == 6_000_000 and whole.left_out == {}
    assert left_out.mime == {"text/plain": "<Picture>"} and left_out.left_out == {"image/png": 8_000_000}
    assert str(left_out) == "<Picture>\n[left out: image/png, 8000000 bytes]" and str(left_out) in str(done)
    assert done.outputs[5].text == "'small'"
    for index in (0, 4):
        assert len(wait(session.fetch_output(done, index, "image/png"))) == 6_000_000
    with pytest.raises(cella.errors.NotFound, match="it has image/png, text/plain"):
        wait(session.fetch_output(done, 0, "image/gif"))
    with pytest.raises(cella.errors.NotFound, match="no output 6"):
        wait(session.fetch_output(done, 6, "image/png"))


def test_output_of_an_inprocess_session_can_be_fetched(open_session, wait):
    session = open_session(cella.InProcessExecutor())
    done = wait(session.run("display('shown')"))
    assert wait(session.fetch_output(done, 0, "text/plain")) == b"'shown'"
    with pytest.raises(cella.errors.NotFound):
        wait(session.fetch_output(done, 1, "text/plain"))
