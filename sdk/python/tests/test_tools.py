"""Functions of this process that code in a jail calls."""

import asyncio
import dataclasses
import enum
import pathlib
import threading
from typing import Any, Literal, Optional, Union

import pytest

import cella
from cella._tools import BadArgument, Tool

SECRET = "hunter2-" + "q" * 24
# Looks for hunter2-qqq... and hunter3-qqq... in all memory, without having either in its own constants.
SEARCH = """
import os
answer, told = tools.authorised('how long'), tools.told()
found = {'2': 0, '3': 0}
with open('/proc/self/maps') as lines, open('/proc/self/mem', 'rb', 0) as memory:
    for line in list(lines):
        ends, rights = line.split()[:2]
        if 'r' not in rights or '[v' in line:
            continue
        begin, end = [int(each, 16) for each in ends.split('-')]
        memory.seek(begin)
        try:
            data = memory.read(end - begin)
        except OSError:
            continue
        at = data.find(b'-qqqqqqqq')
        while at >= 0:
            if list(data[max(at - 7, 0):at - 1]) == [104, 117, 110, 116, 101, 114]:
                found[chr(data[at - 1])] += 1
            at = data.find(b'-qqqqqqqq', at + 1)
files = [os.path.join(d, n) for top in ('/workspace', '/tmp') for d, _, names in os.walk(top) for n in names]
found, [f for f in files if not f.endswith('.cella-calls')], dict(os.environ)
"""


def add(a: int, b: int = 2) -> int:
    """Adds two numbers.

    Args:
        a: the first number
        b (int): the second
    """
    return a + b


