"""Compares an answer with what a case expects of it. What a case does not mention has to be as it is by default.

Needs Python 3.8 and its standard library.
"""

import json
import re

from case_file import Expectation

EXIT_CODES = {"ok": 0, "error": 1, "timeout": 124, "cancelled": 125, "rejected": 126, "oom": 137}
# Frames and files of the runners, which no guest should meet.
OWN_WORDS = ("cella_runner", "/run/cella", "runner.js", "runner.bash")
# Of the others, the signal depends on what the code did before: a case says it where it matters.
ENDED_BY_ITSELF = ("ok", "error", "rejected")
DEFAULTS = {
    "status": "ok", "signal": None, "value": None, "stdout": "", "stderr": "", "outputs": [],
    "truncated": {"stdout": 0, "stderr": 0},
}


class Missing:
    def __repr__(self):
        return "(nothing)"


MISSING = Missing()


def look_up(document, path):
    """A dotted path; numbers are indices, and `length` is one of a list or text."""
    for key in path.split("."):
        if isinstance(document, dict) and key in document:
            document = document[key]
        elif isinstance(document, list) and re.fullmatch(r"-?\d+", key) and -len(document) <= int(key) < len(document):
            document = document[int(key)]
        elif isinstance(document, (list, str)) and key == "length":
            document = len(document)
        else:
            return MISSING
    return document


def holds(found, verb, wanted):
    if found is MISSING:
        return verb == "is" and wanted is None
    if verb == "is":
        return found == wanted and isinstance(found, bool) == isinstance(wanted, bool)
    if verb in ("at least", "at most"):
        return isinstance(found, (int, float)) and (found >= wanted if verb == "at least" else found <= wanted)
    if verb == "has":
        return all(key in found for key in wanted) if isinstance(found, (dict, list)) else False
    if not isinstance(found, str):
        return False
    return {
        "contains": lambda: wanted in found,
        "lacks": lambda: wanted not in found,
        "starts": lambda: found.startswith(wanted),
        "ends": lambda: found.endswith(wanted),
        "matches": lambda: re.search(wanted, found) is not None,
    }[verb]()


def _shorten(value):
    text = repr(value) if value is MISSING else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 600 else "%s … %s (%d characters)" % (text[:300], text[-200:], len(text))


def _check(document, expectations):
    return [
        "%s: found %s" % (expectation, _shorten(look_up(document, expectation.path)))
        for expectation in expectations
        if not holds(look_up(document, expectation.path), expectation.verb, expectation.wanted)
    ]


def _shows_its_value(result):
    """A value is an output, too, as text at least; a case that has more to say of it mentions outputs."""
    outputs = result.get("outputs", [])
    return len(outputs) == 1 and outputs[0].get("mime", {}).get("text/plain") == result["value"]


def _defaults(result, mentioned, keeps_state):
    """(path, value) of everything that the case leaves unsaid."""
    wanted = dict(DEFAULTS, state="kept" if keeps_state else "none", exit_code=EXIT_CODES.get(result.get("status")))
    if result.get("status") not in ENDED_BY_ITSELF:
        wanted["signal"] = result.get("signal")
    if result.get("status") == "crashed":
        wanted["exit_code"] = 128 + (result.get("signal") or 0)
    if result.get("status") == "ok":
        wanted["error"] = None
    if result.get("value") is not None and _shows_its_value(result):
        wanted["outputs"] = result["outputs"]
    return [(path, value) for path, value in wanted.items() if path not in mentioned]


def _without_rollback(expectation):
    """An executor without checkpoints loses the state where another one rolls back."""
    if expectation.path != "state" or expectation.wanted != "rolled_back":
        return expectation
    return Expectation(expectation.path, expectation.verb, "lost")


def judge_run(result, step, keeps_state, rolls_back=True):
    # An executor without state reports none, whatever happened.
    expectations = [e for e in step.expectations if keeps_state or e.path != "state" or e.wanted == "none"]
    if not rolls_back:
        expectations = [_without_rollback(e) for e in expectations]
    mentioned = {expectation.path.split(".")[0] for expectation in expectations}
    wrong = _check(result, expectations)
    for path, value in _defaults(result, mentioned, keeps_state):
        if result.get(path, MISSING) != value:
            wrong.append("%s is %s: found %s" % (path, _shorten(value), _shorten(result.get(path, MISSING))))
    traceback = (result.get("error") or {}).get("traceback") or ""
    wrong += ["the traceback speaks of %s: %s" % (word, _shorten(traceback)) for word in OWN_WORDS if word in traceback]
    return wrong + ["  of %s" % _shorten(result)] if wrong else []


def judge_operation(answer, step):
    expectations = step.expectations
    wrong = _check(answer, expectations)
    if not expectations and answer.get("ok") is not True:
        wrong.append("ok is true: found %s" % _shorten(answer))
    return wrong
