"""--events: the stream as NDJSON, numbered, and the same in words as the Result."""

import base64
import json
import random
import signal

import pytest
from support.cella import PYTHON


def events_of(finished):
    lines = finished.stdout.split(b"\n")
    assert lines.pop() == b"", "the last line is complete"
    events = [json.loads(line) for line in lines]
    assert [event["n"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events].count("finished") == 1
    assert events[-1]["type"] == "finished"
    return events


def text_of(events, stream):
    return "".join(event["text"] for event in events if event["type"] == stream)


def run_events(run, *words, exit_code=0, **options):
    finished = run("--events", *words, **options)
    assert finished.exit_code == exit_code and finished.stderr == b"", finished.describe()
    events = events_of(finished)
    assert events[-1]["exit_code"] == exit_code
    return events


def test_run_emits_events_in_order(run):
    events = run_events(
        run, "-c", "import sys\nprint('out', flush=True)\nprint('err', file=sys.stderr)\nopen('made', 'w').write('abc')"
    )
    started, finished = events[0], events[-1]
    assert started["type"] == "started" and started["language"] == "python"
    assert started["run"].startswith("run_") and started["isolation"]["executor"] == "sandbox"
    assert text_of(events, "stdout") == "out\n" and text_of(events, "stderr") == "err\n"
    files = [event for event in events if event["type"] == "file"]
    assert [(event["path"], event["size"], event["change"]) for event in files] == [("made", 3, "created")]
    assert (finished["status"], finished["signal"], finished["error"], finished["state"]) == ("ok", None, None, "none")
    assert finished["usage"]["wall_ms"] > 0


def test_events_arrive_while_the_run_continues(run):
    code = "import sys, time\nsys.stdout.write('first\\n')\ntime.sleep(60)"
    with run.started("--events", "-c", code, "--python", PYTHON) as process:
        process.wait_for(b"first\\n")
        process.send(signal.SIGTERM)
        finished = process.finish(5)
    assert finished.exit_code == 125
    events = events_of(finished)
    assert events[0]["type"] == "started" and text_of(events, "stdout") == "first\n"
    assert (events[-1]["status"], events[-1]["error"]["name"]) == ("cancelled", "Cancelled")


def test_rejected_run_emits_one_event(run):
    finished = run("--events", "--python", "9.9", "-c", "1")
    events = events_of(finished)
    assert finished.exit_code == 127 and len(events) == 1
    assert events[0]["status"] == "rejected" and "9.9" in events[0]["error"]["message"]


SCRAMBLED = random.Random(1).randbytes(30_000)
SLOWLY = """
import base64, os
data = base64.b64decode({!r})
for at in range(0, len(data), {}): os.write(1, data[at:at + {}])
"""

TEXTS = {
    "words": "print('hello')\nprint('world')",
    "no newline": "import sys; sys.stdout.write('abc')",
    "nothing": "pass",
    "characters cut by writes": SLOWLY.format(base64.b64encode("äöü€𝄞 ".encode() * 40).decode(), 1, 1),
    "not UTF-8": SLOWLY.format(base64.b64encode(SCRAMBLED).decode(), 7001, 7001),
    "an unfinished character": "import os; os.write(1, b'x\\xe2\\x82')",
    "NUL and controls": "import os; os.write(1, bytes(range(32)))",
    "much": "print('line of output\\n' * 40000)",
}


@pytest.mark.parametrize("kind", TEXTS)
def test_event_text_equals_result_text(run, kind):
    events = run_events(run, "-c", TEXTS[kind], "--python", PYTHON)
    result = run.python(TEXTS[kind])
    assert text_of(events, "stdout") == result["stdout"]
    assert result["status"] == "ok" and (result["stdout"] != "") == (kind != "nothing")


def test_invalid_utf8_is_replaced_and_valid_text_kept(run):
    result = run.python(
        "import os; os.write(1, b'ok\\xff\\xfe' + 'ä€𝄞'.encode() + b'\\xe2\\x82'); os.write(2, b'\\x80')"
    )
    assert result["stdout"].startswith("ok\ufffd\ufffdä€𝄞\ufffd") and set(result["stdout"][9:]) <= {"\ufffd"}
    assert result["stderr"] == "\ufffd"


def test_output_beyond_the_cap_emits_truncated_event(run):
    events = run_events(run, "--output-limit", "1000", "-c", "print('a' * 5000 + 'z' * 5000)")
    dropped = [event for event in events if event["type"] == "truncated"]
    assert [(event["stream"], event["dropped"]) for event in dropped] == [("stdout", 10_001 - 1000)]
    text = text_of(events, "stdout")
    assert len(text) == 1000 and text.startswith("aaaa") and text.endswith("zzzz\n")


def test_failure_is_reported_in_the_last_event(run):
    events = run_events(run, "-c", "import os; os.kill(os.getpid(), 11)", exit_code=139)
    assert (events[-1]["status"], events[-1]["signal"]) == ("crashed", 11)
    events = run_events(run, "-c", "import time; time.sleep(9)", "--timeout", "300ms", exit_code=124)
    assert events[-1]["status"] == "timeout" and "300ms" in events[-1]["error"]["message"]
