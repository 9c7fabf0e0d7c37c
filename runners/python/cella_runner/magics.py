"""What escapes.py calls: magics and shell commands, as notebooks have them. `__cella__` in cells is a Magics object."""

import os
import re
import sys
import time

from .shell import Shell

IGNORED = ("autoreload", "load_ext", "matplotlib", "reload_ext")
MARKUP = {"html": "text/html", "markdown": "text/markdown", "latex": "text/latex", "svg": "image/svg+xml"}
NO_NETWORK = (
    "This session has no network, so pip cannot install anything: allow it when the session is made"
    ' (`--network host`, or "network": "host").'
)
# Then it is the shell's line.
_OPERATOR = re.compile(r"[;&|`]|\s[<>]")
_PIP_LINE = re.compile(r"[%!]\s*(?:pip3?|python3? -m pip)\s")


class UsageError(Exception):
    """A magic that does not exist, or is not used like that."""

    __module__ = "builtins"  # tracebacks then show the bare name


class Magics:
    def __init__(self, session):
        self._session = session
        self._shell = Shell(session.namespace, session.interrupts, session.relays_commands)

    def system(self, command: str):
        """`!command`: output streams; the exit code is in `_exit_code`."""
        pip = self._shell.pip_arguments(command)
        if pip is not None:
            self._session.namespace["_exit_code"] = self._pip(pip)
        else:
            self._session.namespace["_exit_code"] = self._shell.run(self._expand(command))

    def capture(self, command: str) -> list:
        """`x = !command`: the lines of its output."""
        return self._shell.capture(self._expand(command))

    def _expand(self, command: str) -> str:
        frame = sys._getframe(2)
        return self._shell.expand(command, frame.f_globals, frame.f_locals)

    def magic(self, name: str, line: str):
        if name in IGNORED:
            return None
        return self._find("line_", name, "%")(line)

    def cell_magic(self, name: str, line: str, cell: str):
        if name in MARKUP:
            self._session.displays.publish({MARKUP[name]: cell})
            return None
        return self._find("cell_", name, "%%")(line, cell)

    def _find(self, prefix: str, name: str, sign: str):
        method = getattr(type(self), prefix + name, None) if name.isidentifier() else None
        if method is None:
            known = [entry[5:] for entry in dir(type(self)) if entry.startswith(prefix)]
            known += MARKUP if sign == "%%" else IGNORED
            names = ", ".join(sign + entry for entry in sorted(known))
            raise UsageError("%s%s is not known. There are: %s" % (sign, name, names))
        return method.__get__(self)

    def _evaluate(self, code: str, line: int):
        """Runs code that stands in the cell from that line on, so that tracebacks find it."""
        session = self._session
        statements, expression = session.compiler.compile("\n" * (line - 1) + code, session.cell_name)
        return session.executor.run(statements, expression)

    def _timed(self, code: str, line: int):
        before, wall = os.times(), time.perf_counter()
        try:
            return self._evaluate(code, line)
        finally:
            wall, after = time.perf_counter() - wall, os.times()
            user = after.user - before.user + after.children_user - before.children_user
            system = after.system - before.system + after.children_system - before.children_system
            print("CPU times: user %s, sys: %s, total: %s" % (_span(user), _span(system), _span(user + system)))
            print("Wall time: %s" % _span(wall))

    def line_time(self, line: str):
        return self._timed(line, _line_of_caller())

    def cell_time(self, line: str, cell: str):
        return self._timed(cell, _line_of_caller() + 1)

    def line_timeit(self, line: str):
        loops, repeats, statement = _timeit_options(line)
        self._timeit(loops, repeats, statement, "pass")

    def cell_timeit(self, line: str, cell: str):
        loops, repeats, setup = _timeit_options(line)
        self._timeit(loops, repeats, cell, setup or "pass")

    def _timeit(self, loops: int, repeats: int, statement: str, setup: str):
        import timeit

        timer = timeit.Timer(statement, setup, globals=self._session.namespace)
        if not loops:
            loops, _ = timer.autorange()
        spans = [span / loops for span in timer.repeat(repeats, loops)]
        mean = sum(spans) / len(spans)
        print("%s per loop (mean; best %s; %d runs of %d loops)" % (_span(mean), _span(min(spans)), repeats, loops))

    def line_cd(self, line: str):
        os.chdir(os.path.expanduser(line.strip("'\"") or "~"))
        print(os.getcwd())

    def line_config(self, line: str):
        """`%config InlineBackend.figure_formats = ["svg"]`; other settings are accepted and do nothing."""
        name, equals, value = line.partition("=")
        if equals and name.strip() in ("InlineBackend.figure_format", "InlineBackend.figure_formats"):
            import ast

            from . import figures

            try:
                figures.choose(ast.literal_eval(value.strip()))
            except (ValueError, SyntaxError, TypeError):
                raise UsageError("%%config %s: must be a format or a list, as ['svg']" % name.strip()) from None

    def line_pwd(self, line: str):
        return os.getcwd()

    def line_env(self, line: str):
        if not line:
            return dict(os.environ)
        name, separator, value = line.partition("=") if "=" in line else line.partition(" ")
        if not separator:
            return os.environ.get(name)
        os.environ[name.strip()] = value.strip()
        print("env: %s=%s" % (name.strip(), value.strip()))
        return None

    def line_who(self, line: str):
        names = [name for name in self._session.namespace if not name.startswith("_")]
        print("\t".join(names) if names else "No names are defined.")

    def line_reset(self, line: str):
        if "-f" not in line.split():
            raise UsageError("%reset deletes every name of the session; say %reset -f")
        for name in [name for name in self._session.namespace if not name.startswith("__")]:
            del self._session.namespace[name]

    def line_pip(self, line: str):
        code = self._pip(self._expand_line(line))
        if code and "deps" not in self._session.spaces:
            raise UsageError("pip ended with exit code %d" % code)

    def _expand_line(self, line: str) -> str:
        return self._shell.expand(line, self._session.namespace, {})

    def _pip(self, arguments: str) -> int:
        import importlib
        import shlex

        if "deps" in self._session.spaces and not _OPERATOR.search(arguments):
            return self._host_pip(shlex.split(arguments))
        has_network = self._session.network or ("deps" in self._session.spaces and self._session.deps is None)
        if not has_network and arguments.split(" ")[0] in ("install", "download", "wheel", "index", "search"):
            print(self._session.why_no_pip or NO_NETWORK, file=sys.stderr)
            raise UsageError("pip cannot install anything here")
        code = self._shell.run("%s -m pip %s" % (shlex.quote(sys.executable), arguments))
        importlib.invalidate_caches()
        return code

    def _host_pip(self, arguments: list) -> int:
        """In this process. A failure is printed; it is the cell's error if the cell consists of such lines."""
        from . import pip_command

        try:
            return pip_command.run(arguments, self._session.deps)
        except (pip_command.PipError, pip_command.HostCallError) as error:
            pip_command.complain(error)
            if self._only_installs():
                raise
            return 1

    def _only_installs(self) -> bool:
        import linecache

        lines = [line.strip() for line in linecache.getlines(self._session.cell_name)]
        return all(_PIP_LINE.match(line) for line in lines if line and not line.startswith("#"))

    def line_system(self, line: str):
        self._shell.run(self._expand_line(line))

    def cell_bash(self, line: str, cell: str):
        self._shell.script("bash", line, cell)

    def cell_sh(self, line: str, cell: str):
        self._shell.script("sh", line, cell)

    def cell_writefile(self, line: str, cell: str):
        append = line.startswith("-a ")
        path = os.path.expanduser(line[3:].strip() if append else line)
        if not path:
            raise UsageError("%%writefile needs the name of a file")
        with open(path, "a" if append else "w", encoding="utf-8") as file:
            file.write(cell if not cell or cell.endswith("\n") else cell + "\n")
        print("%s %s" % ("Appending to" if append else "Writing", path))


def _timeit_options(line: str):
    """(loops or 0, repeats, the rest) of `-n 10 -r 3 rest`."""
    options = {"-n": 0, "-r": 5}
    words = line.split(" ")
    while words and words[0][:2] in options:
        option, number = words[0][:2], words.pop(0)[2:]
        options[option] = int(number or words.pop(0))
    return options["-n"], options["-r"], " ".join(words)


def _line_of_caller() -> int:
    """The line of the cell with the magic: cell, magic(), line_...(), this."""
    return sys._getframe(3).f_lineno


def _span(seconds: float) -> str:
    for unit, size in (("s", 1), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return "%.3g %s" % (seconds / size, unit)
    return "%.3g ns" % (seconds / 1e-9)
