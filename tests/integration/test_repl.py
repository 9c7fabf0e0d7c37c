"""`cella repl` on a real terminal: a pseudo terminal, typed at as a person would, and read as bytes."""

import fcntl
import os
import pty
import re
import select
import signal
import stat
import struct
import subprocess
import termios
import time

import pytest
from support.cella import PYTHON, run_bounded
from support.leftovers import assert_no_process, processes_with
from support.running import wait_until

PROMPT = "\r\x1b[J>>> \r\x1b[4C"  # drawn with nothing typed
DEAF = """
import time
def deaf():
    while True:
        try:
            print('begun', flush=True)
            time.sleep(1000)
        except KeyboardInterrupt: pass
"""
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
PATIENCE = 20.0


class Typist:
    """A program on a pseudo terminal of its own. What it shows is read on the way, so that it never waits for us."""

    def __init__(self, argv, env, rows=40, columns=120):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            try:
                os.execve(argv[0], argv, env)
            finally:
                os._exit(127)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.shown = ""
        self.taken = 0
        self._bytes = b""
        self._ended = None

    def _read(self, seconds):
        ready, _, _ = select.select([self.terminal], [], [], seconds)
        if not ready:
            return True
        try:
            chunk = os.read(self.terminal, 65536)
        except OSError:
            chunk = b""
        self._bytes += chunk
        # The terminal puts a carriage return before each line feed; one is enough.
        self.shown = self._bytes.decode(errors="replace").replace("\r\r\n", "\r\n")
        return bool(chunk)

    def type(self, text):
        os.write(self.terminal, text.encode())

    def until(self, text, seconds=PATIENCE):
        """Waits for the text behind what was taken before; takes it, and returns what stood in front of it."""
        deadline = time.monotonic() + seconds
        while (found := self.shown.find(text, self.taken)) < 0:
            alive = self._read(0.1)
            if (not alive and self.shown.find(text, self.taken) < 0) or time.monotonic() > deadline:
                raise AssertionError(f"no {text!r} in {self.shown[self.taken:]!r}")
        before = self.shown[self.taken : found]
        self.taken = found + len(text)
        return before

    def exit_code(self):
        """Waits for its end, reading until then."""
        deadline = time.monotonic() + PATIENCE
        while self._ended is None:
            self._read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._ended = os.waitstatus_to_exitcode(status)
            assert time.monotonic() < deadline, f"still running: {self.shown[-2000:]!r}"
        while self._read(0):
            if not select.select([self.terminal], [], [], 0)[0]:
                break
        return self._ended

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        if self._ended is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.terminal)


class Repl(Typist):
    def __init__(self, cella, env, *words, **size):
        super().__init__([str(cella.binary), "repl", "--python", PYTHON, *map(str, words)], env, **size)

    def entry(self, text):
        """Types one line and waits for the next prompt. What came between, without escape sequences."""
        self.type(text + "\r")
        before = self.until(PROMPT)
        shown = ESCAPES.sub("", before).replace("\r\n", "\n").replace("\r", "")
        return shown.rpartition(f">>> {text}\n")[2]

    def paste(self, text):
        self.type(f"\x1b[200~{text.strip()}\n\x1b[201~\r")
        self.until(PROMPT)

    def leave(self):
        self.type("\x04")
        return self.exit_code()


@pytest.fixture
def start(cella, environment, tmp_path):
    """Starts it with a home and a directory for temporary files of its own; waits for the first prompt."""
    opened = []
    directory = tmp_path / "tmp"
    directory.mkdir()
    env = {**environment, "TERM": "xterm", "XDG_STATE_HOME": str(tmp_path / "state"), "TMPDIR": str(directory)}

    def begin(*words, with_env={}, **size):
        repl = Repl(cella, {**env, **with_env}, *words, **size)
        opened.append(repl)
        repl.until(PROMPT)
        return repl

    yield begin
    for repl in opened:
        repl.__exit__()


def test_values_output_and_errors_are_shown(start):
    repl = start()
    assert "python in a session (sandbox)" in repl.shown
    assert repl.entry("6 * 7") == "42\n"
    assert repl.entry("x = 'é日本'") == ""
    assert repl.entry("x") == "'é日本'\n"
    assert repl.entry("print(x); 1") == "é日本\n1\n"
    assert repl.entry("None") == ""
    assert repl.entry("import sys; sys.stderr.write('no line end') and None") == "no line end\n"
    shown = repl.entry("1 / 0")
    assert shown.startswith("Traceback (most recent call last):")
    assert shown.endswith("ZeroDivisionError: division by zero\n")
    assert "\x1b[31mTraceback" in repl.shown and "division by zero\r\n\x1b[0m" in repl.shown
    assert repl.leave() == 0


