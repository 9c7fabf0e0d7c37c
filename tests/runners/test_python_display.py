"""Values and displays of the Python runner: rich representations, bounds, and objects that misbehave."""

import base64
import json
import subprocess

import pytest

from driver import ENVIRONMENT
from python_runner import INTERPRETERS, SYSTEM, Zygote, can_import, runner, start  # noqa: F401

RICH = """
class Rich:
    def _repr_html_(self): return '<b>html</b>'
    def _repr_svg_(self): return '<svg/>'
    def _repr_png_(self): return b'\\x89PNG'
    def _repr_jpeg_(self): return (b'jpeg', {'width': 3})
    def _repr_latex_(self): return '$x$'
    def _repr_markdown_(self): return '*m*'
    def _repr_json_(self): return {'a': [1]}
    def _repr_javascript_(self): return 'alert()'
    def _repr_pdf_(self): return b'%PDF'
    def __repr__(self): return 'Rich()'
"""


def test_every_rich_representation_is_sent(runner):
    outcome = runner.run(RICH + "Rich()")
    value = outcome.of("value")[0]
    assert value["text"] == "Rich()"
    assert value["mime"] == {
        "text/plain": "Rich()",
        "text/html": "<b>html</b>",
        "image/svg+xml": "<svg/>",
        "image/png": base64.b64encode(b"\x89PNG").decode(),
        "image/jpeg": base64.b64encode(b"jpeg").decode(),
        "text/latex": "$x$",
        "text/markdown": "*m*",
        "application/json": '{"a": [1]}',
        "application/javascript": "alert()",
        "application/pdf": base64.b64encode(b"%PDF").decode(),
    }
    assert value["metadata"] == {"image/jpeg": {"width": 3}}


def test_mime_bundle_is_sent(runner):
    code = """
class Bundle:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {'text/html': '<i>', 'application/x+json': {'k': 1}, 'image/png': b'png', 'text/none': None}, {'x': 1}
    def _repr_html_(self): return 'not this'
Bundle()
"""
    value = runner.run(code).of("value")[0]
    assert value["mime"]["text/html"] == "<i>" and value["mime"]["application/x+json"] == '{"k": 1}'
    assert value["mime"]["image/png"] == base64.b64encode(b"png").decode() and "text/none" not in value["mime"]
    assert value["metadata"] == {"x": 1}


def test_display_and_update_are_sent(runner):
    code = "handle = display(Rich(), 1, display_id='d', metadata={'m': 2})\nhandle.update('two')\nhandle"
    outcome = runner.run(RICH + code)
    first, second, third = outcome.displays
    assert first["mime"]["text/html"] == "<b>html</b>" and first["metadata"]["m"] == 2
    assert (first["display_id"], first["update"]) == ("d", False)
    assert second["mime"] == {"text/plain": "1"}
    assert (third["mime"], third["display_id"], third["update"]) == ({"text/plain": "'two'"}, "d", True)
    assert outcome.value == "<DisplayHandle display_id=d>"
    assert runner.run("update_display(3, display_id='d')").displays[0]["update"] is True
    assert runner.run("display(1) is None and clear_output() is None").value == "True"
    assert len(runner.run("display(display_id=True).display_id").value) == 34
    outcome = runner.run("display({'text/html': '<p>', 'image/png': b'x'}, raw=True)")
    assert outcome.displays[0]["mime"] == {"text/html": "<p>", "image/png": "eA=="}


def test_text_printed_before_a_display_is_written_first(runner):
    runner.start("import sys; sys.stdout.write('first'); display(2)\nimport time; time.sleep(60)")
    assert runner.receive()["type"] == "display"
    assert runner.stdout.take() == "first"
    runner.interrupt()
    runner.finish()


MARK = "\0cella t0k {}\0"


