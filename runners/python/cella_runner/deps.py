"""The name `deps`: packages of the session, which the host installs. A change can be imported when the call returns.

What a call returns can also be awaited: `deps.add("rich")` and `await deps.add("rich")` are the same.
"""

import builtins
import importlib
import os
import sys

from . import calls, packages


class DepsError(calls.HostCallError):
    """Packages could not be changed; they are as before."""

    __module__ = "builtins"  # tracebacks then show the bare name


class DepsDisabledError(DepsError):
    """This session's packages are locked."""

    __module__ = "builtins"


class _Errors(dict):
    def __missing__(self, kind):
        return DepsError

    def get(self, kind, default=None):
        return self[kind]


ERRORS = _Errors(DepsDisabledError=DepsDisabledError)


class _Awaitable:
    """Has its result already."""

    def __await__(self):
        return self
        yield


class Change(_Awaitable):
    """What a change did: `added` ("rich==14.0"), `removed` (names), and `needs_restart`, the packages of the
    interpreter that the session now has in another version, and may have imported before."""

    def __init__(self, answer):
        self.added = ["%s==%s" % (each["name"], each["version"]) for each in answer["added"]]
        self.removed = answer["removed"]
        self.needs_restart = answer["needs_restart"]

    def __repr__(self):
        return "Change(added=%r, removed=%r, needs_restart=%r)" % (self.added, self.removed, self.needs_restart)


class Names(_Awaitable, list):
    def __await__(self):
        return list(self)
        yield


class Flag(_Awaitable, int):
    def __await__(self):
        return bool(self)
        yield

    def __repr__(self):
        return repr(bool(self))

    __str__ = __repr__


def _call(operation, *arguments):
    answer = calls.call("deps", operation, arguments, errors=ERRORS)
    if "directory" in answer:
        packages.publish(answer["directory"])
        if answer["directory"] != packages.current:
            packages.use(answer["directory"])
        else:
            importlib.invalidate_caches()  # the host may have changed the interpreter's own packages
    return answer


class Deps:
    """Packages of this session: `add(*specs)`, `remove(name)`, `list()`, `sync()`."""

    def __init__(self, call=_call):
        self._call = call

    def add(self, *specs):
        """Install packages, as "numpy>=2"; they can be imported at once."""
        return Change(self._call("add", *specs))

    def remove(self, name):
        """False: it was not asked for."""
        return Flag(self._call("remove", name)["removed"])

    def list(self):
        """What was asked for, each name once."""
        return Names(self._call("list")["deps"])

    def sync(self):
        """Install what the session was configured with."""
        return Change(self._call("sync"))

    def __repr__(self):
        return "<deps: the packages of this session; add, remove, list, sync>"


def names(deps):
    """The built-in names of cells."""
    errors = (calls.HostCallError, DepsError, DepsDisabledError)
    return {"deps": deps, **{error.__name__: error for error in errors}}


def install_for_program(prefix):
    """In a program on the host. `prefix`: of the virtual environment that the packages are for; empty: of none. Another
    installation of Python has its own packages."""
    if os.path.realpath(sys.prefix) != os.path.realpath(prefix or sys.base_prefix):
        return
    own_pip = packages.SHIMS + "/bin" not in os.environ.get("PATH", "").split(os.pathsep)
    install(own_pip)
    packages.use_published()


def install(own_pip=False):
    vars(builtins).update(names(Deps()))
    packages.watch(own_pip)