def test_no_color_disables_colours(start):
    repl = start(with_env={"NO_COLOR": "1"})
    assert "ZeroDivisionError" in repl.entry("1 / 0")
    assert "\x1b[31m" not in repl.shown


def test_empty_line_ends_a_block(start):
    repl = start()
    repl.type("for i in range(2):\r")
    repl.until("...     \r\x1b[8C")  # indented behind the colon
    repl.type("print('line', i)\r")
    repl.until("...     \r\x1b[8C")
    repl.type("\r")
    assert "line 0\r\nline 1\r\n" in repl.until(PROMPT)
    # What is open goes on over an empty line; what is complete runs at once.
    repl.type('text = """a\r\rb"""\r')
    repl.until(PROMPT)
    assert repl.entry("text") == "'a\\n\\nb'\n"
    repl.type("(1 +\r2)\r")
    assert repl.until(PROMPT).endswith("3\r\n")
    repl.type("if True:\r\r")
    assert "IndentationError" in repl.until(PROMPT)
    assert repl.leave() == 0


def test_earlier_lines_of_an_entry_can_be_edited(start):
    repl = start()
    repl.type("def f():\rreturn 1\x1b[A\x05\x7f\x7f\x7f(a, b):\x1b[B\x05 + a\r\r")
    repl.until(PROMPT)
    assert repl.entry("f(2, 3)") == "3\n"


def test_pasted_lines_are_one_entry(start):
    repl = start()
    repl.type("\x1b[200~def g(x):\r    y = x\r\r    return y * 2\rg(4)\x1b[201~\r")
    assert repl.until(PROMPT).endswith("8\r\n")
    repl.type("\x1b[A\r")
    assert repl.until(PROMPT).endswith("8\r\n")


def test_long_and_wide_lines_are_wrapped(start):
    repl = start(columns=20, rows=5)
    code = "'" + "日" * 30 + "' + 'end'"
    repl.type(code + "\r")
    # Four columns of prompt, a quote, and seven characters of two.
    assert ">>> '" + "日" * 7 + "\r\n" + "日" * 10 + "\r\n" in repl.until(PROMPT)
    assert "'" + "日" * 30 + "end'\r\n" in repl.shown


def test_tab_completes_names(start):
    repl = start()
    repl.type("str.isalp\t")
    repl.until("str.isalpha")
    repl.type("\x03")
    repl.until(PROMPT)
    repl.entry("value_one = value_two = 1")
    repl.type("é = val\t")
    repl.until("é = value_")
    repl.type("\t")
    listed = repl.until("é = value_\r")
    assert "value_one  value_two" in listed
    repl.type("o\t + 1\r")
    repl.until(PROMPT)
    assert repl.entry("é") == "2\n"
    repl.type(":inf\t\r")
    assert "namespaces" in repl.until(PROMPT)


def test_history_is_kept_across_sessions(start, tmp_path):
    repl = start()
    repl.entry("first = 1")
    repl.entry(" hidden = 2")
    repl.type("if first:\r'kept together'\r\r")
    repl.until(PROMPT)
    assert repl.leave() == 0
    kept = tmp_path / "state/cella/history"
    assert kept.read_text() == "first = 1\nif first:\\n    'kept together'\n"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600 and stat.S_IMODE(kept.parent.stat().st_mode) == 0o700

    again = start()
    again.type("\x1b[A")
    again.until(">>> if first:\r\n...     'kept together'")
    again.type("\x1b[A\x1b[A")
    again.until(">>> first = 1\r")
    again.type("\x03")
    again.until(PROMPT)
    again.type("\x12kept")
    again.until("(search 'kept') if first:")
    again.type("\x07")
    again.until(PROMPT)
    assert again.leave() == 0

    without = start("--no-history")
    without.entry("nobody_keeps_this = 1")
    without.type("\x1b[A\x1b[A!")
    without.until(">>> nobody_keeps_this = 1!")
    assert "nobody" not in kept.read_text()


def test_ctrl_c_interrupts_the_run_and_keeps_the_state(start):
    repl = start()
    repl.entry("x = 41")
    repl.type("while True: x += 0\r\r")
    repl.until("...")
    repl.type("print('typed ahead')\r")
    time.sleep(0.5)
    assert PROMPT not in repl.shown[repl.taken :]
    repl.type("\x03")
    assert "KeyboardInterrupt" in repl.until(PROMPT)
    assert repl.entry("x + 1") == "42\n"
    assert "typed ahead\r\n" not in repl.shown  # Ctrl-C throws it away, as terminals do


