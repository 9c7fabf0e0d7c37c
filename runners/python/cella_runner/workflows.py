"""The name `workflows`: programs with an `async def run`, kept beside the artifacts and run here, in the guest.

The function that calls decides: in a coroutine a call is an awaitable, elsewhere it blocks and returns the value.
"""

import builtins
import sys

from . import calls
from .artifacts import Entry

SPACE = "workflows"


class WorkflowError(calls.HostCallError):
    """A workflow could not be created, found or started."""

    __module__ = "builtins"


ERRORS = {"WorkflowError": WorkflowError}
_COROUTINES = 0x80 | 0x200  # inspect.CO_COROUTINE, CO_ASYNC_GENERATOR
# Frames of their own before Python 3.12, which belong to the function around them.
_INLINE = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


def _is_in_coroutine(frame) -> bool:
    while frame is not None and frame.f_code.co_name in _INLINE:
        frame = frame.f_back
    return frame is not None and bool(frame.f_code.co_flags & _COROUTINES)


def _call(operation, *args):
    return calls.call(SPACE, operation, args, None, ERRORS)


async def _call_async(operation, *args):
    return await calls.call_async(SPACE, operation, args, None, ERRORS)


def _error(operation, message):
    return WorkflowError("workflows.%s: %s" % (operation, message), SPACE, operation, "WorkflowError")


def _load(answer, names):
    """The function `run` of a source, whose built-in names are those of a module."""
    name, source = answer["name"], answer["source"]
    file = "<workflow %s>" % name
    # For tracebacks.
    lines = sys.modules.get("linecache")
    if lines is not None:
        lines.cache[file] = (len(source), None, source.splitlines(True), file)
    namespace = {"__name__": "workflow_" + name, "__file__": file, "__builtins__": names}
    try:
        code = compile(source, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise _error("invoke", "'%s' does not parse: %s" % (name, error)) from None
    exec(code, namespace)
    run = namespace.get("run")
    if not callable(run):
        raise _error("invoke", "'%s' has no function run" % name)
    return run


def _finish(loop):
    try:
        import asyncio

        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


def _wait(run, args, kwargs):
    """The value, whether or not a loop runs in this thread."""
    import asyncio

    if asyncio._get_running_loop() is None:
        loop = asyncio.new_event_loop()
        try:
            return loop.run_until_complete(_awaited(run, args, kwargs))
        finally:
            _finish(loop)
    return _wait_in_thread(run, args, kwargs)


async def _awaited(run, args, kwargs):
    return await run(*args, **kwargs)


def _wait_in_thread(run, args, kwargs):
    import asyncio
    import threading

    outcome, started = [], []

    def work():
        loop = asyncio.new_event_loop()
        try:
            task = loop.create_task(_awaited(run, args, kwargs))
            started.extend((loop, task))
            outcome.append((loop.run_until_complete(task), None))
        except BaseException as error:
            outcome.append((None, error))
        finally:
            _finish(loop)

    thread = threading.Thread(target=work, name="workflow")
    thread.start()
    try:
        thread.join()
    except BaseException:
        # An interrupt: the workflow ends with its caller.
        if started:
            try:
                started[0].call_soon_threadsafe(started[1].cancel)
            except RuntimeError:
                pass  # the loop is closed
        thread.join()
        raise
    value, error = outcome[0]
    if error is not None:
        raise error
    return value


class Workflow:
    def __init__(self, name: str, call=_call, call_async=_call_async, names=builtins):
        self.__name__ = name
        self.__qualname__ = "workflows." + name
        self._call = call
        self._call_async = call_async
        self._names = names

    def __call__(self, /, *args, **kwargs):
        if _is_in_coroutine(sys._getframe(1)):
            return self.call_async(*args, **kwargs)
        return self.call_sync(*args, **kwargs)

    def call_sync(self, /, *args, **kwargs):
        """Blocks and returns the value."""
        return _wait(_load(self._call("source", self.__name__), self._names), args, kwargs)

    async def call_async(self, /, *args, **kwargs):
        return await _load(await self._call_async("source", self.__name__), self._names)(*args, **kwargs)

    def __repr__(self):
        return "<workflow %s>" % self.__name__


def _entries(answer):
    if answer["left_out"]:
        import warnings

        for each in answer["left_out"]:
            warnings.warn("workflows: %s was left out: %s" % (each["file"], each["why"]), stacklevel=3)
    return [Entry(each) for each in answer["workflows"]]


class Workflows:
    """Programs that outlive the session: `create`, `get`, `list`, `search`, `delete`, `invoke`, or by their names."""

    def __init__(self, call=_call, call_async=_call_async, names=builtins):
        self._call = call
        self._call_async = call_async
        self._names = names

    def _named(self, name) -> Workflow:
        return Workflow(name, self._call, self._call_async, self._names)

    def __getattr__(self, name: str) -> Workflow:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._named(name)

    def create(self, name, source, description=""):
        """Keep a source with an `async def run(...)`. What does not parse is not stored."""
        return Entry(self._call("create", name, source, description))

    def get(self, name):
        """The entry with its `source`; None: there is none."""
        answer = self._call("get", name)
        return None if answer is None else Entry(answer)

    def list(self):
        """Entries of all workflows, by name."""
        return _entries(self._call("list"))

    def search(self, query, limit=10):
        """Entries with any of the words, the best first."""
        return _entries(self._call("search", query, limit))

    def delete(self, name):
        """False: there was none."""
        return self._call("delete", name)

    def invoke(self, name, /, *args, **kwargs):
        """Runs a workflow: the value, or in a coroutine an awaitable."""
        workflow = self._named(name)
        if _is_in_coroutine(sys._getframe(1)):
            return workflow.call_async(*args, **kwargs)
        return workflow.call_sync(*args, **kwargs)

    def __dir__(self):
        names = ["create", "get", "list", "search", "delete", "invoke"]
        try:
            return names + [each["name"] for each in self._call("list")["workflows"]]
        except calls.HostCallError:
            return names  # no run is on

    def __repr__(self):
        return "<workflows: create, get, list, search, delete, invoke; workflows.list() has their names>"


def install():
    builtins.workflows = Workflows()
    builtins.HostCallError = calls.HostCallError
    builtins.WorkflowError = WorkflowError
