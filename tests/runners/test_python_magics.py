"""Shell escapes and magics of the Python runner."""

import pytest

from python_runner import runner  # noqa: F401


def test_output_of_commands_is_streamed(runner):
    code = "name = 'x y'\n!echo out; echo err >&2\n!echo {name} $name $HOME ${HOME} {1 + 1} $$\nprint('after')"
    outcome = runner.run(code)
    assert outcome.stdout == "out\nx y x y /tmp /tmp 2 $\nafter\n" and outcome.stderr == "err\n"
    assert runner.run("!exit 3\n_exit_code").value == "3"
    assert runner.run("!awk 'BEGIN {print 5}'").stdout == "5\n"


def test_command_output_can_be_assigned_as_lines(runner):
    assert runner.run("lines = !printf 'a\\nb\\n'\nlines").value == "['a', 'b']"
    assert runner.run("def f(n):\n    got = !echo {n}\n    return got\nf(7)").value == "['7']"


def test_escapes_are_recognised_only_at_the_start_of_a_statement(runner):
    code = 'x = 7\ny = (x\n% 4)\ns = """\n!no\n%no\n"""\nz = x \\\n% 4\n!echo yes\ny, s, z'
    outcome = runner.run(code)
    assert outcome.value == "(3, '\\n!no\\n%no\\n', 3)" and outcome.stdout == "yes\n"


def test_valid_python_is_not_rewritten(runner):
    assert runner.run("x = 7\n(x\n%3)").value == "1"
    assert runner.run("s = '''\n!ls\n%%bash\n'''\ns").value == "'\\n!ls\\n%%bash\\n'"


def test_a_command_over_several_lines_keeps_line_numbers(runner):
    outcome = runner.run("!echo a \\\n  b\n1/0")
    assert outcome.stdout == "a b\n" and "line 3, in <module>\n    1/0" in outcome.traceback


def test_a_syntax_error_beside_an_escape_is_reported(runner):
    assert runner.run("!echo a\nx = = 1").error["name"] == "SyntaxError"
    assert runner.run("x = 5 %").error["name"] == "SyntaxError"


def test_escapes_work_inside_blocks(runner):
    assert runner.run("for n in range(2):\n    !echo {n}\nif True:\n    %pwd").stdout == "0\n1\n"


@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_script_cell_magics_run(runner, shell):
    outcome = runner.run("%%%%%s\nx=1\necho $x %%d" % shell)
    assert outcome.stdout == "1 %d\n"
    outcome = runner.run("\n%%%%%s\necho before\nexit 4" % shell)
    assert outcome.stdout == "before\n" and outcome.error["name"] == "CalledProcessError"


def test_an_interrupt_ends_a_command(runner):
    runner.start("print('on')\n!sleep 60")
    runner.wait_for_output("on")
    runner.interrupt()
    assert runner.finish().status == "interrupted"
    assert runner.run("n = !pgrep -P {__import__('os').getpid()} sleep\nlen(n)").value == "0"


def test_time_magic_prints_the_duration(runner):
    outcome = runner.run("%%time\nx = 4\nx + 1")
    assert outcome.value == "5" and "Wall time: " in outcome.stdout
    outcome = runner.run("y = %time x * 2\ny")
    assert outcome.value == "8" and "CPU times: user" in outcome.stdout
    assert "line 3, in <module>\n    1/0" in runner.run("%%time\nx\n1/0").traceback
    assert runner.run("%%time\nimport asyncio\nawait asyncio.sleep(0, 3)").status == "ok"


def test_timeit_magic_prints_the_duration(runner):
    runner.run("calls = []")
    outcome = runner.run("%timeit -n 3 -r 2 calls.append(1)")
    assert "2 runs of 3 loops" in outcome.stdout and runner.run("len(calls)").value == "6"
    assert "per loop" in runner.run("%%timeit -n2 -r2\na = 1\na").stdout


def test_cd_env_and_who_magics_work(runner, tmp_path):
    assert runner.run("%%cd %s" % tmp_path).stdout == "%s\n" % tmp_path
    assert runner.run("%pwd").value == repr(str(tmp_path))
    assert runner.run("%env A=b c").stdout == "env: A=b c\n"
    assert runner.run("%env A").value == "'b c'"
    assert "'A': 'b c'" in runner.run("%env").value
    runner.run("first = 1; second = 2")
    assert runner.run("%who").stdout == "first\tsecond\n"
    assert runner.run("%reset").error["name"] == "UsageError"
    assert runner.run("%reset -f").status == "ok"
    assert runner.run("first").error["name"] == "NameError"
    assert runner.run("__name__").value == "'__main__'"


def test_writefile_and_markup_magics_work(runner, tmp_path):
    runner.configure(cwd=tmp_path)
    assert runner.run("%%writefile a.py\nx = 1\n").stdout == "Writing a.py\n"
    assert (tmp_path / "a.py").read_text() == "x = 1\n"
    assert runner.run("%%html\n<b>x</b>").displays[0]["mime"] == {"text/html": "<b>x</b>"}


def test_magics_that_are_accepted_silently(runner):
    outcome = runner.run("%matplotlib inline\n%load_ext autoreload\n%autoreload 2\n%config X.y = 1")
    assert (outcome.status, outcome.stdout, outcome.stderr) == ("ok", "", "")


def test_unknown_magic_error_lists_known_magics(runner):
    error = runner.run("%nonsense here").error
    assert error["name"] == "UsageError"
    assert error["message"].startswith("%nonsense is not known. There are: %autoreload, %cd,")
    assert '  File "cell 1", line 1, in <module>\n    %nonsense' in error["traceback"]
    assert "%%bash" in runner.run("%%nonsense\nx").error["message"]


@pytest.mark.parametrize(
    "code", ["%pip install x", "!pip install x", "!python -m pip install x", "!pip3 install x && ls"]
)
def test_pip_without_network_reports_the_reason(runner, code):
    outcome = runner.run(code)
    assert outcome.status == "error" and outcome.error["name"] == "UsageError"
    assert outcome.stderr.startswith("This session has no network") and "--network host" in outcome.stderr


def test_pip_magic_uses_the_interpreter(runner):
    assert runner.python.rpartition("/bin/")[0] in runner.run("!pip --version").stdout
    runner.configure(network=True)
    assert runner.run("%pip --version").stdout.startswith("pip ")
    assert runner.run("%pip nonsense").error["message"] == "pip ended with exit code 1"