async def later(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


@pytest.fixture
def session(open_session):
    made = open_session(cella.SandboxExecutor(python_version="/usr/bin/python3"))
    made.tool(add)
    made.tool(later)
    return made


def test_code_calls_functions_of_the_caller(session, wait):
    result = wait(session.run("tools.add(1), tools.add(b=1, a=2), tools.later({'z': [1.5, None], 'a': 'é'})"))
    assert result.value == "(3, 3, {'z': [1.5, None], 'a': 'é'})", result.error
    gathered = wait(session.run("import asyncio\nawait asyncio.gather(*[tools.add(n) for n in range(3)])"))
    assert gathered.value == "[2, 3, 4]"
    threads = (
        "import threading\nfound = []\n"
        "threads = [threading.Thread(target=lambda n=n: found.append(tools.add(n))) for n in range(8)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "sorted(found)"
    )
    assert wait(session.run(threads)).value == "[2, 3, 4, 5, 6, 7, 8, 9]"


def test_code_finds_out_what_there_is(session, wait):
    assert wait(session.run("[tool.name for tool in tools.list()]")).value == "['add', 'later']"
    assert wait(session.run("tools.add.describe()['description'], tools.search('NUMBERS please')[0].name")).value == (
        "('Adds two numbers.', 'add')"
    )
    described = wait(session.run("tools.add.describe().schema == {'type': 'object', 'required': ['a'], "
                                 "'additionalProperties': False, 'properties': {"
                                 "'a': {'type': 'integer', 'description': 'the first number'}, "
                                 "'b': {'type': 'integer', 'description': 'the second', 'default': 2}}}"))
    assert described.value == "True"
    missing = wait(session.run("tools.nothing(1)"))
    assert missing.error.name == "ToolNotFoundError" and "add, later" in missing.error.message


def test_search_with_very_many_words_is_refused(session, wait):
    """Each word is looked for in each description, on the one loop that all clients share."""
    result = wait(session.run("tools.search('q ' * 400_000)"))
    assert result.error is not None and "at most 256 bytes" in str(result.error), result


def test_errors_of_a_function_reach_the_code_without_its_frames(session, wait):
    @session.tool(name="fail")
    def fail_here():
        raise KeyError("no such key")

    result = wait(session.run("tools.fail()"))
    assert result.error.name == "ToolError" and result.error.message == "KeyError: 'no such key'"
    assert "fail_here" not in result.error.traceback and __file__ not in result.error.traceback
    code = "try:\n    tools.fail()\nexcept HostCallError as e:\n    print(e.namespace, e.operation, e.type)"
    assert wait(session.run(code)).stdout == "tools fail ToolError\n"
    for call, words in (
        ("add()", "missing a required argument: 'a'"), ("add('1')", "a: must be integer"), ("add(True)", "integer"),
        ("add(1, 2, 3)", "too many positional arguments"), ("add(1, c=2)", "unexpected keyword argument 'c'"),
    ):
        assert words in wait(session.run(f"tools.{call}")).error.message


def test_result_that_is_no_json_is_an_error(session, wait):
    session.tool(object, name="thing")
    session.tool(name="nothing")(lambda: float("nan"))
    session.tool(name="large")(lambda: "x" * (1 << 20))
    assert "object is not one" in wait(session.run("tools.thing()")).error.message
    assert wait(session.run("tools.nothing()")).error.name == "ToolError"
    assert "write a file" in wait(session.run("tools.large()")).error.message
    assert wait(session.run("tools.add(1)")).value == "3"


def test_time_of_a_function_is_bounded(session, wait):
    end = threading.Event()
    session.tool(name="slow", timeout=0.1)(lambda: end.wait(20))

    @session.tool(timeout=0.1)
    async def sleepy():
        await asyncio.sleep(20)

    for name in ("slow", "sleepy"):
        result = wait(session.run(f"tools.{name}()"))
        assert result.error.name == "ToolTimeoutError" and "0.1 s" in result.error.message
    end.set()
    assert wait(session.run("tools.add(1)")).value == "3"


def test_calls_end_with_their_run(session, wait):
    begun = []

    @session.tool
    async def hang():
        begun.append(1)
        await asyncio.sleep(1.0)

    result = wait(session.run("tools.hang()", timeout=0.3))
    assert result.status == "timeout" and begun == [1]
    assert wait(session.run("tools.add(1)")).value == "3"


def test_function_that_runs_code_in_its_own_session_is_refused(session, wait):
    @session.tool
    def nested():
        answer = session.run("1")
        return asyncio.run(answer) if asyncio.iscoroutine(answer) else answer

    assert "wait for itself" in wait(session.run("tools.nested()")).error.message


def test_tools_are_those_of_one_session(session, open_session, wait):
    other = open_session(cella.SandboxExecutor(python_version="/usr/bin/python3"))
    other.tool(name="other")(lambda: 1)
    assert wait(other.run("[tool.name for tool in tools.list()]")).value == "['other']"
    assert wait(session.run("tools.other()")).error.name == "ToolNotFoundError"
    without = open_session(cella.SandboxExecutor(python_version="/usr/bin/python3"))
    assert wait(without.run("tools.list()")).value == "[]"


def test_tools_survive_reset_and_crash(session, wait):
    wait(session.reset())
    assert wait(session.run("import os; os.kill(os.getpid(), 9)")).status == "crashed"
    assert wait(session.run("tools.add(1)")).value == "3"
    assert wait(session.run("import os; tools.add(1), len(os.listdir('/proc/self/task'))")).value == "(3, 1)"


def test_callbacks_go_on_beside_calls(session, wait):
    texts = []
    result = wait(session.run("print(tools.add(1)); print(tools.add(2))", on_stdout=texts.append))
    assert result.stdout == "3\n4\n" and "".join(texts) == "3\n4\n"


def test_exception_of_a_callback_ends_the_run(session, wait):
    def fail(text):
        raise LookupError(text)

    with pytest.raises(LookupError):
        wait(session.run("print('x', flush=True)\nimport time\ntime.sleep(60)", on_stdout=fail))
    assert wait(session.run("tools.add(1)")).value == "3"


def test_secret_of_a_function_is_nowhere_in_the_guest(session, wait):
    @session.tool
    def authorised(question: str) -> str:
        return f"{question}: {len(SECRET)}"

    # The control: a secret that the code is told is found.
    session.tool(name="told")(lambda: SECRET.replace("hunter2", "hunter3"))
    events = []
    result = wait(session.run(SEARCH, on_event=lambda event: events.append(str(event.document))))
    found, files, variables = eval(result.value)
    assert found["2"] == 0 and found["3"] > 0, result.stderr
    assert files == [] and "hunter" not in str(variables)
    assert SECRET not in "".join(events) + str(result.document)


def test_stream_serves_calls_while_its_events_are_read(session, twin, wait):
    stream = session.stream("first = tools.add(1)\nprint(first)\nprint(tools.later('x'))")
    events = list(twin.each(stream))
    assert "".join(event.text for event in events if event.type == "stdout") == "3\nx\n"
    assert [event.document["name"] for event in events if event.type == "tool"] == ["add", "later"]
    assert events[-1].type == "finished" and [event.n for event in events] == list(range(len(events)))
    assert stream.result.ok and stream.result.stdout == "3\nx\n"


def test_stream_that_is_left_ends_its_run_and_its_calls(session, twin, wait):
    begun, cancelled = [], []

    @session.tool
    async def hang():
        begun.append(1)
        try:
            await asyncio.sleep(60 if twin.name == "async" else 0.1)
        except asyncio.CancelledError:
            cancelled.append(1)
            raise

    stream = session.stream("print('x', flush=True)\nwhile True: tools.hang()")
    for event in twin.each(stream):
        if event.type == "stdout":
            break
    twin.close(stream)
    assert wait(session.run("tools.add(1)")).value == "3"
    assert stream.result is None
    if begun and twin.name == "async":
        assert cancelled == [1]


def test_started_run_has_its_calls_served_beside_the_caller(session, twin, wait):
    run = wait(session.start("import time\nfound = [tools.add(n) for n in range(50)]\nfound[-1], tools.later('x')"))
    result = wait(run.result())
    assert result.value == "(51, 'x')", result.error
    names = [event.document["name"] for event in twin.each(run.events()) if event.type == "tool"]
    assert names == ["add"] * 50 + ["later"]
    assert wait(session.run("tools.add(1)")).value == "3"


def test_run_that_was_started_in_its_own_session_by_a_tool_is_refused(session, wait):
    @session.tool
    def nested():
        answer = session.start("1")
        return asyncio.run(answer) if asyncio.iscoroutine(answer) else answer

    assert "wait for itself" in wait(session.run("tools.nested()")).error.message


def test_session_shows_its_tools_outside_as_its_code_sees_them(session, wait):
    assert [each["name"] for each in session.tools.list()] == ["add", "later"] == list(session.tools)
    assert session.tools.add(1, b=5) == 6 and wait(session.run("tools.add(1, b=5)")).value == "6"
    assert [each["name"] for each in session.tools.search("two numbers")] == ["add"]
    inside = wait(session.run("tools.search('two numbers'), tools.add.describe()")).value
    assert eval(inside) == ([session.tools.add.describe()], session.tools.add.describe())
    assert "add" in session.tools and len(session.tools) == 2
    with pytest.raises(AttributeError, match="add, later"):
        session.tools.none()


def test_client_that_leaves_in_the_middle_of_a_call_ends_its_run(session, wait):
    """A channel that is dropped; the next run is untouched."""
    if hasattr(session, "aclose"):

        async def leave():
            task = asyncio.ensure_future(session.run("tools.stuck()"))
            while not begun:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        begun = []

        @session.tool
        async def stuck():
            begun.append(1)
            await asyncio.sleep(60)

        wait(leave())
    assert wait(session.run("tools.add(1)")).value == "3"


@pytest.mark.parametrize("name", ["", "list", "call_sync", "1x", "a-b", "_x", "x" * 65])
def test_wrong_names_are_refused_when_the_tool_is_made(name):
    with pytest.raises(ValueError, match="cannot be called"):
        Tool(add, name, None, None)


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0


@pytest.mark.parametrize(
    "hint, good, made",
    [
        (float, 1, 1.0), (Optional[int], None, None), (Union[int, str], "a", "a"), (Literal["a", 1], 1, 1),
        (list[int], [1, 2], [1, 2]), (tuple[int, str], [1, "a"], (1, "a")), (set[str], ["a"], {"a"}),
        (dict[str, float], {"a": 1}, {"a": 1.0}), (pathlib.Path, "a/b", pathlib.Path("a/b")),
        (Colour, "red", Colour.RED), (Point, {"x": 1}, Point(1.0)), (list[Point], [{"x": 1}], [Point(1.0)]),
        (Any, {"a": [1]}, {"a": [1]}), (Optional[Point], {"x": 2}, Point(2.0)), (float, 1.5, 1.5),
    ],
)
def test_arguments_become_what_the_hint_names(hint, good, made):
    def function(value):
        return value

    function.__annotations__ = {"value": hint}
    import json

    tool = Tool(function, None, None, None)
    words, named = tool.bind(json.dumps({"args": [good], "kwargs": []}))
    assert words == (made,) and type(words[0]) is type(made) and named == {}
    if hint is not Any:
        with pytest.raises(BadArgument, match="value"):
            tool.bind('{"args": [{"wrong": [[]]}], "kwargs": []}')


def test_results_are_encoded(wait):
    tool = Tool(add, None, None, None)
    assert tool.encode({"p": Point(1.0), "c": Colour.RED, "s": {2, 1}, "f": pathlib.Path("a")}) == (
        '{"p": {"x": 1.0, "y": 0.0}, "c": "red", "s": [1, 2], "f": "a"}'
    )
