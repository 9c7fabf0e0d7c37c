"""Gives a Python program of a session the names that cells have (`artifacts`, `workflows`, `tools`, `deps`).

The directory of this file is in PYTHONPATH of programs whose session has a storage, and of those on the host whose session
may add packages. A sitecustomize of the installation follows.
"""

import os
import sys


def _install(here):
    runners = os.path.join(os.path.dirname(here), "python")
    sys.path.append(runners)
    try:
        from cella_runner import calls

        calls.install_for_programs()
    finally:
        sys.path.remove(runners)


def _follow(here):
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("sitecustomize", [path for path in sys.path if os.path.abspath(path or ".") != here])
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _main():
    here = os.path.dirname(os.path.abspath(__file__))
    if os.environ.get("CELLA_SPACES") or os.environ.get("CELLA_PACKAGES_FOR") is not None:
        _install(here)
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]
    _follow(here)


_main()