def test_second_ctrl_c_kills_code_that_ignores_sigint(start):
    repl = start()
    repl.entry("x = 41")
    repl.paste(DEAF)
    repl.type("deaf()\r")
    repl.until("begun\r\n")
    repl.type("\x03")
    repl.until("begun\r\n")
    repl.type("\x03")
    shown = repl.until(PROMPT)
    assert "[cancelled: stopped before it ended; rolled back to before this run]" in shown
    assert repl.entry("x + 1") == "42\n"


def test_ctrl_c_clears_the_entry_and_ctrl_d_leaves_only_if_it_is_empty(start):
    repl = start()
    repl.type("something wrong\x03")
    repl.until("something wrong")
    repl.until("^C")
    repl.until(PROMPT)
    repl.type("4\x1b[D\x04")
    repl.until(PROMPT)
    assert repl.entry("'still here'") == "'still here'\n"
    assert repl.leave() == 0


@pytest.mark.parametrize("word", ["exit", "quit()", ":quit"])
def test_exit_words_end_the_session(start, word):
    repl = start()
    repl.type(word + "\r")
    assert repl.exit_code() == 0


def test_input_typed_during_a_run_is_executed_afterwards(start):
    repl = start()
    repl.type("import time; time.sleep(0.5)\r'second'\r\x04")
    assert repl.exit_code() == 0
    assert "'second'\r\n" in repl.shown


def test_input_and_getpass_read_from_the_terminal(start):
    repl = start()
    repl.type("name = input('who? ')\r")
    repl.until("who? \r")
    repl.type("Bob é\x7fx\r")
    repl.until(PROMPT)
    assert repl.entry("name") == "'Bob x'\n"
    repl.type("print('unfinished ', end=''); answer = input()\r")
    repl.until("unfinished \r\x1b[11C")
    repl.type("yes\r")
    repl.until(PROMPT)
    repl.type("import getpass; word = getpass.getpass('pass: ')\r")
    repl.until("pass: \r")
    repl.type("hush\r")
    assert "hush" not in repl.until(PROMPT)
    assert repl.entry("word == 'hu' + 'sh'") == "True\n"
    repl.type("input('end? ')\r")
    repl.until("end? \r")
    repl.type("\x04")
    assert "EOFError" in repl.until(PROMPT)
    repl.type("input('stop? ')\r")
    repl.until("stop? \r")
    repl.type("\x03")
    assert "KeyboardInterrupt" in repl.until(PROMPT)
    assert repl.entry("answer") == "'yes'\n"


def test_escape_sequences_of_the_guest_do_not_reach_the_terminal(start):
    repl = start()
    repl.type(r"print('\x1b]0;owned\x07\x1b[2J\x1b[6n\x1b[32mgreen\x9b2J', flush=True)" + "\r")
    shown = repl.until(PROMPT)
    assert "\x1b[32mgreen" in shown
    assert "\x1b]0" not in shown and "\x1b[2J" not in shown and "\x1b[6n" not in shown and "\x9b" not in shown
    assert "\x1b[0m" in shown.partition("green")[2]  # a colour does not outlive its run
    repl.type(r"input('\x1b[2Jask\x1b]52;c;eA==\x07? ')" + "\r")
    shown = repl.until("ask? \r")
    assert "\x1b[2J" not in shown and "\x1b]52" not in shown
    repl.type("\r")
    repl.until(PROMPT)
    repl.type(r"class Error(Exception): pass" + "\r\r")
    repl.until(PROMPT)
    assert "\x1b[2J" not in repl.entry(r"raise Error('\x1b[2Jx')")
    assert "\x1b[2J" not in repl.shown


def test_images_and_html_are_saved(start, tmp_path):
    repl = start()
    shown = repl.entry("display({'image/png': 'aGVsbG8=', 'text/plain': 'a picture'}, raw=True)")
    path = re.fullmatch(r"\[image, 5 bytes: saved to (\S+/cella-1\.png)\]\n", shown)[1]
    assert path.startswith(str(tmp_path / "tmp/cella-images-"))
    with open(path, "rb") as stream:
        assert stream.read() == b"hello"
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
    shown = repl.entry("display({'text/html': '<b>é</b>'}, raw=True)")
    assert re.fullmatch(r"\[html output, 9 bytes: saved to \S+/cella-2\.html\]\n", shown)
    assert repl.entry("display({'text/html': '<b>', 'text/plain': 'words'}, raw=True)") == "words\n"
    assert repl.leave() == 0
    assert os.path.exists(path)


