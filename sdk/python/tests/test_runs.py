"""Runs: values, errors, output of every kind, streams and callbacks."""

import pytest


def test_session_keeps_its_state(session, wait):
    assert wait(session.run("x = 6")).ok
    result = wait(session.run("x * 7"))
    assert (result.value, result.status, result.exit_code, result.state) == ("42", "ok", 0, "kept")
    assert result.session == session.id


def test_value_is_a_repr_or_none(session, wait):
    assert wait(session.run("'a'")).value == "'a'"
    assert wait(session.run("None")).value is None


def test_failing_code_is_a_result(session, wait):
    result = wait(session.run("print('before')\n1 / 0"))
    assert (result.status, result.exit_code, result.stdout) == ("error", 1, "before\n")
    assert (result.error.name, result.error.message) == ("ZeroDivisionError", "division by zero")
    assert "1 / 0" in result.error.traceback


def test_guest_uses_the_callers_python(session, wait):
    import sys

    result = wait(session.run("import sys; (sys.version_info[:3], sys.prefix)"))
    assert result.value == repr((sys.version_info[:3], sys.prefix))


def test_timeout_keeps_the_output(session, wait):
    result = wait(session.run("print('so far', flush=True)\nwhile True: pass", timeout=1.5))
    assert (result.status, result.exit_code, result.stdout) == ("timeout", 124, "so far\n")
    assert wait(session.run("1")).value == "1"


def test_crash_is_a_result_and_rolls_back(session, wait):
    wait(session.run("x = 41"))
    result = wait(session.run("x = 0; import os; os.kill(os.getpid(), 11)"))
    assert (result.status, result.signal, result.state) == ("crashed", 11, "rolled_back")
    assert wait(session.run("x + 1")).value == "42"


def test_other_languages_and_blocks_run(session, wait):
    assert wait(session.run("echo $((6 * 7))", language="bash")).stdout == "42\n"
    blocks = [{"code": "open('a', 'w').write('from python')"}, {"language": "bash", "code": "cat a"}]
    result = wait(session.run(blocks=blocks))
    assert result.stdout.endswith("from python")
    assert [(file.path, file.change, file.size) for file in result.files] == [("a", "created", 11)]


def test_unknown_language_is_rejected_and_the_session_works(session, wait):
    result = wait(session.run("x", language="klingon"))
    assert (result.status, result.exit_code) == ("rejected", 126)
    assert "klingon" in result.error.message
    assert wait(session.run("1")).ok


def test_stdin_is_passed(session, wait):
    assert wait(session.run("input()", stdin="line\n")).value == "'line'"


def test_rejects_neither_or_both_of_code_and_blocks(session, wait):
    with pytest.raises(ValueError, match="either code or blocks"):
        wait(session.run())
    with pytest.raises(ValueError, match="either code or blocks"):
        wait(session.run("1", blocks=[]))


def test_invalid_request_raises_the_servers_message(session, wait):
    from cella import InvalidRequest

    with pytest.raises(InvalidRequest, match="timeout") as refused:
        wait(session.run("1", timeout=-1))
    assert refused.value.status == 400
    assert wait(session.run("1")).ok


def test_output_that_is_not_utf8_is_available_as_text_and_bytes(session, wait):
    result = wait(session.run("import os; os.write(1, b'a\\xff\\xfeb\\n'); None"))
    assert result.stdout == "a\ufffd\ufffdb\n"
    assert wait(session.read_output(result)) == b"a\xff\xfeb\n"


def test_lone_surrogates_in_code_and_values_are_accepted(session, wait):
    result = wait(session.run("'\\ud800'"))
    assert result.value == r"'\ud800'"


def test_fifty_megabytes_of_output_are_read(open_session, wait):
    from cella import SandboxExecutor

    session = open_session(SandboxExecutor(output_limit="64m"))
    result = wait(session.run("import sys\nfor _ in range(50): sys.stdout.write('x' * (1 << 20))\nNone"))
    assert result.ok and len(result.stdout) == 50 << 20 and set(result.stdout) == {"x"}


def test_output_beyond_the_cap_is_truncated_and_can_be_read_completely(session, wait):
    result = wait(session.run("for i in range(500_000): print(i)"))
    assert result.ok and result.truncated["stdout"] > 0
    assert result.stdout.startswith("0\n1\n") and result.stdout.endswith("499999\n")
    whole = wait(session.read_output(result))
    assert whole == b"".join(b"%d\n" % i for i in range(500_000))


def test_stream_has_all_events_in_order(twin, session):
    stream = session.stream("print('out')\nimport sys; print('err', file=sys.stderr)\n6 * 7")
    events = list(twin.each(stream))
    assert [event.type for event in events] == ["started", "stdout", "stderr", "value", "finished"]
    assert [event.n for event in events] == [0, 1, 2, 3, 4]
    assert (events[1].text, events[2].text, events[3].text) == ("out\n", "err\n", "42")
    assert (stream.result.value, stream.result.stdout, stream.result.stderr) == ("42", "out\n", "err\n")


def test_events_arrive_while_the_code_runs(twin, session):
    """The code waits for a file that only arrives after its first words were seen."""
    code = "print('ready', flush=True)\nimport os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n'went'"
    stream = session.stream(code, timeout=20)
    for event in twin.each(stream):
        if event.type == "stdout":
            twin.wait(session.upload("go", b""))
    assert stream.result.value == "'went'"


def test_callbacks_are_called_during_the_run(session, wait):
    seen = []
    result = wait(
        session.run(
            "print('a')\nimport sys; print('b', file=sys.stderr)\ndisplay({'x': 1})\n'c'",
            on_stdout=lambda text: seen.append(("stdout", text)),
            on_stderr=lambda text: seen.append(("stderr", text)),
            on_display=lambda output: seen.append(("display", output.text)),
        )
    )
    assert seen == [("stdout", "a\n"), ("stderr", "b\n"), ("display", "{'x': 1}")]
    assert (result.value, result.stdout) == ("'c'", "a\n")


def test_exception_in_a_callback_is_raised_and_ends_the_run(session, wait):
    def fail(text):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        wait(session.run("x = 1\nwhile True: print('more')", on_stdout=fail))
    assert wait(session.run("'alive'", timeout=5)).value == "'alive'"


def test_input_is_answered_by_a_callback(session, wait):
    answers = {"Name? ": "Ada", "Age? ": None}
    result = wait(session.run("name = input('Name? ')\ntry: input('Age? ')\nexcept EOFError: print(name, 'is shy')",
                              on_input=answers.get))
    assert result.ok and "Ada is shy" in result.stdout


def test_input_is_answered_after_an_event(twin, session):
    stream = session.stream("input('? ')", input=True)
    for event in twin.each(stream):
        if event.type == "input_request":
            assert event.prompt == "? " and event.password is False
            twin.wait(session.input("said"))
    assert stream.result.value == "'said'"


def test_started_run_can_be_queried_later(twin, session, wait):
    run = wait(session.start("print('one')\n2"))
    result = wait(run.result())
    assert (result.id, result.value, result.stdout) == (run.id, "2", "one\n")
    assert wait(run.status()) == "ok"
    events = list(twin.each(run.events()))
    assert [event.type for event in events] == ["started", "stdout", "value", "finished"]
    assert [event.n for event in twin.each(run.events(after=1))] == [2, 3]
    assert wait(run.cancel()) is False
