"""Reads the case files: text that shows guest code as it is. The format is in README.md.

Nothing here knows of executors or of ways to reach them. Needs Python 3.8 and its standard library.
"""

import json
import pathlib
import re

SESSION_SETTINGS = ("memory", "timeout", "pids", "disk", "output", "checkpoint", "preload", "storage", "executors")
STEP_SETTINGS = ("timeout", "stdin", "input", "reply", "when", "repeat", "variables")
VERBS = ("is", "contains", "lacks", "matches", "has", "at least", "at most", "starts", "ends")

_SETTING = re.compile(r"([a-z_]+):\s*(.*)$")
_EXPECTATION = re.compile(r"(\S+) (%s) (.+)$" % "|".join(VERBS))


class CaseError(Exception):
    """A file that does not follow the format, with the line."""


class Expectation:
    def __init__(self, path, verb, wanted):
        self.path = path
        self.verb = verb
        self.wanted = wanted

    def __str__(self):
        return "%s %s %s" % (self.path, self.verb, json.dumps(self.wanted, ensure_ascii=False))


class Step:
    """A run of code, or an operation on the session. `words` are those after the name."""

    def __init__(self, name, words):
        self.name = name
        self.words = words
        self.code = ""
        self.settings = {}
        self.replies = []  # to input requests, in order; None is an end of file
        self.reactions = []  # (text, operation): asked for when the run has written that text
        self.expectations = []


class Case:
    def __init__(self, name, origin):
        self.name = name
        self.origin = origin
        self.needs = []
        self.settings = {}
        self.steps = []


class _Reader:
    def __init__(self, path):
        self.path = path
        self.cases = []
        self.line_number = 0

    def fail(self, why):
        raise CaseError("%s:%d: %s" % (self.path, self.line_number, why))

    def read(self):
        for self.line_number, line in enumerate(self.path.read_text(encoding="utf-8").splitlines(), 1):
            if line.startswith("== "):
                self.cases.append(Case(line[3:].strip(), "%s:%d" % (self.path.name, self.line_number)))
            elif line.startswith("-- "):
                self.start_step(line[3:].split())
            elif line.startswith("    "):
                self.step().code += line[4:] + "\n"
            elif not line.strip():
                self.blank()
            elif not line.startswith("#"):
                self.setting_or_expectation(line)
        for case in self.cases:
            for step in case.steps:
                step.code = step.code.rstrip("\n")
        return self.cases

    def case(self):
        return self.cases[-1] if self.cases else self.fail("a case begins with '== its name'")

    def step(self):
        case = self.case()
        return case.steps[-1] if case.steps else self.fail("a step begins with '-- run' or another operation")

    def start_step(self, words):
        self.case().steps.append(Step(words[0], words[1:]))

    def blank(self):
        # Inside code it is part of it, and after it of no meaning.
        if self.cases and self.cases[-1].steps and self.cases[-1].steps[-1].code:
            self.cases[-1].steps[-1].code += "\n"

    def json(self, text):
        try:
            return json.loads(text)
        except ValueError:
            return self.fail("not JSON: %s" % text)

    def setting_or_expectation(self, line):
        expectation = _EXPECTATION.match(line)
        setting = _SETTING.match(line)
        if expectation and self.case().steps:
            path, verb, wanted = expectation.groups()
            self.step().expectations.append(Expectation(path, verb, self.json(wanted)))
        elif setting and self.case().steps:
            self.set_step(*setting.groups())
        elif setting:
            self.set_case(*setting.groups())
        else:
            self.fail("neither a setting nor an expectation: %s" % line)

    def set_case(self, key, text):
        if key == "needs":
            self.case().needs += [word.strip() for word in text.split(",")]
        elif key in SESSION_SETTINGS:
            self.case().settings[key] = text
        else:
            self.fail("no setting of a session: %s" % key)

    def set_step(self, key, text):
        step = self.step()
        if key == "reply":
            step.replies.append(self.json(text))
        elif key == "when":
            written, _, operation = text.rpartition(" ")
            step.reactions.append((self.json(written), operation))
        elif key in ("stdin", "input", "repeat", "variables"):
            step.settings[key] = self.json(text)
        elif key in STEP_SETTINGS:
            step.settings[key] = text
        else:
            self.fail("no setting of a step: %s" % key)


def read_cases(directory):
    cases = []
    for path in sorted(pathlib.Path(directory).glob("*.case")):
        cases += _Reader(path).read()
    names = [case.name for case in cases]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise CaseError("two cases of one name: %s" % ", ".join(twice))
    return cases