def test_place_of_a_display_is_marked_in_the_text(runner):
    code = """
import os, subprocess, sys
sys.stdout.write('a')
display(1)
subprocess.run(['printf', 'b'])
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
display(2, 3)
sys.stdout.write('c')
"""
    outcome = runner.run(code, mark="t0k")
    assert [frame["mark"] for frame in outcome.displays] == [1, 2, 3]
    assert outcome.stdout == "a" + MARK.format(1) + "b" + MARK.format(2) + MARK.format(3) + "c"
    # The pipe is marked, not what the cell has put in its place.
    assert outcome.stderr == "".join(map(MARK.format, (1, 2, 3)))


def test_runs_without_displays_or_without_a_token_write_no_marks(runner):
    assert "\0" not in runner.run("print('a'); 42", mark="t0k").stdout
    outcome = runner.run("print('a'); display(1)")
    assert outcome.stdout == "a\n" and "mark" not in outcome.displays[0]


def test_numbers_of_marks_begin_anew_with_each_run(runner):
    for token in ("t1", "t2"):
        outcome = runner.run("display(1)", mark=token)
        assert outcome.displays[0]["mark"] == 1 and outcome.stdout == f"\0cella {token} 1\0"


def test_child_that_displays_writes_no_mark(runner):
    code = "import os\npid = os.fork()\nif pid == 0:\n    display(1)\n    os._exit(0)\n_ = os.waitpid(pid, 0)"
    outcome = runner.run(code, mark="t0k")
    assert outcome.stdout == "" and outcome.displays == []


def test_text_before_a_value_is_written_first(runner):
    runner.start("print('first', end='')\nclass Slow:\n    def __repr__(self): return 'slow'\nSlow()")
    while runner.receive()["type"] != "value":
        pass
    assert runner.stdout.take() == "first"
    runner.finish()


@pytest.mark.parametrize(
    "body, expected",
    [
        ("def __repr__(self): raise ValueError('x')", "<repr of Odd failed: ValueError: x>"),
        ("def __repr__(self): return 5", "<repr of Odd failed: TypeError: __repr__ returned non-string (type int)>"),
        ("def __repr__(self): return repr(self)", "<repr of Odd failed: RecursionError: maximum recursion depth"),
        ("def __repr__(self): raise SystemExit(3)", "<repr of Odd failed: SystemExit: 3>"),
        ("def __repr__(self): print('printed'); return 'text'", "text"),
        ("def __getattr__(self, name): return lambda *a: 1/0\n    def __repr__(self): return 'any'", "any"),
        ("def _repr_html_(self): 1/0\n    def __repr__(self): return 'plain'", "plain"),
        ("def _repr_html_(self): return object\n    def __repr__(self): return 'plain'", "plain"),
        ("def _repr_mimebundle_(self, **_): return 7\n    def __repr__(self): return 'plain'", "plain"),
        ("def __eq__(self, other): 1/0\n    def __bool__(self): 1/0\n    def __repr__(self): return 'eq'", "eq"),
        ("@property\n    def __class__(self): 1/0\n    def __repr__(self): return 'class'", "class"),
        (
            "class Meta(type):\n        __eq__ = lambda *_: 1/0\n        __hash__ = None\n"
            "class Odd(metaclass=Odd.Meta): pass",
            "<",
        ),
        ("def _ipython_display_(self): display(7)\n    def __repr__(self): return 'itself'", "itself"),
    ],
)
def test_objects_with_failing_representations_are_shown(runner, body, expected):
    outcome = runner.run("class Odd:\n    %s\nOdd()" % body)
    assert outcome.status == "ok" and outcome.value.startswith(expected)
    assert runner.run("class Odd:\n    %s\ndisplay(Odd())" % body).displays
    assert runner.run("1").value == "1"


def test_an_interrupt_ends_an_endless_repr(runner):
    runner.start("class Odd:\n    def __repr__(self):\n        print('on')\n        while True: pass\nOdd()")
    runner.wait_for_output("on")
    runner.interrupt()
    assert runner.finish().status == "interrupted"


