"""Ways to reach an executor. The suite needs of each what is shown in Driver, and nothing else.

A driver knows what its executor can do; a case that needs more does not apply to it.
"""

import tempfile

from support import engine
from support.cella import PYTHON
from support.needs import require
from support.repl import Repl


class Driver:
    """One executor by one way. `capabilities` are the words of `needs:`."""

    name = ""  # of the executor
    label = None  # of the driver, where it differs
    capabilities = frozenset()
    needs = None  # a mark of tests/README.md
    different = frozenset()  # names of cases that do not hold here; README.md says why
    rolls_back = True  # else a crash loses the state

    def open(self, settings):
        """A session with settings of case_file.SESSION_SETTINGS (texts): an object with the methods below."""
        raise NotImplementedError

    def end(self):
        """After the last case."""


class Session:
    def run(self, code, *, language, timeout=None, stdin=None, input=False, variables=None, replies=(), reactions=()):
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
CELLS = frozenset(
    {"state", "value", "errors", "display", "input", "magics", "await", "interrupt", "questions", "variables"}
)
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

    more_flags = ()

    def open(self, settings):
        flags = ["--executor", self.name, *self.more_flags]
        storage = None
        for key, value in settings.items():
            if key == "preload":
                flags += [word for module in value.split() for word in ("--preload", module)]
            elif key == "storage":
                storage = tempfile.TemporaryDirectory(prefix="cella-contract-")
                flags += ["--storage", storage.name]
            elif key in self.FLAGS:
                flags += [self.FLAGS[key], value]
        return _Conversation(Repl(self._binary, *flags, env=self._environment, python=self.python()), storage)

    def python(self):
        return PYTHON


class KernelCommandLine(CommandLine):
    """The same with a Jupyter kernel."""

    needs = "jupyter"
    # The ipykernel that the interpreter has, in an environment of the session's own.
    more_flags = ("--system-packages",)
    rolls_back = False
    # What a real ipykernel does otherwise, in the order of the table in README.md.
    different = frozenset(
        {
            # The form of tracebacks, messages and warnings is IPython's.
            "an exception has name, message and source lines",
            "a traceback shows the lines of earlier cells",
            "endless recursion is an error",
            "an exception whose text raises still has a name",
            "exception groups and notes are shown",
            "a module of the workspace shows its own lines",
            "an unknown magic is an error that lists the known",
            "the same warning in a later cell is seen again",
            "pip does not take what the operator decides",
            # A representation that fails is an error of the run.
            "a representation that fails is left out",
            "a repr that raises does not hide that the code ran",
            "a repr that returns no text is replaced",
            "a deeply nested value is shown or is an error",
            "lone surrogates are accepted",
            # A message of more than 32 MB is left out, with a note.
            "a huge display is left out with a note",
            "an exception with a huge message is cut",
            "a large value is truncated",
            "a repr of a hundred megabytes is truncated",
            # Streams: sys.stdout is an object of ipykernel, which decodes what is written below it; `!` runs in a terminal.
            "output before a crash is kept",
            "os._exit is an exit code and rolls back",
            "writes below Python are captured, in order",
            "output of subprocesses is captured, in order",
            "Python's own output comes before a subprocess even unflushed",
            "a shell command streams its output",
            "standard descriptors may be redirected for good",
            "invalid UTF-8 is replaced",
            "a character split over two writes is complete",
            "replacing sys.stdout redirects until the run ends",
            "a run may replace sys.stdout by anything",
            "closing sys.stdout is survived",
            "sys.stdin can be read in every way",
            # The kernel is a process with an event loop of its own, and lives in the session's namespace.
            "an interrupt ends an await",
            "asyncio.run works in a cell",
            "fork returns twice, and the child's end is not the run's",
            "an exception in a forked child is printed on stderr only",
            "names of __main__ may all be deleted",
            "extreme interpreter settings are handled",
            # There are no checkpoints, and no /workspace without a jail.
            "a thread that prints after its run does not disturb the next",
            "reset forgets everything but the files",
        }
    )

    def python(self):
        return require("jupyter")["JUPYTER_PYTHON"]


class JailedKernelCommandLine(KernelCommandLine):
    """The same in a jail."""

    label = "subprocess-jail"
    more_flags = ("--jail", "--system-packages")


