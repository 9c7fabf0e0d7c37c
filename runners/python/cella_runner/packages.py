"""The packages that a session added: a directory on sys.path, behind the standard library and before site-packages.

The directory is another one after each change. A link beside the call socket leads to it: child interpreters and Bash
have the link in PYTHONPATH and PATH, and a failed import looks whether a child has changed the packages.
"""

import importlib
import os
import site
import sys

SHIMS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "shims")
LINK_NAME = ".cella-packages"

current = None  # the directory in use


def use(directory):
    """Finds packages in `directory` from now on, or nowhere (None)."""
    global current
    before, current = current, directory
    if before is not None:
        sys.path[:] = [path for path in sys.path if path != before]
    if directory is not None:
        sys.path.insert(_first_site(), directory)
        _run_path_files(directory)
    # Python remembers that a directory was not there, and what was in it.
    for path in (directory, before):
        sys.path_importer_cache.pop(path, None)
    importlib.invalidate_caches()


def publish(directory):
    """For the other processes of the guest."""
    link = link_path()
    if link is None:
        return
    try:
        if directory is None:
            os.unlink(link)
        elif _target(link) != directory:
            temporary = "%s-%d" % (link, os.getpid())
            os.symlink(directory, temporary)
            os.replace(temporary, link)
    except OSError:
        pass  # the guest's own doing: its children find fewer packages


def use_published():
    """What another process of the guest, or the host, has published."""
    link = link_path()
    directory = _target(link) if link else None
    if directory is not None:
        use(directory)


def watch(own_pip=False):
    """Once, in a process whose children may change the packages. `own_pip`: the interpreter's pip stays the first."""
    if _Finder not in sys.meta_path:
        sys.meta_path.append(_Finder)
    if SHIMS not in sys.path and not own_pip:
        sys.path.insert(_first_site(), SHIMS)


class _Finder:
    """The last one: asked for what is not there."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        link = link_path()
        directory = _target(link) if path is None and link else None
        if directory is None or directory == current:
            return None
        use(directory)
        from importlib.machinery import PathFinder

        return PathFinder.find_spec(name)


def link_path():
    """Leads to the packages, if there are any; None: this process cannot call the host."""
    socket = os.environ.get("CELLA_CALLS")
    return os.path.join(os.path.dirname(socket), LINK_NAME) if socket else None


def _target(link):
    try:
        return os.readlink(link)
    except OSError:
        return None


def _first_site():
    places = [at for at, path in enumerate(sys.path) if path.endswith(("site-packages", "dist-packages"))]
    return places[0] if places else len(sys.path)


def _run_path_files(directory):
    try:
        files = sorted(name for name in os.listdir(directory) if name.endswith(".pth"))
    except OSError:
        return
    for name in files:
        try:
            site.addpackage(directory, name, None)
        except Exception as error:
            print("%s: %s" % (name, error), file=sys.stderr)
