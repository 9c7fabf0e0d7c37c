"""What is run, with which arguments, and what it reads."""

import hashlib
import os
import random
import socket
import subprocess

import pytest
from support.cella import PYTHON
from support.running import IS_ROOT

SHOW_ARGS = "import sys; print(sys.argv[1:])"


def test_code_on_the_command_line(run):
    assert run.json("-c", "print(6 * 7)")["stdout"] == "42\n"
    assert run.json("--code", "print(6 * 7)")["stdout"] == "42\n"
    assert run.json("--code=print(6 * 7)")["stdout"] == "42\n"


@pytest.mark.parametrize("code", ["-1", "--help", "-c", "--", "-x\n"])
def test_code_may_begin_with_a_dash(run, code):
    """It is the value of -c, whatever it looks like."""
    result = run.json("--lang", "sh", "-c", f"{code}")
    assert result["status"] == "error" and result["exit_code"] == 127, result
    assert "not found" in result["stderr"]


def test_code_may_start_with_two_dashes(run):
    result = run.json("--lang", "lua", "-c", "-- a comment\nprint(arg[1])", "--", "x")
    assert result["stdout"] == "x\n", result


def test_empty_code_runs_and_does_nothing(run):
    for language in ("python", "sh", "javascript"):
        result = run.json("--lang", language, "-c", "")
        assert (result["status"], result["stdout"], result["stderr"]) == ("ok", "", "")
    assert run("-", input=b"").exit_code == 0


def test_language_is_detected_by_extension(run, tmp_path):
    for name, text, out in [
        ("a.py", "print('python')", "python\n"),
        ("a.sh", "echo $0", "a.sh\n"),
        ("a.bash", "echo ${BASH_VERSION:+bash}", "bash\n"),
        ("a.js", "console.log(typeof process)", "object\n"),
        ("a.pl", "print 'perl'", "perl"),
        # The extension tells more than a '#!' line, except for .sh, which many a bash script is called.
        ("b.py", "#!/bin/bash\nprint('python')", "python\n"),
        ("b.sh", "#!/bin/bash\necho ${BASH_VERSION:+bash}", "bash\n"),
    ]:
        (tmp_path / name).write_text(text)
        result = run.json(tmp_path / name)
        assert (result["status"], result["stdout"]) == ("ok", out), (name, result)


@pytest.mark.parametrize(
    "line, out",
    [
        ("#!/usr/bin/python3", "python"),
        ("#!/usr/bin/env python3", "python"),
        ("#!/usr/bin/env -S python3 -u", "python"),
        ("#! /usr/bin/python3.11", "python"),
        ("#!/bin/sh", "sh"),
        ("#!/usr/bin/env bash", "bash"),
    ],
)
def test_language_is_detected_by_first_line(run, tmp_path, line, out):
    body = (
        "import sys; print('python')" if out == "python" else 'if [ "$BASH_VERSION" ]; then echo bash; else echo sh; fi'
    )
    for name in ("script", "script.unknown"):
        (tmp_path / name).write_text(f"{line}\n{body}\n")
        assert run.json(tmp_path / name)["stdout"] == out + "\n", name
    assert run.json("-", input=f"{line}\n{body}\n".encode())["stdout"] == out + "\n"
    assert run.json("-c", f"{line}\n{body}\n")["stdout"] == out + "\n"


@pytest.mark.parametrize(
    "name", ["a b.py", "ümläut€.py", "-dash.py", "{tool}.py", "quote'\".py", "two.dots.py", "%s.py"]
)
def test_file_with_unusual_name_runs(run, tmp_path, name):
    (tmp_path / name).write_text("import sys, os; print(os.path.basename(sys.argv[0]))")
    assert run.json(tmp_path / name)["stdout"] == name + "\n"
    if not name.startswith("-"):
        assert run.json(name, cwd=tmp_path)["stdout"] == name + "\n"
    assert run.json("./" + name, cwd=tmp_path)["stdout"] == name + "\n"


def test_code_is_read_from_devices_pipes_and_symlinks(run, tmp_path):
    assert run.json("/dev/null", "--lang", "python")["status"] == "ok"
    os.mkfifo(tmp_path / "pipe.py")
    writer = subprocess.Popen(["/bin/sh", "-c", f"echo 'print(1)' > {tmp_path}/pipe.py"])
    assert run.json(tmp_path / "pipe.py")["stdout"] == "1\n"
    assert writer.wait(5) == 0
    (tmp_path / "link.py").symlink_to(tmp_path / "real.py")
    (tmp_path / "real.py").write_text("print('through a link')")
    assert run.json(tmp_path / "link.py")["stdout"] == "through a link\n"


def test_code_from_standard_input(run):
    assert run.json("-", input=b"print('from stdin')")["stdout"] == "from stdin\n"
    assert run.json("-", "--lang", "sh", "--", "x", input=b"echo $1")["stdout"] == "x\n"
    # The code took it all: the program has nothing to read.
    assert run.json("-", input=b"import sys; print(repr(sys.stdin.read()))")["stdout"] == "''\n"


