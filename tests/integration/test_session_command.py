"""`cella session …`: what a server lists and what a run writes arrives whole, or with a word about what is missing."""

import json
import os
import subprocess

import pytest
from server import serve  # noqa: F401 (fixture)

BOUND = 60.0


@pytest.fixture
def command(cella, serve):
    server = serve(config={"sessions": {"pool_shells": 0, "pool_parked": 0, "max_sessions": 4096}})

    def run(*words, expect=0):
        done = subprocess.run(
            [cella.binary, "session", *words], env={**os.environ, "CELLA_URL": f"unix:{server.socket}"},
            stdin=subprocess.DEVNULL, capture_output=True, timeout=BOUND,
        )
        assert done.returncode == expect, done
        return done

    run.server = server
    return run


def test_ls_shows_every_session(command):
    """A server gives 100 at once unless it is asked for more, and 1000 at most."""
    client = command.server.client()
    opened = {client.post("/v1/sessions", executor="sandbox").expect(201)["id"] for _ in range(120)}
    listed = {line.split()[0] for line in command("ls").stdout.decode().splitlines()}
    assert listed == opened
    assert {json.loads(line)["id"] for line in command("ls", "--json").stdout.splitlines()} == opened


def test_files_shows_every_file(command):
    session = command("new").stdout.decode().strip()
    command("run", session, "-c", "for i in range(2300): open('f%04d' % i, 'w').close()")
    names = [line.split()[1] for line in command("files", session).stdout.decode().splitlines()]
    assert names == ["f%04d" % i for i in range(2300)]


def test_output_does_not_end_at_nul(command):
    session = command("new").stdout.decode().strip()
    assert command("run", session, "-c", "print('a\\0b')").stdout == b"a\0b\n"


def test_dropped_output_is_reported(command):
    session = command("new").stdout.decode().strip()
    done = command("run", session, "-c", "print('x' * 3_000_000)")
    assert len(done.stdout) < 3_000_000
    dropped = 3_000_001 - len(done.stdout)
    assert f"{dropped} bytes of stdout were dropped" in done.stderr.decode()


def test_runs_lists_the_ids_that_cancel_needs(command):
    session = command("new").stdout.decode().strip()
    command("run", session, "-c", "1")
    command("run", session, "-c", "import sys; sys.exit(3)", expect=3)
    runs = [line.split() for line in command("runs", session).stdout.decode().splitlines()]
    assert [words[1:3] for words in runs] == [["ok", "0"], ["error", "3"]]
    started = command.server.client().post(f"/v1/sessions/{session}/runs", code="import time; time.sleep(60)", wait=False)
    run = started.expect(202)["id"]
    listed = [json.loads(line) for line in command("runs", session, "--json").stdout.splitlines()]
    assert [each["id"] for each in listed][-1] == run
    assert command("cancel", session, run).stderr == b""
    assert b"had ended before" in command("cancel", session, runs[0][0]).stderr
    command("rm", session)


def test_get_and_put_take_the_paths_of_the_code(command, tmp_path):
    session = command("new").stdout.decode().strip()
    (tmp_path / "local").write_text("text")
    for path in ("/workspace/a", "/tmp/d/b"):
        command("put", session, tmp_path / "local", path)
        assert command("get", session, path).stdout == b"text"
        assert command("run", session, "-c", f"print(open({path!r}).read())").stdout == b"text\n"
    assert command("files", session, "/tmp/d").stdout.split()[-1] == b"b"
    for words in (("get", session, "/etc/passwd"), ("put", session, tmp_path / "local", "/etc/passwd")):
        assert b"'/etc/passwd' is absolute" in command(*words, expect=126).stderr


def test_displays_are_shown_in_their_place(command):
    session = command("new").stdout.decode().strip()
    picture = "class P:\n    def _repr_png_(self):\n        import struct\n        return b'\\x89PNG\\r\\n\\x1a\\n' + struct.pack('>I4sII', 13, b'IHDR', 640, 480)"
    command("run", session, "-c", picture)
    shown = command("run", session, "-c", "print('a'); display(1.5); print('b'); display(P()); 2").stdout
    assert shown == b"a\n1.5\nb\n[image/png 640x480]\n2\n"


@pytest.mark.parametrize(
    "code, exit_code, words",
    [("import time; time.sleep(60)", 124, ["stopped after 1s"]),
     ("import os; os._exit(0)", 1, ["ended the interpreter", "as before this run"]),
     ("import os; os.kill(os.getpid(), 11)", 139, ["signal 11", "as before this run"])],
)
def test_end_that_the_output_does_not_show_is_told(command, code, exit_code, words):
    session = command("new").stdout.decode().strip()
    command("run", session, "-c", "x = 1")
    told = command("run", session, "--timeout", "1s", "-c", code, expect=exit_code).stderr.decode()
    assert all(word in told for word in words), told


def test_traceback_ends_with_its_line(command):
    session = command("new").stdout.decode().strip()
    assert command("run", session, "--lang", "javascript", "-c", "nope()", expect=1).stderr.endswith(b"\n")


def test_wrong_timeout_ends_with_2(command):
    session = command("new").stdout.decode().strip()
    assert b"--timeout" in command("run", session, "--timeout", "abc", "-c", "1", expect=2).stderr
    told = command("run", session, "--timeout", "1000h", "-c", "1", expect=126).stderr
    assert b"--url" in command("ls", "--url", "nonsense", expect=2).stderr
    assert b"more than this server allows" in told and b"at most" in told, told


def test_put_names_the_file_as_it_is_called(command, tmp_path):
    session = command("new").stdout.decode().strip()
    (tmp_path / "data.csv").write_text("text")
    command("put", session, tmp_path / "data.csv")
    assert command("get", session, "data.csv").stdout == b"text"