@pytest.mark.parametrize(
    "code", ["'a' * 10**7", "[1] * 10**7", "dict.fromkeys(range(10**6))", "b'x' * 10**7", "set(range(10**6))"]
)
def test_values_are_truncated_at_the_limit(runner, code):
    runner.configure(value_limit=1000)
    value = runner.run(code).value
    assert len(value) < 1100 and "more]" in value[-30:]


def test_truncated_value_reports_the_omitted_bytes(runner):
    runner.configure(value_limit=100)
    code = "class T:\n    def __repr__(self): return 'é' * 80\nT()"
    assert runner.run(code).value == "é" * 50 + "… [30 characters more]"
    assert runner.run("'é' * 40").value == repr("é" * 40)


def test_a_display_above_the_frame_limit_is_replaced(runner):
    code = "class Big:\n    def _repr_html_(self): return 'x' * (17 << 20)\n    def __repr__(self): return 'Big()'\n"
    mime = runner.run(code + "display(Big())").displays[0]["mime"]
    assert list(mime) == ["text/plain"] and mime["text/plain"].startswith("Big()\n[a display of 17.0 MiB was left out")
    assert runner.run("Big()").value == "Big()"


def test_displays_beyond_a_thousand_are_counted(runner):
    outcome = runner.run("for n in range(1234): display(n)")
    assert len(outcome.displays) == 1001 and outcome.done["displays_dropped"] == 234
    assert "234 more displays" in outcome.displays[-1]["mime"]["text/plain"]
    assert runner.run("display(1)").done["displays_dropped"] == 0


needs_science = pytest.mark.skipif(
    not can_import(SYSTEM, "matplotlib.pyplot, pandas"), reason="%s has no matplotlib and pandas" % SYSTEM
)


@pytest.fixture(scope="module")
def fonts():
    """Matplotlib lists them when it is first used in a home, and says so on stderr where that takes long."""
    subprocess.run([SYSTEM, "-c", "import matplotlib.pyplot"], env=ENVIRONMENT, check=True)


@pytest.fixture(params=["exec", "zygote", "preloaded"])
def scientist(request, fonts):
    """The distribution's Python with its packages, started in each way."""
    if request.param == "exec":
        with start(SYSTEM) as started:
            yield started.configure()
        return
    preload = ["matplotlib.pyplot", "pandas"] if request.param == "preloaded" else []
    with Zygote(SYSTEM, json.dumps({"preload": preload})) as zygote:
        assert zygote.greeting == b"ready"
        with zygote.fork() as started:
            yield started.configure()


@needs_science
def test_figures_are_svg_where_the_code_asks_for_it(scientist):
    code = "import matplotlib.pyplot as plt\n%config InlineBackend.figure_formats = ['svg']\nplt.plot([1]);"
    (display,) = scientist.run(code).displays
    assert "<svg" in display["mime"]["image/svg+xml"] and "image/png" not in display["mime"]
    (display,) = scientist.run("%config InlineBackend.figure_format = 'retina'\nplt.plot([1]);").displays
    assert sorted(display["mime"]) == ["image/png", "text/plain"]
    assert scientist.run("%config InlineBackend.figure_format = oops").error["name"] == "UsageError"


@needs_science
def test_tables_show_all_of_their_columns(scientist):
    outcome = scientist.run("import pandas\npandas.DataFrame({'column_%02d' % n: [n] for n in range(12)}).head()")
    assert "..." not in outcome.value and "column_07" in outcome.value


