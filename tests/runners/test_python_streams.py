"""Standard streams of the Python runner: output, input, and their repair."""

import pytest

from python_runner import runner  # noqa: F401


def test_output_of_every_kind_is_complete_before_done(runner):
    code = """
import os, sys, subprocess
print('print')
sys.stdout.write('no newline')
sys.stdout.flush()
os.write(1, b' descriptor ')
subprocess.run(['echo', 'child'])
sys.stderr.write('error text')
sys.stdout.buffer.write(b'bytes')
sys.__stdout__.write(' original')
"""
    outcome = runner.run(code)
    assert outcome.stdout == "print\nno newline descriptor child\nbytes original"
    assert outcome.stderr == "error text"


def test_output_of_c_code_is_complete_before_done(runner):
    assert runner.run("import ctypes; ctypes.CDLL(None).printf(b'from C')").stdout == "from C"


def test_streams_have_the_attributes_of_text_files(runner):
    runner.run("import sys; look = lambda s: (s.fileno(), s.name, s.encoding, s.isatty(), s.mode)")
    assert runner.run("look(sys.stdin)").value == "(0, '<stdin>', 'utf-8', False, 'r')"
    assert runner.run("look(sys.stdout)").value == "(1, '<stdout>', 'utf-8', False, 'w')"
    assert runner.run("look(sys.stderr)").value == "(2, '<stderr>', 'utf-8', False, 'w')"


def test_text_that_cannot_be_encoded_is_escaped(runner):
    assert runner.run(r"print('\udc80\ud800 é')").stdout == "\\udc80\\ud800 é\n"
    assert runner.run(r"'\udc80'").value == r"'\udc80'"
    assert runner.run(r"raise ValueError('\ud800')").error["message"] == "\\ud800"


def test_output_is_line_buffered(runner):
    runner.start("import time\nprint('line')\ntime.sleep(60)")
    runner.wait_for_output("line\n")
    runner.interrupt()
    assert runner.finish().status == "interrupted"


@pytest.mark.parametrize(
    "harm",
    [
        "os.close(1); os.close(2); os.close(0)",
        "os.closerange(0, 256)",
        "fd = os.open('/dev/null', os.O_RDWR); os.dup2(fd, 1); os.dup2(fd, 2)",
        "os.close(1); f = open('/dev/null')",
        "sys.stdout.close(); sys.stderr.close(); sys.stdin.close()",
        "sys.stdout = sys.stderr = sys.stdin = None",
        "import io; sys.stdout = sys.stderr = io.StringIO()",
        "import io; sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')",
        "kept = sys.stdout.detach(), sys.stderr.detach()",
        "del sys.stdout, sys.stderr, sys.stdin",
        "sys.stdout.reconfigure(encoding='utf-8', line_buffering=False)",
        "os.set_blocking(1, False)",
        "sys.stdout.buffer.raw.close()",
        "sys.stdout = 5",
    ],
)
def test_streams_are_restored_for_the_next_cell(runner, harm):
    runner.run("import os, sys; kept = 1")
    assert runner.run(harm).of("done")
    outcome = runner.run("print('out'); print('err', file=sys.stderr); os.system('echo child'); input()", stdin="in")
    assert (outcome.stdout, outcome.stderr, outcome.value) == ("out\nchild\n", "err\n", "'in'")


def test_replaced_stream_is_used_for_its_cell(runner):
    assert runner.run("import io, sys\nsys.stdout = s = io.StringIO()\nprint('caught')").stdout == ""
    assert runner.run("s.getvalue()").value == "'caught\\n'"


def test_output_lost_in_a_broken_descriptor_does_not_appear_later(runner):
    runner.run("import os, sys\nos.close(1)\nsys.stdout.write('lost')")
    assert runner.run("print('next')").stdout == "next\n"


def test_output_of_threads_of_an_earlier_run_is_dropped(runner):
    code = """
import threading
go = threading.Event()
def speak():
    go.wait()
    print('late')
    threading.Thread(target=print, args=('later',)).start()
    told.set()
told = threading.Event()
thread = threading.Thread(target=speak)
thread.start()
"""
    runner.run(code)
    outcome = runner.run("go.set(); told.wait(); thread.join()\nprint('now')")
    assert outcome.stdout == "now\n"
    code = "t = threading.Thread(target=print, args=('own',)); t.start(); t.join()"
    assert runner.run(code).stdout == "own\n"


def test_output_of_pool_workers_is_kept_in_every_run(runner):
    code = "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)\n"
    runner.run(code + "pool.submit(int).result()")
    assert runner.run("pool.submit(print, 'work').result()").stdout == "work\n"


