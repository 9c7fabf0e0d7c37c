"""What is changed in the caller's interpreter while sessions are open: nothing stays after the last one.

- `sys.stdin`, `sys.stdout` and `sys.stderr` route by thread: a session's threads have streams of their own.
- Assigning to them in a thread of a session changes them for that session alone, until its run ends.
- `threading.Thread.start` makes a thread that a session's thread starts one of that session.

Nothing here may hold a lock while the session's code is on the stack: the code can be stopped between any two lines.
"""

from __future__ import annotations

import io
import os
import sys
import threading
import types
from _thread import allocate_lock, get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Optional

    from cella._inprocess.record import Record
    from cella._inprocess.world import World

NAMES = ("stdin", "stdout", "stderr")
# Workers of the standard pools outlive the run that started them on purpose, and do a later run's work.
_POOLS = ("concurrent.futures.thread", "multiprocessing.pool")
_MARK = "_cella_mark"
_threads: dict[int, threading.Thread] = threading._active  # type: ignore[attr-defined]


class Mark:
    """On a Thread: the session that it belongs to, and the run that started it (none: every run)."""

    __slots__ = ("record", "world")

    def __init__(self, world: World, record: Optional[Record]) -> None:
        self.world = world
        self.record = record

    def current(self) -> Optional[Record]:
        """The run that gets what this thread writes; nothing when that has ended."""
        record = self.world.record
        return record if self.record is None or self.record is record else None


def mark_of_this_thread() -> Optional[Mark]:
    return getattr(_threads.get(get_ident()), _MARK, None)


def set_mark(mark: Optional[Mark]) -> None:
    setattr(threading.current_thread(), _MARK, mark)


class Router:
    """Stands in for a standard stream: a session's own for its threads, the original for all others."""

    def __init__(self, name: str, original: Any) -> None:
        self._cella_name = name
        self._cella_original = original

    def _cella_target(self) -> Any:
        mark = mark_of_this_thread()
        return self._cella_original if mark is None else mark.world.stream(self._cella_name, get_ident())

    def write(self, text: str) -> Any:
        mark = mark_of_this_thread()
        if mark is None:
            return self._cella_original.write(text)
        return mark.world.write(self._cella_name, text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cella_target(), name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._cella_target())

    def __next__(self) -> str:
        return str(next(self._cella_target()))

    def __enter__(self) -> Any:
        return self._cella_target().__enter__()

    def __exit__(self, *error: object) -> Any:
        return self._cella_target().__exit__(*error)

    def __repr__(self) -> str:
        return repr(self._cella_target())


io.TextIOBase.register(Router)


class _Sys(types.ModuleType):
    """The module sys, whose standard streams are set for one session, or for the caller."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in NAMES:
            mark = mark_of_this_thread()
            if mark is not None:
                if isinstance(value, Router):
                    mark.world.restore_stream(name)
                else:
                    mark.world.replace_stream(name, value)
                return
            if value is not None and not isinstance(value, Router):
                value = Router(name, value)
        super().__setattr__(name, value)


def _start(original: Any) -> Any:
    def start(self: threading.Thread) -> None:
        """Start the thread's activity."""
        mark = mark_of_this_thread()
        if mark is not None:
            pool = getattr(getattr(self, "_target", None), "__module__", None) in _POOLS
            record = None if pool else mark.record or mark.world.record
            setattr(self, _MARK, Mark(mark.world, record))
            mark.world.threads.add(self)
        original(self)

    start.__qualname__ = "Thread.start"
    return start


class _Figures:
    """Of pyplot, whose figures are the process's: those that a session's thread makes are known as the session's."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Any]] = []

    def install(self) -> None:
        """Once the code has imported matplotlib; nothing is imported for it."""
        helpers: Any = sys.modules.get("matplotlib._pylab_helpers")
        pyplot: Any = sys.modules.get("matplotlib.pyplot")
        name = "_set_new_active_manager"
        if self._replaced or not hasattr(pyplot, "show") or not hasattr(getattr(helpers, "Gcf", None), name):
            return
        self._replaced = [(helpers.Gcf, name, vars(helpers.Gcf)[name]), (pyplot, "show", pyplot.show)]
        original, show_all = helpers.Gcf._set_new_active_manager, pyplot.show

        def set_new_active_manager(cls: Any, manager: Any) -> None:
            mark = mark_of_this_thread()
            if mark is not None:
                manager._cella_world = mark.world
            original(manager)

        def show(*words: Any, **options: Any) -> Any:
            mark = mark_of_this_thread()
            return show_all(*words, **options) if mark is None else mark.world.displays.show_figures()

        helpers.Gcf._set_new_active_manager = classmethod(set_new_active_manager)
        pyplot.show = show

    def remove(self) -> None:
        replaced, self._replaced = self._replaced, []
        for module, name, value in replaced:
            setattr(module, name, value)


class Hooks:
    """Installed for the first session, gone after the last: `acquire` and `release` are balanced."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._users = 0
        self._figures = _Figures()
        self._module: type = types.ModuleType
        self.thread_start: Any = None  # the original, while ours is in its place
        self._ours: Any = None

    def acquire(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._install()

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._remove()

    def follow_figures(self) -> None:
        self._figures.install()

    def _install(self) -> None:
        for name in NAMES:
            stream = getattr(sys, name, None)
            if stream is not None:
                setattr(sys, name, Router(name, stream))
        self._module = type(sys)
        if self._module is types.ModuleType:
            sys.__class__ = _Sys
        self.thread_start = threading.Thread.start
        self._ours = threading.Thread.start = _start(self.thread_start)  # type: ignore[method-assign]

    def _remove(self) -> None:
        self._figures.remove()
        if type(sys) is _Sys:
            sys.__class__ = self._module
        for name in NAMES:
            stream = getattr(sys, name, None)
            while isinstance(stream, Router):
                stream = stream._cella_original
                setattr(sys, name, stream)
        if threading.Thread.start is self._ours:
            threading.Thread.start = self.thread_start  # type: ignore[method-assign]
        self._ours = self.thread_start = None

    def forget(self) -> None:
        """In a child made by fork there are no sessions."""
        self._lock = allocate_lock()
        if self._users:
            self._users = 0
            self._remove()


HOOKS = Hooks()


def start_unmarked(thread: threading.Thread) -> None:
    """A thread of ours: it belongs to no session, whichever thread asks."""
    (HOOKS.thread_start or threading.Thread.start)(thread)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=HOOKS.forget)
