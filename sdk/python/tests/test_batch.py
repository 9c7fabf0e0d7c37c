"""Batches: independent snippets, each in a jail of its own."""

import os
import pty

import pytest

import cella
from cella.progress import Bar


def test_items_are_in_the_order_of_their_snippets(twin, wait):
    snippets = [f"import time; time.sleep({0.2 if n == 0 else 0}); {n} * 2" for n in range(20)]
    items = wait(twin.api.run_batch(snippets, concurrency=4))
    assert [item.index for item in items] == list(range(20))
    assert [item.result.value for item in items] == [str(n * 2) for n in range(20)]
    assert all(item.ok for item in items)


def test_progress_is_reported_as_snippets_end(twin, wait):
    seen = []
    wait(twin.api.run_batch(["1", "2", "1 / 0"], on_progress=lambda *words: seen.append(words)))
    assert [(done, total) for done, total, _ in seen] == [(1, 3), (2, 3), (3, 3)]
    assert sorted(item.index for _, _, item in seen) == [0, 1, 2]


def test_snippets_are_isolated_from_each_other(twin, wait):
    items = wait(twin.api.run_batch(["x = 1; open('f', 'w')", "import os; ('x' in globals(), os.path.exists('f'))"],
                                    concurrency=1))
    assert items[1].result.value == "(False, False)"


def test_stdin_and_expected_output_are_used(twin, wait):
    double = "print(int(input()) * 2)"
    items = wait(twin.api.run_batch([
        {"code": double, "stdin": "21\n", "expected": "42"},
        {"code": double, "stdin": "21\n", "expected": "43"},
        {"code": "echo hi", "language": "bash", "expected": "hi\n"},
        {"code": "while True: pass", "timeout": 0.2},
    ]))
    assert [item.passed for item in items] == [True, False, True, None]
    assert [item.ok for item in items] == [True, False, True, False]
    assert items[3].result.status == "timeout"


def test_limits_of_an_executor_apply_to_each_snippet(twin, wait):
    executor = cella.SandboxExecutor(default_timeout=2, env={"A": "b"})
    items = wait(twin.api.run_batch(["while True: pass", "import os; os.environ['A']"], executor=executor))
    assert (items[0].result.status, items[1].result.value) == ("timeout", "'b'")


def test_more_snippets_than_one_request_holds_all_run(twin, wait, monkeypatch):
    module = __import__(f"cella._{twin.name}.batch", fromlist=["batch"])
    monkeypatch.setattr(module, "_MOST_SNIPPETS", 3)
    monkeypatch.setattr(module, "_MOST_BYTES", 100)
    snippets = ["1", "2", "3", "4", "'" + "x" * 90 + "'", "'" + "y" * 90 + "'", "7"]
    items = wait(twin.api.run_batch(snippets))
    assert [item.index for item in items] == list(range(7))
    assert [item.result.value for item in items] == snippets


def test_empty_batch_returns_no_items(twin, wait):
    assert wait(twin.api.run_batch([])) == []


def test_rejects_invalid_snippet(twin, wait):
    with pytest.raises(cella.InvalidRequest, match="colour"):
        wait(twin.api.run_batch([{"code": "1", "colour": "red"}]))


def test_progress_bar_is_drawn_on_a_terminal(capfd, monkeypatch):
    master, slave = pty.openpty()
    with open(slave, "w") as terminal, monkeypatch.context() as patch:
        patch.setattr("sys.stderr", terminal)
        with Bar(4, shown=True) as bar:
            bar.show(4)
    shown = ""
    while not shown.endswith("\n"):  # a terminal hands on what was written in portions of its own
        shown += os.read(master, 1000).decode()
    os.close(master)
    assert "#" * 30 in shown and "4/4" in shown
    with Bar(4, shown=False) as bar:
        bar.show(4)
    assert capfd.readouterr().err == ""