def test_images_option_sets_the_directory(start, tmp_path):
    images = tmp_path / "pictures"
    repl = start("--images", images)
    repl.entry("display({'image/svg+xml': '<svg/>'}, raw=True)")
    assert (images / "cella-1.svg").read_text() == "<svg/>"
    assert os.listdir(tmp_path / "tmp") == []


def has_matplotlib():
    return subprocess.run([PYTHON, "-c", "import matplotlib.pyplot"], capture_output=True).returncode == 0


@pytest.mark.skipif(not has_matplotlib(), reason=f"{PYTHON} has no matplotlib")
def test_plot_is_saved_as_an_image(start):
    settings = "/etc/matplotlibrc"  # where Debian keeps what elsewhere lies beside the package
    repl = start(*(["--mount", f"{settings}:{settings}"] if os.path.exists(settings) else []))
    repl.entry("import matplotlib.pyplot as plt")
    shown = repl.entry("plt.plot([1, 2]); plt.show()")
    path = re.search(r"\[image, \d+ bytes: saved to (\S+\.png)\]", shown)[1]
    with open(path, "rb") as stream:
        assert stream.read(4) == b"\x89PNG"


def test_colon_commands_work(start, tmp_path):
    repl = start()
    assert ":rollback NAME" in repl.entry(":help")
    repl.entry("x = 1; note = open('note.txt', 'w').write('hi')")
    assert "note.txt" in repl.entry(":files")
    assert repl.entry(":checkpoint one") == "" and repl.entry(":checkpoints") == "one\n"
    repl.entry("x = 2")
    assert repl.entry(":rollback one") == "" and repl.entry("x") == "1\n"
    assert repl.entry(":rollback two") == "there is no checkpoint 'two'\n"
    assert repl.entry(":drop one") == "" and repl.entry(":checkpoints") == ""
    assert repl.entry(":drop") == ":drop NAME\n"
    assert re.search(r"executor +sandbox\n", repl.entry(":info")) and "memory " in repl.shown
    repl.entry(":time on")
    assert re.fullmatch(r"1\n\[[0-9.]+ ms, [0-9.]+ ms of processor time\]\n", repl.entry("x"))
    repl.entry(":time off")
    (tmp_path / "code.py").write_text("loaded = x + 1\nloaded\n")
    assert repl.entry(f":load {tmp_path}/code.py") == "2\n" and repl.entry("loaded") == "2\n"
    assert "No such file" in repl.entry(":load /nowhere/at/all.py")
    assert repl.entry(":reset") == "" and "NameError" in repl.entry("x")
    assert repl.entry(":nonsense") == "there is no command ':nonsense': see :help\n"
    assert repl.entry(":lang klingon").startswith("there is no language 'klingon'")


def test_other_languages_run(start):
    repl = start()
    assert repl.entry(":bash x=5; echo $x") == "5\n"
    assert repl.entry(":bash exit 3") == "[exit code 3]\n"
    assert repl.entry(":js [1, 2].map(n => n * 2)").replace(" ", "") == "[2,4]\n"
    repl.type(":lang bash\r")
    repl.until("bash> \r")
    repl.type("if true; then\recho $x\rfi\r")
    repl.until("5\r\n")
    repl.until("bash> \r")
    repl.type(":lang python\r")
    repl.until(PROMPT)
    assert repl.entry(":lang") == "python\n"


def test_end_of_a_run_is_shown(start):
    repl = start("--timeout", "2s")
    repl.entry("x = 1")
    assert repl.entry("import os; os._exit(3)") == "[exit code 3; rolled back to before this run]\n"
    assert "crashed: Killed; rolled back to before this run" in repl.entry("import os; os.kill(os.getpid(), 9)")
    repl.paste(DEAF)
    shown = repl.entry("deaf()")
    assert "[timeout: stopped after 2s (--timeout); rolled back to before this run]" in shown
    assert repl.entry("raise SystemExit(4)") == "[exit code 4]\n"
    assert repl.entry("x") == "1\n"


def test_session_that_ends_by_itself_shows_the_reason(start):
    repl = start("--idle-timeout", "1s")
    assert repl.exit_code() == 1
    assert "the session has ended: it was idle for 1s" in repl.shown


def modes(terminal):
    return termios.tcgetattr(terminal)[3] & (termios.ICANON | termios.ECHO | termios.ISIG)


def test_terminal_modes_are_restored(start, token):
    repl = start()
    assert modes(repl.terminal) == 0
    repl.type(f"import subprocess; p = subprocess.Popen(['sleep', '1000.{token}'])\r")
    repl.until(PROMPT)
    os.kill(repl.pid, signal.SIGTERM)
    assert repl.exit_code() == 125
    assert modes(repl.terminal) == termios.ICANON | termios.ECHO | termios.ISIG
    assert repl.shown.endswith("\x1b[?2004l")
    assert_no_process(token)


