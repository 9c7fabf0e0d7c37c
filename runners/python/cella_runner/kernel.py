"""For an IPython kernel: the packages that its session added, and pip lines, as other sessions have them."""

import ast
import os
import re
import shlex
import sys

from . import packages, pip_command
from .shell import pip_arguments

# Then it is the shell's line.
_OPERATOR = re.compile(r"[;&|`]|\s[<>]")

_installed = False


def use(directory):
    """Finds packages in `directory` from now on, or nowhere (None), in this process and its children."""
    global _installed
    if not _installed:
        _install()
        _installed = True
    packages.publish(directory)
    packages.use(directory)


def _install():
    from IPython import get_ipython

    shell = get_ipython()
    # Not before the kernel has started: a package must not be able to prevent that.
    paths = [packages.SHIMS, packages.link_path(), os.environ.get("PYTHONPATH")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    lines = _PipLines()
    shell.ast_transformers.append(lines)

    def pip(line):
        """The host installs packages for this session."""
        if _OPERATOR.search(line):
            return shell.system("%s -m pip %s" % (shlex.quote(sys.executable), line))
        code = 1
        try:
            code = pip_command.run(shlex.split(line))
        except (pip_command.PipError, pip_command.HostCallError) as error:
            pip_command.complain(error)
            if lines.alone:
                raise
        finally:
            shell.user_ns["_exit_code"] = code

    shell.register_magic_function(pip, "line", "pip")


class _PipLines(ast.NodeTransformer):
    """Makes `!pip …` the magic `%pip …`, and notes whether a cell consists of such lines: then a failure is its error."""

    alone = False

    def visit_Module(self, node):
        node = self.generic_visit(node)
        self.alone = all(isinstance(each, ast.Expr) and _called(each.value, "run_line_magic", "pip") for each in node.body)
        return node

    def visit_Call(self, node):
        node = self.generic_visit(node)
        if not _called(node, "system"):
            return node
        arguments = pip_arguments(node.args[0].value)
        if arguments is None or _OPERATOR.search(arguments):
            return node
        node.func.attr = "run_line_magic"
        name = ast.copy_location(ast.Constant("pip"), node.args[0])
        node.args = [name, ast.copy_location(ast.Constant(arguments), node.args[0])]
        return node


def _called(node, method, first=None):
    """Whether this is `get_ipython().method("…")`, as IPython writes it for a line with `!` or `%`."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method):
        return False
    shell = node.func.value
    if not (isinstance(shell, ast.Call) and isinstance(shell.func, ast.Name) and shell.func.id == "get_ipython"):
        return False
    text = node.args[0] if node.args else None
    if not (isinstance(text, ast.Constant) and isinstance(text.value, str)):
        return False
    return first is None or text.value == first
