"""IPython's display functions over ours, for code that imports IPython where it is installed.

Only the few modules of IPython that all libraries use are patched, when they are imported (hooks.py). Libraries
also ask get_ipython() whether they are in a notebook: they get a stand-in whose unknown attributes do nothing.
"""

from . import hooks


class _Nothing:
    """Anything that is asked of it is harmless."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_, **__):
        return None

    def __getitem__(self, key):
        return self

    def __bool__(self):
        return False


class Shell:
    """The stand-in for InteractiveShell."""

    config = {}

    def __init__(self, session):
        self._session = session
        self.user_ns = session.namespace
        self.user_module = session.module

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return _Nothing()

    def run_line_magic(self, name, line, _stack_depth=1):
        from .magics import Magics

        return Magics(self._session).magic(name, line)

    def run_cell_magic(self, name, line, cell):
        from .magics import Magics

        return Magics(self._session).cell_magic(name, line, cell)

    def system(self, command):
        from .magics import Magics

        Magics(self._session).system(command)

    def getoutput(self, command, **_):
        from .magics import Magics

        return Magics(self._session).capture(command)


def patch(module, session):
    displays = session.displays
    if module.__name__ == "IPython.core.getipython":
        shell = Shell(session)
        hooks.replace(module, "get_ipython", lambda: shell)
        return

    def publish_display_data(data, metadata=None, *_, transient=None, update=False, **__):
        """Publish a bundle of representations."""
        display_id = (transient or {}).get("display_id")
        displays.display(data, raw=True, metadata=metadata, display_id=display_id, update=update)

    from .display import DisplayHandle

    class Handle(DisplayHandle):
        """Has its id from the caller, or makes one."""

        def __init__(self, display_id=None):
            import os

            super().__init__(displays, display_id or os.urandom(16).hex())

    replacements = {
        "display": displays.display,
        "update_display": displays.update_display,
        "clear_output": displays.clear_output,
        "publish_display_data": publish_display_data,
        "DisplayHandle": Handle,
    }
    for name, replacement in replacements.items():
        if hasattr(module, name):
            hooks.replace(module, name, replacement)
