"""Which threads were started by an earlier run: what they print after the next run begins is dropped.

Workers of the standard pools are exempt: they outlive the run that started them on purpose, and do a later run's work.
A thread that a leftover thread starts counts to the run of that thread.
"""

import threading
import weakref
from _thread import get_ident

POOLS = ("concurrent.futures.thread", "multiprocessing.pool")

stale = {}  # id of a Thread of an earlier run -> the Thread, while it lives
_current = weakref.WeakSet()  # those of this run
_active = threading._active
_start = threading.Thread.start


def is_stale(ident: int) -> bool:
    return id(_active.get(ident)) in stale


def begin_run():
    if not len(_current) and not stale:
        return
    living = [thread for thread in [*stale.values(), *_current] if thread.is_alive()]
    stale.clear()
    stale.update((id(thread), thread) for thread in living)
    _current.clear()


def start(self):
    """Start the thread's activity."""
    if getattr(getattr(self, "_target", None), "__module__", None) not in POOLS:
        if stale and is_stale(get_ident()):
            stale[id(self)] = self
        else:
            _current.add(self)
    _start(self)


def install():
    start.__qualname__ = "Thread.start"
    threading.Thread.start = start


def uninstall():
    threading.Thread.start = _start