@pytest.mark.parametrize("executor", ["sandbox", "local"])
def test_arguments_are_passed_unchanged(run, executor):
    words = ["-a", "--json", "", "--", "two words", "'\"$`\\", "é€", "-", "\n", "*"]
    result = run.python(SHOW_ARGS, "--executor", executor, args=words)
    assert result["stdout"] == f"{words}\n"


def test_two_dashes_without_arguments_pass_none(run):
    assert run.json("-c", SHOW_ARGS, "--")["stdout"] == "[]\n"


def test_arguments_that_are_not_utf8_are_passed(run):
    finished = run("-c", "import sys, os; os.write(1, os.fsencode(sys.argv[1]))", "--", os.fsdecode(b"\xff\xfe!"))
    assert finished.stdout == b"\xff\xfe!"


def test_many_arguments_are_passed(run):
    words = [str(n) * 20 for n in range(10_000)]
    result = run.python(
        "import sys, hashlib; print(hashlib.md5('|'.join(sys.argv[1:]).encode()).hexdigest())", args=words
    )
    assert result["stdout"] == hashlib.md5("|".join(words).encode()).hexdigest() + "\n"


DIGEST = "import sys, hashlib; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"


@pytest.mark.parametrize("executor", ["sandbox", "local"])
def test_standard_input_is_passed_on(run, tmp_path, executor):
    data = random.Random(3).randbytes(20 << 20)
    expected = hashlib.sha256(data).hexdigest() + "\n"
    words = ["-c", DIGEST, "--python", PYTHON, "--executor", executor]
    assert run.json(*words, input=data)["stdout"] == expected
    (tmp_path / "data").write_bytes(data)
    with open(tmp_path / "data", "rb") as stream:
        assert run.json(*words, stdin=stream)["stdout"] == expected


def test_standard_input_of_a_compiled_language_goes_to_the_program(run):
    code = "#include <stdio.h>\nint main() { int c; while ((c = getchar()) != EOF) putchar(c); }"
    assert run.json("--lang", "c", "-c", code, input=b"for the program")["stdout"] == "for the program"


def test_endless_standard_input_does_not_delay_the_run(run):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.send(b"first line\n")
        result = run.python("print(input())", stdin=theirs.fileno(), timeout=10)
        assert (result["status"], result["stdout"]) == ("ok", "first line\n")
        assert run.shell("echo no read", stdin=theirs.fileno(), timeout=10)["stdout"] == "no read\n"


def test_program_ignoring_standard_input_ends_without_waiting(run):
    finished = run("-c", "print('done')", input=b"x" * (8 << 20), timeout=10)
    assert (finished.exit_code, finished.stdout, finished.stderr) == (0, b"done\n", b"")


@pytest.mark.parametrize("executor", ["sandbox", "local"])
def test_empty_or_closed_standard_input_reads_as_empty(run, executor):
    code = "import sys; print(repr(sys.stdin.read()))"
    assert run.python(code, "--executor", executor, stdin=subprocess.DEVNULL)["stdout"] == "''\n"
    closed = ["/bin/sh", "-c", 'exec "$@" 0<&-', "sh"]
    assert run.python(code, "--executor", executor, through=closed)["stdout"] == "''\n"


def test_an_unreadable_standard_input_reads_as_empty(run):
    code = "import sys; print(repr(sys.stdin.read()))"
    write_only = os.open("/dev/null", os.O_WRONLY)
    directory = os.open("/", os.O_RDONLY)
    try:
        for fd in (write_only, directory):
            assert run.python(code, stdin=fd, timeout=10)["stdout"] == "''\n"
    finally:
        os.close(write_only)
        os.close(directory)


@pytest.mark.parametrize(
    "alias, language",
    [
        ("python", "python"),
        ("Python", "python"),
        ("py", "python"),
        ("python3", "python"),
        ("python3.11", "python"),
        ("js", "javascript"),
        ("node", "javascript"),
        ("JavaScript", "javascript"),
        ("shell", "sh"),
        ("bash", "bash"),
        ("c++", "cpp"),
        ("pl", "perl"),
        ("rb", "ruby"),
        ("golang", "go"),
        ("rs", "rust"),
    ],
)
def test_language_aliases_are_accepted(run, alias, language):
    finished = run("--events", "--lang", alias, "-c", "")
    if b'"rejected"' in finished.stdout:
        # Its tools are not on this PATH; the language was understood.
        assert finished.exit_code == 127 and f"{language} cannot run here".encode() in finished.stdout
    else:
        assert f'"language":"{language}"'.encode() in finished.stdout, finished.describe()


def wrong_command_line(run, *words):
    """It ends with 2, as every wrong value of an option does; returns the sentence."""
    for form in ((), ("--json",)):
        ended = run(*form, *words)
        assert (ended.exit_code, ended.stdout) == (2, b""), ended.describe()
    return ended.stderr.decode()