def test_closed_terminal_ends_the_session(cella, environment, tmp_path, token):
    env = {**environment, "TERM": "xterm", "XDG_STATE_HOME": str(tmp_path)}
    with Repl(cella, env) as repl:
        repl.until(PROMPT)
        repl.type(f"import subprocess; subprocess.run(['sleep', '1000.{token}'])\r")
        repl.until("1000.")
        assert wait_until(lambda: processes_with(token)), "it does not run"
    assert_no_process(token)


def test_ctrl_z_suspends_and_fg_resumes(cella, environment, tmp_path):
    env = {**environment, "TERM": "xterm", "XDG_STATE_HOME": str(tmp_path), "PS1": "shell$ "}
    with Typist(["/bin/bash", "--norc", "--noediting", "-i"], env) as shell:
        shell.until("shell$ ")
        shell.type(f"{cella.binary} repl --python {PYTHON}\r")
        shell.until(PROMPT)
        shell.type("x = 5\r")
        shell.until(PROMPT)
        shell.type("half typ\x1a")
        shell.until("Stopped")
        shell.until("shell$ ")
        assert modes(shell.terminal) == termios.ICANON | termios.ECHO | termios.ISIG
        shell.type("fg\r")
        shell.until(">>> half typ")
        assert modes(shell.terminal) == 0
        shell.type("\x15x + 1\r")
        shell.until("6\r\n")
        shell.until(PROMPT)
        # Stopped by another process, it finds its modes changed when it goes on.
        shell.type("import time; time.sleep(1)\r")
        shell.type("\x1a")
        shell.until("shell$ ")
        shell.type("fg\r")
        shell.until(PROMPT)
        shell.type("\x04")
        shell.until("shell$ ")


def test_changed_terminal_modes_are_set_again(start):
    repl = start()
    flags = termios.tcgetattr(repl.terminal)
    flags[3] |= termios.ICANON | termios.ECHO
    termios.tcsetattr(repl.terminal, termios.TCSANOW, flags)
    assert wait_until(lambda: modes(repl.terminal) == 0)
    repl.until(PROMPT)
    assert repl.entry("1 + 1") == "2\n"


def piped(cella, env, text, *words, **options):
    argv = [str(cella.binary), "repl", "--python", PYTHON, *map(str, words)]
    return run_bounded(argv, input=text.encode(), env=env, **options)


def test_piped_input_is_one_cell(cella, environment):
    ended = piped(cella, environment, "x = 6\nprint('out')\nx * 7\n")
    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, b"out\n42\n", b""), ended.describe()
    ended = piped(cella, environment, "import sys\nsys.exit(3)\n")
    assert (ended.exit_code, ended.stderr) == (3, b"[exit code 3]\n"), ended.describe()
    ended = piped(cella, environment, "1 / 0\n")
    assert ended.exit_code == 1 and b"ZeroDivisionError" in ended.stderr and b"\x1b" not in ended.stderr
    ended = piped(cella, environment, "echo hi", "--lang", "bash")
    assert (ended.exit_code, ended.stdout) == (0, b"hi\n"), ended.describe()
    assert piped(cella, environment, "").exit_code == 0


def test_output_to_a_pipe_is_unchanged(cella, environment):
    code = r"import sys; sys.stdout.buffer.write(b'\x1b[2J\xff\x9b') and None"
    ended = piped(cella, environment, code)
    assert ended.stdout == b"\x1b[2J\xff\x9b", ended.describe()


def test_cell_ends_when_its_reader_is_gone(cella, environment):
    """As `yes | head -1` does."""
    argv = [str(cella.binary), "repl", "--python", PYTHON, "--timeout", "60s"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as repl:
        repl.stdin.write(b"while True: print('y')")
        repl.stdin.close()
        assert repl.stdout.readline() == b"y\n"
        repl.stdout.close()
        assert repl.wait(20) == 125


def test_invalid_options_are_rejected(cella, environment, tmp_path):
    ended = piped(cella, environment, "1", "--lang", "klingon")
    assert ended.exit_code == 2 and b"unknown language 'klingon'" in ended.stderr
    assert piped(cella, environment, "1", "--json", "--no-history").exit_code == 2
    master, slave = pty.openpty()
    try:
        argv = [str(cella.binary), "repl", "--python", PYTHON]
        ended = run_bounded(argv, terminal=slave, env={**environment, "TERM": "dumb"})
    finally:
        os.close(master)
        os.close(slave)
    assert ended.exit_code == 126 and b"TERM" in ended.stderr, ended.describe()