class _Conversation(Session):
    ARGUMENTS = {
        "checkpoint": "name", "rollback": "name", "drop": "name", "input": "text",
        "complete": "code", "inspect": "code", "is_complete": "code",
    }

    def __init__(self, repl, storage=None):
        self._repl = repl
        self._storage = storage  # a directory that lasts as long as the session

    def run(self, code, *, language, timeout=None, stdin=None, input=False, variables=None, replies=(), reactions=()):
        request = {"code": code, "language": language}
        if timeout is not None:
            request["timeout"] = timeout
        if stdin is not None:
            request["stdin"] = stdin
        if variables is not None:
            request["variables"] = variables
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


# A rootless engine on cgroup version 1 has no cgroups: the agent ends the code at a limit, where a cgroup refuses a
# process or kills without a word.
WITHOUT_CGROUPS = frozenset(
    {
        "a fork bomb is limited",
        "a fork bomb that allocates memory in all children is limited",
        "too many threads are refused",
        "too much memory in one process",
    }
)


class Container(CommandLine):
    """In containers of the tests' image, whose interpreters are Python and Bash."""

    needs = engine.NEED
    different = frozenset(
        {
            # It names another executor and other namespaces; integration/test_container.py says which.
            "every result reports the isolation",
            # Process 1 is the agent. Init is visible beside the code, with its user id: code that kills it ends the
            # container, and the session says so.
            "kill -9 of every visible process is a crash",
            "killing checkpoint processes does not end the session",
        }
    ) | (WITHOUT_CGROUPS if engine.OTHER == "PODMAN_USER" else frozenset())

    def __init__(self, name, mode, capabilities, binary, environment):
        super().__init__("container", capabilities, binary, environment)
        self.label = name
        self._mode = mode

    def open(self, settings):
        chosen = engine.chosen_engine()
        flags = ["--executor", self.name, "--image", chosen["CELLA_TEST_IMAGE"], "--mode", self._mode]
        flags += [word for key, value in settings.items() if key in self.FLAGS for word in (self.FLAGS[key], value)]
        storage = None
        if "storage" in settings:
            storage = tempfile.TemporaryDirectory(prefix="cella-contract-")
            flags += ["--storage", storage.name]
        environment = {**self._environment, "DOCKER_HOST": chosen["DOCKER_HOST"]}
        return _Conversation(Repl(self._binary, *flags, env=environment, python=None), storage)


CONTAINER = frozenset({"languages:bash"})


class PlainProcess(CommandLine):
    """The chosen Python as a plain process. Where another executor returns to its checkpoint, the state is lost."""

    rolls_back = False
    different = frozenset(
        {
            # There are no checkpoints, whose state the case asks for.
            "a thread that prints after its run does not disturb the next",
            # The workspace is a directory of the host.
            "reset forgets everything but the files",
        }
    )


class CppLibrary(CommandLine):
    """libcella through its C++ layer: tests/contract/cpp/cella_repl.cc speaks as `cella repl --json` does."""

    # Only JSON has the media type of a file, which it derives from the name.
    different = frozenset({"files that a run made are listed"})

    def __init__(self, executor, capabilities, binary, environment, rolls_back=True):
        super().__init__(executor, capabilities, binary.with_name("cella-repl-cpp"), environment)
        self.label = f"{executor}-cpp"
        self.rolls_back = rolls_back
        self.exists = self._binary.exists()

    def open(self, settings):
        if self.name == "inprocess":
            # The limits of the application are those of its process.
            settings = {key: value for key, value in settings.items() if key in ("timeout", "output")}
        return super().open(settings)


def command_line_drivers(binary, environment):
    return [
        Container("container", "session", CONTAINER | CELLS | TERMINAL | {"checkpoint", "deps", "jail", "storage"}, binary, environment),
        Container("container-command", "command", CONTAINER | {"jail"}, binary, environment),
        CommandLine("sandbox", EVERYWHERE | CELLS | TERMINAL | {"checkpoint", "jail", "deps", "storage"}, binary, environment),
        CommandLine("local", EVERYWHERE, binary, environment),
        PlainProcess("inprocess", CELLS | TERMINAL | {"deps", "storage"}, binary, environment),
        KernelCommandLine("subprocess", CELLS | TERMINAL | {"deps", "storage"}, binary, environment),
        JailedKernelCommandLine("subprocess", CELLS | TERMINAL | {"deps", "storage"}, binary, environment),
    ]
