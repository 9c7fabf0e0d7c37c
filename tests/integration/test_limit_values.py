"""Invalid limits are refused before anything starts, with a message that names the option."""

import pytest

SIZES = ("--memory", "--disk", "--output-limit")
DURATIONS = ("--timeout", "--cpu-time")
COUNTS = ("--pids", "--open-files")


def refusal(run, option, value):
    finished = run("-c", "print('ran')", option, value)
    assert (finished.exit_code, finished.stdout) == (2, b""), finished.describe()
    message = finished.stderr.decode()
    assert option in message and "--help" in message, message
    return message


@pytest.mark.parametrize("option", SIZES + DURATIONS + COUNTS + ("--cpus",))
@pytest.mark.parametrize("value", ["0", "-1", "12q", "1e3", "nan", "inf", "0x10", "1,5", " 1", "1 ", "ten", "+1", "--"])
def test_rejects_malformed_limit(run, option, value):
    if value == "--":
        # What follows is the program's: the option has no value.
        finished = run("-c", "print('ran')", option, value)
        assert (finished.exit_code, finished.stdout) == (2, b"")
        assert option.encode() in finished.stderr
        return
    message = refusal(run, option, value)
    assert f"'{value}'" in message, message


@pytest.mark.parametrize("option", SIZES + DURATIONS + COUNTS + ("--cpus",))
def test_rejects_empty_limit(run, option):
    """As in --memory "$LIMIT" without the variable: an empty value must not mean no limit."""
    refusal(run, option, "")


@pytest.mark.parametrize("option", SIZES + DURATIONS + COUNTS + ("--cpus",))
def test_rejects_huge_limit(run, option):
    for value in ("9" * 30, "9" * 400):
        refusal(run, option, value)


@pytest.mark.parametrize("option", SIZES)
def test_size_error_names_the_mistake(run, option):
    assert "512m" in refusal(run, option, "12q")
    assert "too large" in refusal(run, option, "99999999t")
    assert "at least" in refusal(run, option, "0.1")


@pytest.mark.parametrize("option", DURATIONS)
def test_duration_error_names_the_mistake(run, option):
    assert "90s" in refusal(run, option, "12q")
    assert "at least 1ms" in refusal(run, option, "0.1ms")
    assert "over a year" in refusal(run, option, "9999d")


@pytest.mark.parametrize("option", COUNTS)
def test_rejects_fractional_count(run, option):
    for value in ("1.5", "12k", "99999999999"):
        refusal(run, option, value)


def test_rejects_limit_too_small_to_start(run):
    assert "at least 1m" in refusal(run, "--memory", "4k")
    assert "at least 16" in refusal(run, "--open-files", "3")


def test_rejects_more_open_files_than_the_callers_limit(run):
    lowered = ["/bin/sh", "-c", 'ulimit -n 512; exec "$@"', "sh"]
    message = run.rejected("-c", "pass", "--open-files", "2000", through=lowered)
    assert "the limit 'open_files' cannot be enforced here" in message and "512" in message and "ulimit" in message
    # A limit that was not asked for takes the largest that is possible.
    result = run.shell("ulimit -n", through=lowered)
    assert result["stdout"] == "512\n" and result["isolation"]["limits"]["open_files"] == {"value": 512, "by": "rlimit"}


def test_first_of_several_mistakes_is_reported_and_nothing_runs(run, tmp_path):
    finished = run("-c", f"open('{tmp_path}/ran', 'w')", "--executor", "local", "--memory", "0", "--timeout", "x")
    assert finished.exit_code == 2 and finished.stderr.count(b"\n") == 2, finished.describe()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", ["1", "1.5", "0.25", "2"])
def test_valid_limits_are_accepted(run, value):
    result = run.json("-c", "print('ran')", "--timeout", value, "--memory", f"{value}g", "--cpu-time", f"{value}m")
    assert (result["status"], result["stdout"]) == ("ok", "ran\n"), result
    assert result["isolation"]["limits"]["timeout"]["value"] == float(value)