def test_input_reads_the_stdin_text(runner):
    code = "a = input('name? '); b = input(); import sys\na, b, sys.stdin.read()"
    outcome = runner.run(code, stdin="x\ny\nz\nw")
    assert outcome.value == "('x', 'y', 'z\\nw')" and outcome.stdout == "name? "
    assert runner.run("import sys; list(sys.stdin)", stdin="1\n2\n").value == "['1\\n', '2\\n']"
    assert runner.run("sys.stdin.readline(2), sys.stdin.read(3), sys.stdin.readline()", stdin="abcdefg\n").value == (
        "('ab', 'cde', 'fg\\n')"
    )
    assert runner.run("sys.stdin.buffer.read()", stdin="é\n").value == repr("é\n".encode())


def test_time_to_read_stdin_grows_with_its_length(runner):
    """Quadratic once: 1.6 MB took seven seconds."""
    ways = {"read": "sys.stdin.read()", "readline": "list(sys.stdin)", "input": "[input() for _ in range(lines)]",
            "some": "while sys.stdin.read(10): pass", "bytes": "sys.stdin.buffer.read()",
            "one line": "sys.stdin.buffer.read()"}
    for name, way in ways.items():
        def seconds(lines):
            text = "x" * (8 * lines) if name == "one line" else "1234567\n" * lines
            code = f"import sys, time\nlines = {lines}\nstart = time.process_time()\n{way}\n"
            return float(runner.run(code + "time.process_time() - start", stdin=text).value)

        seconds(100)
        short, long = min(seconds(20_000) for _ in range(3)), seconds(200_000)
        assert long < 30 * short + 0.2, (name, short, long)


def test_unread_stdin_is_dropped_after_the_run(runner):
    runner.run("input()", stdin="1\n2\n")
    assert runner.run("input()").error["name"] == "EOFError"
    assert runner.run("import sys; sys.stdin.read()").value == "''"


def test_input_sends_a_request(runner):
    outcome = runner.run("input('name? '), input()", input=True, answers=["Ada", "b\n"])
    assert outcome.value == "('Ada', 'b')"
    assert outcome.of("input_request")[0] == {"type": "input_request", "prompt": "name? ", "password": False}
    assert outcome.stdout == ""
    assert runner.run("input()", input=True, answers=[None]).error["name"] == "EOFError"
    outcome = runner.run("input(), input('more ')", stdin="given\n", input=True, answers=["asked"])
    assert outcome.value == "('given', 'asked')"


def test_getpass_asks_for_a_password(runner):
    outcome = runner.run("import getpass; getpass.getpass('secret: ')", input=True, answers=["s3"])
    assert outcome.of("input_request")[0] == {"type": "input_request", "prompt": "secret: ", "password": True}
    assert outcome.value == "'s3'"
    assert runner.run("import getpass; getpass.getpass()").error["name"] == "EOFError"


def test_input_works_in_a_thread(runner):
    code = "import threading\ngot = []\nt = threading.Thread(target=lambda: got.append(input('t? ')))\n"
    assert runner.run(code + "t.start(); t.join(); got", input=True, answers=["yes"]).value == "['yes']"


def test_thread_waiting_for_input_does_not_read_the_next_request(runner, tmp_path):
    code = "import os, threading, time\nt = threading.Thread(target=input, daemon=True); t.start()\n"
    runner.start(code + "while not os.path.exists(%r): time.sleep(0.01)" % str(tmp_path / "asked"), input=True)
    assert runner.receive()["type"] == "input_request"
    (tmp_path / "asked").touch()
    assert runner.receive()["type"] == "done"
    assert runner.run("'next'").value == "'next'"


def test_input_in_a_forked_process_is_end_of_file(runner):
    code = "import os\npid = os.fork()\nif not pid: input()\nos.WEXITSTATUS(os.waitpid(pid, 0)[1])"
    outcome = runner.run(code, input=True)
    assert outcome.value == "1" and "EOFError" in outcome.stderr


def test_warnings_go_to_stderr_in_every_cell(runner):
    for _ in range(2):
        outcome = runner.run("import warnings\nwarnings.warn('careful')")
        assert "UserWarning: careful\n  warnings.warn('careful')" in outcome.stderr
    assert "SyntaxWarning" in runner.run("x = 1\nx is 1").stderr


def test_large_output_is_complete(runner):
    outcome = runner.run("for n in range(100000): print(n)")
    assert outcome.stdout.count("\n") == 100000
