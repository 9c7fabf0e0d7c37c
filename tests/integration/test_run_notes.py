"""What `cella run` adds for people: files that are not copied out, and the option that would have helped."""

import pty
import os

import pytest
from support.cella import PYTHON

MAKES_FILES = "for name in {names!r}: open(name, 'w').write('x')"


def words_of(run, *words, **options):
    return run(*words, **options).stderr.decode()


def test_discarded_files_are_named_on_request(run, tmp_path):
    one = MAKES_FILES.format(names=["plot.png"])
    said = "1 file discarded: plot.png (--out DIR keeps it)"
    assert words_of(run, "-c", one) == ""
    assert f"cella: {said}\n" in words_of(run, "--summary", "-c", one)
    assert run.json("-c", one)["note"] == said
    assert run.json("-c", MAKES_FILES.format(names=["Grafik März.png"]))["note"].startswith("1 file discarded: Grafik März.png (")
    many = MAKES_FILES.format(names=[f"{n}.csv" for n in range(5)])
    assert run.json("-c", many)["note"] == "5 files discarded: 0.csv, 1.csv, 2.csv and 2 more (--out DIR keeps them)"
    assert "note" not in run.json("-c", one, "--out", tmp_path / "out")
    assert "note" not in run.json("-c", one, "--workdir", tmp_path)
    assert "note" not in run.json("-c", "1")


def test_discarded_files_are_named_on_a_terminal(run):
    ours, theirs = pty.openpty()
    with open(ours, "rb", buffering=0) as terminal, run.started(
        "-c", MAKES_FILES.format(names=["\x1b[31m.png"]), through=["/bin/sh", "-c", f'exec "$0" "$@" 2>/proc/{os.getpid()}/fd/{theirs}']
    ) as started:
        assert started.finish().exit_code == 0
        assert terminal.read(1000) == b"cella: 1 file discarded: ? (--out DIR keeps it)\r\n"
    os.close(theirs)


READS = {
    "python": "open('input.csv')",
    "bash": "cat ./input.csv",
    "javascript": "require('fs').readFileSync('input.csv')",
}


@pytest.mark.parametrize("language", READS)
def test_missing_file_that_the_caller_has(run, tmp_path, language):
    words = ["--lang", language, "-c", READS[language]]
    assert "cella:" not in words_of(run, *words, cwd=tmp_path)
    (tmp_path / "input.csv").write_text("1,2")
    hint = words_of(run, *words, cwd=tmp_path).splitlines()[-1]
    assert hint == (
        "cella: 'input.csv' is here, but the code does not see this directory: --file input.csv copies it in, "
        "--workdir . gives the code this directory"
    )
    assert "cella:" not in words_of(run, *words, "--file", "input.csv", cwd=tmp_path)
    assert "cella:" not in words_of(run, *words, "--executor", "local", "--workdir", ".", cwd=tmp_path)


# What a program of each kind prints.
SAID = {
    "in a directory": ("[Errno 2] No such file or directory: 'data/x.csv'", "data/x.csv", "--file data/x.csv:data/x.csv copies"),
    "with a space": ("cat: 'my data.csv': No such file or directory", "my data.csv", "--file 'my data.csv' copies"),
    "no ASCII": ("[Errno 2] No such file or directory: 'März.csv'", "März.csv", "--file 'März.csv' copies"),
    "shell": ("sh: 1: cannot open x.csv: No such file", "x.csv", "--file x.csv copies"),
    "ruby": ("No such file or directory @ rb_sysopen - my data.csv (Errno::ENOENT)", "my data.csv", "--file 'my data.csv'"),
    "r": ("  cannot open file 'x.csv': No such file or directory", "x.csv", "--file x.csv copies"),
    "php": ("Warning: fopen(x.csv): Failed to open stream: No such file or directory in <code>", "x.csv", "--file x.csv"),
    "java": ("java.io.FileNotFoundException: x.csv (No such file or directory)", "x.csv", "--file x.csv copies"),
    "go": ("open x.csv: no such file or directory", "x.csv", "--file x.csv copies"),
    "a directory": ("[Errno 2] No such file or directory: 'folder'", "folder/x", "directory: --workdir . gives"),
}


@pytest.mark.parametrize("kind", SAID)
def test_missing_file_is_found_in_messages_of_all_kinds(run, tmp_path, kind):
    said, name, hint = SAID[kind]
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("")
    told = words_of(run, "-c", f"import sys; sys.exit({said!r})", cwd=tmp_path)
    assert told.startswith(said) and hint in told, told


@pytest.mark.parametrize("name", ["../input.csv", "/etc/passwd", "in\x1bput.csv"])
def test_a_hint_names_only_plain_files_below_the_callers_directory(run, tmp_path, name):
    (tmp_path / "in\x1bput.csv").write_text("")
    code = f"import sys; sys.exit({f'No such file or directory: {chr(39)}{name}{chr(39)}'!r})"
    assert "cella:" not in words_of(run, "-c", code, cwd=tmp_path)


def test_refused_connection_without_network(run):
    code = "import socket; socket.create_connection(('127.0.0.1', 9))"
    hint = "cella: the code has no network; --network host gives it the network of this machine\n"
    assert words_of(run, "-c", code).endswith(hint)
    assert hint not in words_of(run, "-c", f"try:\n    {code}\nexcept OSError as error: print(error)")
    assert hint not in words_of(run, "--executor", "local", "-c", code)


def test_missing_module(run, tmp_path):
    words = ["-c", "import helper_of_ours.part"]
    hint = words_of(run, *words, cwd=tmp_path).splitlines()[-1]
    assert hint == "cella: --with PACKAGE installs a package before the code runs, --venv DIR uses a virtual environment"
    (tmp_path / "helper_of_ours.py").write_text("")
    assert "--file helper_of_ours.py" in words_of(run, *words, cwd=tmp_path).splitlines()[-1]
    (tmp_path / "helper_of_ours.py").unlink()
    (tmp_path / "helper_of_ours").mkdir()
    (tmp_path / "helper_of_ours/__init__.py").write_text("")
    assert "--workdir . gives" in words_of(run, *words, cwd=tmp_path).splitlines()[-1]


def test_words_behind_the_file_are_the_programs(run, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys; print(sys.argv[1:])")
    assert run("--python", PYTHON, script, "a", "b c", "--", "-v", "--").stdout == b"['a', 'b c', '-v', '--']\n"
    assert run(script, "a", "--timeout", "20s").stdout == b"['a']\n"
    refused = run(script, "-v")
    assert refused.exit_code == 2 and b"Options of the program follow '--'" in refused.stderr