def test_unknown_language_error_lists_known_languages(run):
    message = wrong_command_line(run, "--lang", "klingon", "-c", "1")
    assert "unknown language 'klingon'" in message
    assert "python" in message and "rust" in message and "javascript" in message


def test_unknown_extension_error_names_the_remedy(run, tmp_path):
    (tmp_path / "data.xyz").write_text("print(1)")
    message = run.rejected(tmp_path / "data.xyz")
    assert "data.xyz" in message and "--lang" in message
    (tmp_path / "plain").write_text("print(1)")
    assert "--lang" in run.rejected(tmp_path / "plain")
    assert "--lang" in run.rejected("-c", "#!/usr/bin/fortran\nx")
    assert run.json(tmp_path / "data.xyz", "--lang", "python")["stdout"] == "1\n"


def test_missing_file_exits_127(run, tmp_path):
    message = run.rejected(tmp_path / "missing.py", code=127)
    assert "missing.py" in message and "No such file" in message
    assert "is a directory" in run.rejected(tmp_path)
    (tmp_path / "f").write_text("")
    assert "f/x.py" in run.rejected(tmp_path / "f" / "x.py", code=127)


def test_rejects_unreadable_file(run, tmp_path):
    """Root reads everything; of the others, nobody reads a file of mode 0."""
    secret = tmp_path / "secret.py"
    secret.write_text("print(1)")
    secret.chmod(0)
    if IS_ROOT:
        assert run.json(secret)["stdout"] == "1\n"
    else:
        message = run.rejected(secret)
        assert "secret.py" in message and "Permission denied" in message


def test_rejects_command_without_code(run):
    assert "nothing to run" in wrong_command_line(run)
    assert "nothing to run" in wrong_command_line(run, "--lang", "python")
    assert "nothing to run" in wrong_command_line(run, "")


def test_word_that_is_no_command_is_named(cella, environment, tmp_path):
    (tmp_path / "script.py").write_text("print(1)")
    for word, remedy in (("rnu", "cella --help"), ("script.py", "cella run script.py")):
        ended = cella(word, env=environment, cwd=tmp_path)
        told = ended.stderr.decode()
        assert ended.exit_code == 2 and repr(word) in told and remedy in told, ended.describe()
    bare = cella(env=environment)
    assert bare.exit_code == 2 and b"run" in bare.stderr and b"repl" in bare.stderr, bare.describe()


def test_rejects_code_and_file_together(run, tmp_path):
    (tmp_path / "a.py").write_text("print(1)")
    message = wrong_command_line(run, tmp_path / "a.py", "-c", "print(2)")
    assert "not both" in message and "'--'" in message


def test_rejects_nul_byte_in_code(run, tmp_path):
    (tmp_path / "nul.py").write_bytes(b"print(1)\0print(2)")
    assert "NUL" in run.rejected(tmp_path / "nul.py")
    assert "NUL" in run.rejected("-", input=b"\0")


def test_code_that_is_not_utf8_reaches_the_interpreter(run, tmp_path):
    (tmp_path / "latin.py").write_bytes(b"print('\xe4')\n")
    result = run.json(tmp_path / "latin.py")
    assert (result["status"], result["exit_code"]) == ("error", 1) and "SyntaxError" in result["stderr"]
    (tmp_path / "latin.py").write_bytes(b"# -*- coding: latin-1 -*-\nprint(ascii('\xe4'))\n")
    assert run.json(tmp_path / "latin.py")["stdout"] == "'\\xe4'\n"
    assert run.json("-", "--lang", "sh", input=b"echo '\xe4' | wc -c")["stdout"].strip() == "2"


def test_code_with_byte_order_mark_runs(run, tmp_path):
    (tmp_path / "bom.py").write_bytes(b"\xef\xbb\xbfprint('ok')")
    assert run.json(tmp_path / "bom.py")["stdout"] == "ok\n"
    (tmp_path / "bom").write_bytes(b"\xef\xbb\xbf#!/usr/bin/python3\nprint('ok')")
    assert run.json(tmp_path / "bom")["stdout"] == "ok\n"


def test_code_up_to_the_size_limit_runs_and_larger_is_rejected(run, tmp_path):
    line = b"x = 1  # " + b"y" * 990 + b"\n"
    (tmp_path / "much.py").write_bytes(line * 10_000 + b"print('read it all')\n")
    assert run.json(tmp_path / "much.py")["stdout"] == "read it all\n"
    (tmp_path / "too_much.py").write_bytes(line * 50_000)
    message = run.rejected(tmp_path / "too_much.py")
    assert "32m" in message, message
    with open(tmp_path / "too_much.py", "rb") as stream:
        result = run.json("-", stdin=stream)
    assert (result["status"], result["exit_code"]) == ("rejected", 126) and "32m" in result["error"]["message"]


def test_endless_code_is_rejected_without_waiting(run):
    with open("/dev/zero", "rb") as zeros:
        result = run.json("-", stdin=zeros, timeout=20)
    assert (result["status"], result["exit_code"]) == ("rejected", 126)
