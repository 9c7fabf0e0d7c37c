"""Ways to reach an executor. The suite needs of each what is shown in Driver, and nothing else.

A driver knows what its executor can do; a case that needs more does not apply to it.
"""

from support.repl import Repl


class Driver:
    """One executor by one way. `capabilities` are the words of `needs:`."""

    name = ""
    capabilities = frozenset()

    def open(self, settings):
        """A session with settings of case_file.SESSION_SETTINGS (texts): an object with the methods below."""
        raise NotImplementedError


class Session:
    def run(self, code, *, language, timeout=None, stdin=None, input=False, replies=(), reactions=()):
        """The Result. Replies go to input requests in order; an operation of reactions is asked for, once, when the
        run's output contains the text beside it."""
        raise NotImplementedError

    def operate(self, name, text):
        """The text is a name, code, or what is said. The answer: {"ok": true}, {"error": {"code", "message"}}, or what
        was asked for."""
        raise NotImplementedError

    def close(self):
        """Ends the session and checks that nothing of it stays. Harmless when the session has ended."""
        raise NotImplementedError

    def abandon(self):
        """After a failure."""
        raise NotImplementedError


EVERYWHERE = frozenset({"languages:bash", "languages:javascript", "languages:ruby", "languages:c"})
CELLS = frozenset({"state", "value", "errors", "display", "input", "magics", "await", "interrupt", "questions"})
# What the command line alone can tell.
TERMINAL = frozenset({"completeness"})


class CommandLine(Driver):
    """`cella repl --json`."""

    FLAGS = {
        "memory": "--memory", "timeout": "--timeout", "pids": "--pids", "disk": "--disk", "output": "--output-limit",
        "checkpoint": "--checkpoint",
    }

    def __init__(self, executor, capabilities, binary, environment):
        self.name = executor
        self.capabilities = capabilities
        self._binary = binary
        self._environment = environment

    def open(self, settings):
        flags = ["--executor", self.name]
        for key, value in settings.items():
            if key == "preload":
                flags += [word for module in value.split() for word in ("--preload", module)]
            elif key in self.FLAGS:
                flags += [self.FLAGS[key], value]
        return _Conversation(Repl(self._binary, *flags, env=self._environment))


class _Conversation(Session):
    ARGUMENTS = {
        "checkpoint": "name", "rollback": "name", "drop": "name", "input": "text",
        "complete": "code", "inspect": "code", "is_complete": "code",
    }

    def __init__(self, repl):
        self._repl = repl

    def run(self, code, *, language, timeout=None, stdin=None, input=False, replies=(), reactions=()):
        request = {"code": code, "language": language}
        if timeout is not None:
            request["timeout"] = timeout
        if stdin is not None:
            request["stdin"] = stdin
        if input:
            request["input"] = True
        if replies or reactions:
            request["events"] = True
        number = self._repl.send(**request)
        written = ""
        replies, reactions = list(replies), list(reactions)
        while True:
            answer = self._repl.answer(number)
            event = answer.get("event")
            if event is None:
                assert "result" in answer, answer
                return answer["result"]
            if event["type"] == "input_request" and replies:
                reply = replies.pop(0)
                sent = self._repl.ask(op="input") if reply is None else self._repl.ask(op="input", text=reply)
                assert sent.get("ok") is True, sent
            elif event["type"] in ("stdout", "stderr"):
                written += event["text"]
                while reactions and reactions[0][0] in written:
                    self._repl.send(op=reactions.pop(0)[1])

    def operate(self, name, text):
        key = self.ARGUMENTS.get(name)
        return self._repl.ask(op=name, **({key: text} if key else {}))

    def close(self):
        self._repl.close()

    def abandon(self):
        self._repl.release()


def command_line_drivers(binary, environment):
    return [
        CommandLine("sandbox", EVERYWHERE | CELLS | TERMINAL | {"checkpoint", "jail"}, binary, environment),
        CommandLine("local", EVERYWHERE, binary, environment),
    ]
