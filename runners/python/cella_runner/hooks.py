"""What is done to a module right after the guest imported it, without importing it for the guest.

A finder in front of sys.meta_path wraps the loader of the few modules that are named here.
"""

import os
import sys

from . import stack

_session = None
_MISSING = object()
_backend = []  # matplotlib's own choice
_replaced = []  # (module, name, what it was)


def replace(module, name, value):
    """Sets a name of a module, until uninstall()."""
    _replaced.append((module, name, module.__dict__.get(name, _MISSING)))
    setattr(module, name, value)


def _getpass(module):
    from . import stdin

    stdin.patch_getpass(module, _session.streams.input)


def _matplotlib(module):
    if not os.environ.get("MPLBACKEND"):
        _backend.append(dict.__getitem__(module.rcParams, "backend"))
        module.rcParams["backend"] = "agg"


def _pyplot(module):
    from . import figures

    replace(module, "show", figures.show)


def _figure(module):
    from . import figures

    replace(module.Figure, "show", figures.show_figure)


def _linecache(module):
    _session.sources.publish(module)


def _subprocess(module):
    """A child that was just started must not be forgotten: it would run on after an interrupt."""
    popen = module.Popen
    for name in ("__init__", "__enter__"):
        function = popen.__dict__.get(name)
        if hasattr(function, "__code__"):
            _session.interrupts.protect_calls_of(function)


def _traceback(module):
    stack.patch_traceback(module)


def _warnings(module):
    stack.patch_warnings(module)


def _pandas(module):
    """Tables show all of up to 50 columns: no terminal is there to fit in."""
    try:
        module.set_option("display.max_columns", 50)
        module.set_option("display.width", 160)
    except Exception:
        pass  # an option of another name: its tables are as pandas makes them


def _ipython(module):
    from . import ipython

    ipython.patch(module, _session)


_HOOKS = {
    "getpass": _getpass,
    "linecache": _linecache,
    "matplotlib": _matplotlib,
    "matplotlib.pyplot": _pyplot,
    "matplotlib.figure": _figure,
    "pandas": _pandas,
    "subprocess": _subprocess,
    "traceback": _traceback,
    "warnings": _warnings,
    "IPython.core.getipython": _ipython,
    "IPython.core.display": _ipython,
    "IPython.core.display_functions": _ipython,
}


class _Loader:
    """A module's own loader, and its hook afterwards."""

    def __init__(self, loader, hook):
        self._loader = loader
        self._hook = hook

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._hook(module)


class _Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        hook = _HOOKS.get(name)
        if hook is None:
            return None
        for finder in sys.meta_path:
            if finder is not _Finder and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    if hasattr(spec.loader, "exec_module"):
                        spec.loader = _Loader(spec.loader, hook)
                    return spec
        return None


def session():
    return _session


def install(session):
    global _session
    _session = session
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
    for name, hook in _HOOKS.items():
        if name in sys.modules:
            hook(sys.modules[name])


def backend_chosen():
    """By the session's environment, which a matplotlib that the zygote imported has not seen."""
    if "matplotlib" in sys.modules:
        sys.modules["matplotlib"].rcParams["backend"] = os.environ["MPLBACKEND"]


def uninstall():
    """For a program: modules are as they are without the runner."""
    if _Finder in sys.meta_path:
        sys.meta_path.remove(_Finder)
    for module, name, value in reversed(_replaced):
        if value is _MISSING:
            delattr(module, name)
        else:
            setattr(module, name, value)
    if _backend and "matplotlib" in sys.modules:
        dict.__setitem__(sys.modules["matplotlib"].rcParams, "backend", _backend[0])