@needs_science
def test_figures_are_shown_once_at_the_end_of_the_cell(scientist):
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2]);\nfig = plt.figure(); fig.suptitle('t');"
    outcome = scientist.run(code)
    assert outcome.status == "ok" and outcome.stderr == ""
    assert [sorted(frame["mime"]) for frame in outcome.displays] == [["image/png", "text/plain"]] * 2
    assert base64.b64decode(outcome.displays[0]["mime"]["image/png"])[:4] == b"\x89PNG"
    assert scientist.run("plt.get_fignums()").value == "[]"
    outcome = scientist.run("plt.plot([1]); plt.show(); display('after')")
    assert [len(frame["mime"]) for frame in outcome.displays] == [2, 1]
    outcome = scientist.run("fig, ax = plt.subplots(); ax.plot([1]); fig.show(); 1")
    assert len(outcome.displays) == 1 and outcome.stderr == ""
    outcome = scientist.run("fig, ax = plt.subplots(); ax.plot([1]); fig")
    assert sorted(outcome.mime) == ["image/png", "text/plain"] and outcome.displays == []
    outcome = scientist.run("fig, ax = plt.subplots(); ax.plot([1]); display(fig)")
    assert len(outcome.displays) == 1
    outcome = scientist.run("plt.plot([1]); plt.savefig('/dev/null', format='png'); plt.close()")
    assert outcome.displays == []
    outcome = scientist.run("plt.plot([1]); 1/0")
    assert outcome.status == "error" and len(outcome.displays) == 1
    assert scientist.run("import os; 'MPLBACKEND' in os.environ, plt.get_backend()").value == "(False, 'agg')"


@needs_science
def test_figure_that_cannot_be_drawn_is_reported_on_stderr(scientist):
    outcome = scientist.run("import matplotlib.pyplot as plt\nplt.title('$\\\\frac{$'); None")
    assert outcome.status == "ok" and outcome.displays == [] and "drawing a figure failed" in outcome.stderr
    assert scientist.run("plt.get_fignums()").value == "[]"


@needs_science
def test_agg_and_inline_backends_show_figures(scientist):
    code = "%matplotlib inline\nimport matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt\n"
    outcome = scientist.run(code + "plt.plot([1]); plt.show()")
    assert outcome.status == "ok" and outcome.stderr == "" and len(outcome.displays) == 1


@needs_science
def test_data_frames_have_html_and_text(scientist):
    outcome = scientist.run("import pandas as pd; pd.DataFrame({'a': [1, 2]})")
    assert outcome.mime["text/plain"] == outcome.value == "   a\n0  1\n1  2"
    assert "<table" in outcome.mime["text/html"]


@needs_science
def test_numpy_random_numbers_differ_between_forks():
    with Zygote(SYSTEM, '{"preload": ["numpy"]}') as zygote:
        drawn = set()
        for _ in range(3):
            with zygote.fork() as forked:
                forked.configure()
                drawn.add(forked.run("import numpy; numpy.random.rand()").value)
        assert len(drawn) == 3


WITH_IPYTHON = [python for python in INTERPRETERS if can_import(python, "IPython")]


@pytest.mark.skipif(not WITH_IPYTHON, reason="no interpreter has IPython")
def test_ipython_display_functions_work():
    with start(WITH_IPYTHON[0]) as session:
        session.configure()
        session.run("from IPython.display import display, HTML, Image, update_display, Markdown")
        session.run("from IPython.display import clear_output, DisplayHandle")
        code = "display(HTML('<b>'), display_id='i'); update_display(Markdown('*'), display_id='i')"
        outcome = session.run(code)
        assert [frame["mime"].get("text/html") for frame in outcome.displays] == ["<b>", None]
        assert outcome.displays[1]["mime"]["text/markdown"] == "*" and outcome.displays[1]["update"]
        assert session.run("HTML('<i>')").mime["text/html"] == "<i>"
        assert session.run("Image(b'\\x89PNG\\r\\n\\x1a\\n0000', format='png')").mime["image/png"]
        assert session.run("h = DisplayHandle(); h.display(1); h.update(2); clear_output()").displays[1]["update"]
        outcome = session.run("from IPython.display import publish_display_data\npublish_display_data({'text/x': 'y'})")
        assert outcome.displays[0]["mime"] == {"text/x": "y"}
        assert session.run("import IPython; IPython.get_ipython().run_line_magic('pwd', '')").value == "'/tmp'"
        assert session.run("IPython.get_ipython().events.register('post_execute', print); 1").value == "1"
