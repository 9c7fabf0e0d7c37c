"""A client without the Python package serves tools over the WebSocket of a session (docs/tools.md), also wrongly."""

import contextlib
import json

import pytest
from channel import Channel
from server import client, serve, server, session  # noqa: F401 (fixtures)

ADD = {"name": "add", "description": "Adds.", "schema": {"type": "object"}}


@pytest.fixture
def channels(client, session):  # noqa: F811
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(contextlib.closing(Channel(client, session)))


@pytest.fixture
def channel(channels):
    made = channels()
    made.send(type="tools", tools=[ADD], ref="mine")
    assert made.until(type="registered") == {"type": "registered", "ref": "mine", "tools": 1}
    return made


def start(channel, code, **more):
    channel.send(type="run", code=code, ref="run", **more)
    return channel.until(type="accepted")["run"]


def test_client_serves_calls_and_sees_arguments_in_their_order(channel, session):  # noqa: F811
    run = start(channel, "tools.add(1, z=2, a=[None]), tools.add()")
    first = channel.until(type="call")
    assert first["tool"] == "add" and json.loads(first["arguments"]) == {"args": [1], "kwargs": [["z", 2], ["a", [None]]]}
    channel.send(type="reply", call=first["call"], value='{"sum": 3}')
    second = channel.until(type="call")
    channel.send(type="reply", call=second["call"], value="null")
    channel.finished()
    assert session.ended(run)["value"] == "({'sum': 3}, None)"


def test_error_of_a_client_is_a_tool_error_of_the_code(channel, session):  # noqa: F811
    run = start(channel, "for _ in range(2):\n    try: tools.add()\n    except HostCallError as e: print(type(e).__name__, e)")
    for kind in ("ToolTimeoutError", "SystemExit"):
        call = channel.until(type="call")
        channel.send(type="reply", call=call["call"], error={"type": kind, "message": "no"})
    channel.finished()
    assert session.ended(run)["stdout"] == "ToolTimeoutError no\nToolError no\n"


def test_replies_that_fit_no_call_are_dropped(channel, channels, session):  # noqa: F811
    other = channels()
    run = start(channel, "tools.add()")
    number = channel.until(type="call")["call"]
    other.send(type="reply", call=number, value='"of another channel"')
    for call in (number + 1, -1, "x", None, 1 << 70, [number]):
        channel.send(type="reply", call=call, value='"wrong"')
    channel.send(type="reply")
    channel.send(type="reply", call=number, value='"right"')
    channel.finished()
    channel.send(type="reply", call=number, value='"late"')
    assert session.ended(run)["value"] == "'right'"
    assert session.value("1 + 1") == "2"


@pytest.mark.parametrize("value", ["[", "", "{'a': 1}", 5, None, {"a": 1}])
def test_result_that_is_no_json_is_a_typed_error(channel, session, value):  # noqa: F811
    run = start(channel, "try:\n    tools.add()\nexcept HostCallError as error:\n    print(type(error).__name__, error)")
    channel.send(type="reply", call=channel.until(type="call")["call"], value=value)
    channel.finished()
    result = session.ended(run)
    assert result["stdout"] == "ToolError the result is no JSON\n", result


def test_result_above_the_bound_is_an_error(channel, session):  # noqa: F811
    run = start(channel, "try:\n    tools.add()\nexcept ToolError as error:\n    print('write a file' in str(error))")
    channel.send(type="reply", call=channel.until(type="call")["call"], value='"' + "x" * (1 << 20) + '"')
    channel.finished()
    assert session.ended(run)["stdout"] == "True\n"


@pytest.mark.parametrize(
    "tools",
    [
        None, {}, [5], [{}], [{"name": "a-b"}], [{"name": "_x"}], [{"name": "list"}], [{"name": "x" * 65}], [ADD, ADD],
        [{"name": "a", "schema": []}], [{"name": "a", "description": "x" * 10_000}], [{"name": f"t{n}"} for n in range(257)],
    ],
)
def test_wrong_tools_are_refused_and_the_old_ones_stay(channel, tools):
    channel.send(type="tools", tools=tools)
    assert channel.until(type="refused")["error"]["code"] == "invalid"
    start(channel, "tools.add()")
    channel.send(type="reply", call=channel.until(type="call")["call"], value="1")
    channel.finished()


def test_end_of_a_run_cancels_its_calls(channel, session):  # noqa: F811
    run = start(channel, "tools.add()", timeout=0.3)
    number = channel.until(type="call")["call"]
    assert channel.until(type="call_cancelled")["call"] == number
    channel.send(type="reply", call=number, value="1")
    channel.finished()
    assert session.ended(run)["status"] == "timeout"


@pytest.mark.parametrize("ends", [True, False])
def test_client_that_leaves_in_a_call_ends_it(channel, session, ends):  # noqa: F811
    code = "try:\n    tools.add()\nexcept ToolError as error:\n    print(error)"
    run = start(channel, code, cancel_on_disconnect=ends)
    channel.until(type="call")
    channel.close()
    result = session.ended(run)
    if ends:
        assert result["status"] == "cancelled", result
    else:
        assert result["stdout"] == "the client that serves this tool has left\n", result
    assert session.value("tools.list()") == "[]"


def test_channel_of_another_client_is_not_found(serve):  # noqa: F811
    running = serve(tokens={"alice": "a" * 32, "bob": "b" * 32}, tcp=True)
    alice, bob = running.tcp_client("a" * 32), running.tcp_client("b" * 32)
    opened = alice.open()
    with contextlib.closing(Channel(alice, opened)) as own, contextlib.closing(Channel(bob, opened)) as foreign:
        assert (own.status, foreign.status) == (101, 404)


def many(prefix, count, size):
    return [{"name": f"{prefix}{n}", "description": "a" * size, "schema": {}} for n in range(count)]


def test_tools_of_all_channels_of_a_session_are_bounded(channels):  # noqa: F811
    """The code of a session may list and search them as often as it likes."""
    kept, second = channels(), channels()
    kept.send(type="tools", tools=[ADD, *many("a", 255, 8000)], ref="kept")
    assert kept.until(ref="kept")["type"] == "registered"
    second.send(type="tools", tools=many("b", 256, 8100), ref="too large")
    assert second.until(ref="too large")["type"] == "registered"
    third = channels()
    third.send(type="tools", tools=many("c", 256, 8100), ref="too large")
    refused = third.until(ref="too large")
    assert refused["type"] == "refused" and "of all its channels" in refused["error"]["message"], refused
    third.send(type="tools", tools=many("c", 256, 10), ref="small")
    assert third.until(ref="small")["type"] == "registered"
    last = channels()
    last.send(type="tools", tools=many("d", 256, 10), ref="small")
    assert last.until(ref="small")["type"] == "registered"
    last.send(type="tools", tools=many("e", 256, 10), ref="instead")  # in the place of its own
    assert last.until(ref="instead")["type"] == "registered"
    more = channels()
    more.send(type="tools", tools=many("f", 1, 10), ref="too many")
    assert more.until(ref="too many")["type"] == "refused"
    start(kept, "print([tool.name for tool in tools.search('adds ' * 40)], len(tools.search('aaa b', limit=100)))")
    kept.finished()
