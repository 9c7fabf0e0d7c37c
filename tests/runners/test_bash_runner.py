"""The Bash runner: the real program over a real socket, outside any jail."""

import json
import os
import random
import shutil
import time

import pytest
from exec_driver import RUNNERS, Ended, Runner

BASH = shutil.which("bash")


def start(directory, **options):
    return Runner([BASH, RUNNERS / "bash" / "runner.bash"], directory, **options)


@pytest.fixture
def runner(tmp_path):
    made = start(tmp_path, env={"GREETING": 'he said "hi" \\ é'})
    yield made
    made.close()


def test_output_and_exit_status_are_reported(runner):
    answer = runner.run("echo out; echo err >&2")
    assert (answer.status, answer.exit_code, answer.stdout, answer.stderr) == ("ok", 0, "out\n", "err\n")
    assert answer.value is None


def test_state_is_kept(runner, tmp_path):
    runner.run("x=1; list=(a 'b c' d); declare -A map=([k]='v w'); declare -i n=5; export E=ported; readonly R=ro\n"
               "f() { echo \"f:$1\"; }; alias hi='echo aliased'; shopt -s nullglob; set -o pipefail\n"
               "mkdir sub; cd sub; umask 077")
    answer = runner.run("echo $x \"${list[1]}\" ${#list[@]} \"${map[k]}\"; n+=2; echo $n $R; f arg; hi there\n"
                        "shopt nullglob; [[ -o pipefail ]] && echo pipefail; pwd; umask; sh -c 'echo $E'")
    assert answer.stdout == (f"1 b c 3 v w\n7 ro\nf:arg\naliased there\nnullglob       \ton\npipefail\n{tmp_path}/sub\n"
                             "0077\nported\n")


def test_positional_parameters_and_open_descriptors_are_kept(runner, tmp_path):
    (tmp_path / "lines").write_text("one\ntwo\n")
    runner.run("set -- a 'b c'; exec 3<lines 7>written")
    answer = runner.run('echo "$#:$2"; read -r line <&3; echo $line; echo kept >&7')
    assert answer.stdout == "2:b c\none\n"
    assert runner.run("read -r line <&3; echo $line; exec 3<&-; cat written").stdout == "two\nkept\n"


def test_failing_last_command_is_an_error(runner):
    answer = runner.run("true; (exit 7)")
    assert (answer.status, answer.exit_code) == ("error", 7)
    assert answer.error == {"type": "error", "name": "ExitStatus", "message": "exit status 7", "traceback": ""}
    assert runner.run("false; true").status == "ok"
    answer = runner.run("nothing_like_this")
    assert answer.exit_code == 127 and "line 1: nothing_like_this: command not found" in answer.stderr
    assert runner.run("return 3").exit_code == 3
    assert runner.run("ls /nowhere_at_all").error["name"] == "ExitStatus"


@pytest.mark.parametrize("code", ["if then", "echo one\nfi", "for x in", "echo 'open", "case x in", "f() {", "a )"])
def test_syntax_error_has_bashs_message_and_keeps_state(runner, code):
    runner.run("kept=yes")
    answer = runner.run(code)
    assert (answer.status, answer.error["name"]) == ("error", "SyntaxError"), answer.error
    assert answer.error["message"].startswith("cell 2: line ") and "unexpected" in answer.error["message"]
    assert "set -n" not in answer.error["message"]
    assert runner.run("echo $kept").stdout == "yes\n"


def test_syntax_error_names_file_and_line(runner):
    answer = runner.run("echo one\necho two\nfi", file="my script.sh")
    assert answer.error["message"].startswith("my script.sh: line 3: syntax error")
    assert answer.stdout == "one\ntwo\n"


@pytest.mark.parametrize("code, exit_code", [
    ("exit 3; echo no", 3),
    ("exit; echo no", 0),
    ("false; exit", 1),
    ("exit 300", 44),
    ("f() { g; echo no; }; g() { for i in 1 2; do while :; do exit 4; echo no; done; done; }; f; echo no", 4),
    ("eval 'eval \"exit 5; echo no\"; echo no'; echo no", 5),
    ("echo 'exit 6; echo no' >sourced; . ./sourced; echo no", 6),
    ("if exit 7; then echo no; else echo no; fi; echo no", 7),
    ("exit 8 || echo no; echo no", 8),
    ("case x in x) exit 9 ;; esac; echo no", 9),
    ("until exit 10; do :; done; echo no", 10),
    ("for ((;;)); do [[ 1 ]] && ((1)) && exit 11; done; echo no", 11),
    ("{ exit 12; } >/dev/null; echo no", 12),
    ("builtin exit 0; echo no", 0),
])
def test_exit_ends_the_run_at_any_depth_and_keeps_the_state(runner, code, exit_code):
    runner.run("kept=yes; say() { echo said; }")
    answer = runner.run(code)
    assert (answer.exit_code, answer.stdout) == (exit_code, "")
    assert answer.status == ("ok" if code.startswith("builtin") else "exit")
    assert answer.error is None
    answer = runner.run("say; echo $kept; shopt extdebug; trap -p DEBUG")
    assert answer.stdout == "said\nyes\nextdebug       \toff\n"


def test_exit_in_a_subshell_ends_only_the_subshell(runner):
    answer = runner.run('(exit 3); echo $?; x=$(echo a; exit 4); echo "$x $?"; exit 5 | exit 6; echo ${PIPESTATUS[*]}\n'
                        "{ exit 7; } & wait $!; echo $?; bash -c 'exit 8'; echo $?")
    assert (answer.status, answer.stdout) == ("ok", "3\na 4\n5 6\n7\n8\n")


@pytest.mark.parametrize("code, exit_code", [
    ("set -e; false; echo no", 1),
    ("set -e; f() { (exit 3); echo no; }; f; echo no", 3),
    ("set -euo pipefail; cat /nowhere_at_all 2>/dev/null | cat; echo no", 1),
    ("trap 'echo \"line $LINENO status $?\" >&2' ERR; set -e\n\n(exit 6); echo no", 6),
    ("set -e; f() { x=$(false); echo no; }; for i in 1 2; do f; done; echo no", 1),
    ("set -e; if false; then :; fi; false || true; ! true; grep -q x /dev/null; echo no", 1),
])
def test_errexit_ends_only_the_cell(runner, code, exit_code):
    runner.run("kept=yes")
    answer = runner.run(code)
    assert (answer.status, answer.exit_code, answer.stdout) == ("error", exit_code, "")
    answer = runner.run("[[ -o errexit ]] && echo on; echo $kept; false; echo no")
    assert (answer.exit_code, answer.stdout) == (1, "on\nyes\n")
    assert runner.run("set +e; false; echo goes on").stdout == "goes on\n"


@pytest.mark.parametrize("code", [
    "set -u; echo $undefined; echo no",
    "set -euo pipefail; echo $undefined; echo no",
    "set -e; f() { { echo ${undefined:?not there}; echo no; } 3>&1 >/dev/null; }; f; echo no",
    "set -e; . /nowhere_at_all; echo no",
    "exec 10</etc/passwd; set -e; readonly one=1; one=2; echo no",
    "f() { local kept=local; echo ${undefined:?not there}; echo no; }; f; echo no",
    "f() { set -u; for i in 1; do echo $undefined; done; echo no; }; f; echo no",
    "set -o posix; . /nowhere_at_all; echo no",
    "builtin trap 'echo mine' ERR; set -e; false; echo no",
])
def test_state_is_kept_when_the_code_would_end_the_shell(runner, code):
    runner.run("kept=$'y\\ne\"s\\\\'; list=(a 'b c'); declare -A map=([k k]=v); export E=1; declare -i n=5\n"
               "f2() { echo \"f2 $1\"; }; export -f f2; alias hi='echo aliased'; shopt -s extglob; readonly R=ro\n"
               "cd /; exec 8</etc/passwd")
    answer = runner.run(code)
    assert answer.status == "error" and answer.exit_code not in (0, 130) and "no\n" not in answer.stdout
    for _ in range(2):
        answer = runner.run("set +eu +o posix; shopt -s expand_aliases; trap - ERR\nn=2+3\n"
                            "echo \"$kept|${list[1]}|${map[k k]}|$E|$n|$R\"; f2 x; hi x\n"
                            "bash -c 'f2 y'; shopt -q extglob && pwd; read -r line <&8; [[ $line ]] && echo open")
        assert answer.stdout == 'y\ne"s\\|b c|v|1|5|ro\nf2 x\naliased x\nf2 y\n/\nopen\n', answer.stderr
    assert runner.run(code).status == "error"
    assert runner.run("set +eu +o posix; exit 3").status == "exit"
    assert runner.run("(f2 z)").stdout == "f2 z\n"


@pytest.mark.parametrize("code, program", [
    ("sleep 60", "sleep 60"),
    ("while :; do :; done", None),
    ("f() { while ((1)); do [[ a ]]; done; echo no; }; f", None),
    ("for i in 1 2; do sleep 60; echo no; done", "sleep 60"),
    ("sleep 60 | cat; echo no", "sleep 60"),
    ("x=$(sleep 60; echo no)", "sleep 60"),
    ("sleep 60 & wait; echo no", "sleep 60"),
    ("eval 'until false; do true; done'; echo no", None),
    ("bash -c 'while :; do :; done'; echo no", "bash -c while :; do :; done"),
])
def test_interrupt_ends_the_run_and_keeps_the_state(runner, code, program):
    runner.run("kept=yes")
    runner.start(f"echo started; {code}\necho no")
    runner.wait_output("stdout", b"started\n")
    if program:
        runner.wait_for_program(program)
    began = time.monotonic()
    runner.interrupt()
    answer = runner.finish(10)
    assert time.monotonic() - began < 5
    assert (answer.status, answer.exit_code, answer.error["name"]) == ("interrupted", 130, "KeyboardInterrupt")
    assert answer.stdout == "started\n"
    assert runner.run("echo $kept; shopt -q extdebug || echo off").stdout == "yes\noff\n"


@pytest.mark.parametrize("code", ["while :; do :; done", "sleep 60", "set -eu; trap 'echo err' ERR; sleep 60", "("])
def test_interrupt_before_the_code_starts_ends_that_run(runner, code):
    runner.run("kept=yes; trap 'echo \"dbg $BASH_COMMAND\"' DEBUG; trap - DEBUG")
    for _ in range(3):
        with runner.stopped():
            runner.start(f"echo ran; {code}")
            runner.interrupt()
        answer = runner.finish(10)
        assert (answer.status, answer.exit_code, answer.stdout) == ("interrupted", 130, "")
        assert runner.run("echo $kept; shopt -q extdebug || echo off").stdout == "yes\noff\n"


def test_repeated_interrupts_at_the_start_of_a_run_keep_the_runner_consistent(runner):
    runner.run("kept=yes")
    for number in range(150):
        with runner.stopped():
            runner.start("sleep 0.2")
            runner.interrupt()
        for _ in range(number % 4):
            time.sleep(random.random() * 0.002)
            runner.interrupt()
        assert runner.finish(10).status in ("ok", "interrupted")
    assert runner.run("echo $kept").stdout == "yes\n"


@pytest.mark.parametrize("option", ["-f", "-x", "-k", "-u", "+B"])
def test_interrupt_before_the_code_starts_keeps_shell_options(runner, option):
    runner.run(f"set {option}")
    before = runner.run("echo $- $SHELLOPTS").stdout
    with runner.stopped():
        runner.start("sleep 60")
        runner.interrupt()
    assert runner.finish(10).status == "interrupted"
    assert runner.run("echo $- $SHELLOPTS").stdout == before


def test_late_signal_after_its_frame_does_not_reach_the_next_run(runner):
    for wait in (0.002, 0.005, 0.01):
        runner.run("kept=yes")  # signals are counted from here: a late one may have hit the run before
        was_in_time = runner.start_before_late_signal("sleep 0.1; echo $kept", wait)
        answer = runner.finish(10)
        assert answer.stdout == "yes\n" or not was_in_time


def test_interrupt_while_the_cell_is_being_called_ends_the_run(runner):
    # The signal comes after Bash has begun the `eval` that calls the cell, and before the cell itself.
    runner.run("eval \"$(declare -f __cella_prepare | sed '1s/.*/prepare()/')\"\n"
               "__cella_prepare() { prepare; [[ $__cella_code != *while* ]] || __cella_call=\"kill -INT $$; $__cella_call\"; }")
    for _ in range(3):
        runner.start("while :; do :; done")
        answer = runner.finish(10)
        assert (answer.status, answer.exit_code, answer.stdout) == ("interrupted", 130, "")
        assert runner.run("echo goes on").stdout == "goes on\n"


TRACED = [
    ("set -euxo pipefail; echo $undefined", 1, ["undefined: unbound variable"]),
    ("set -ex; f() { (exit 3); }; f", 3, ["f", "exit 3"]),
    ("set -x; ls /nowhere_at_all; exit 4", 4, ["ls /nowhere_at_all", "exit 4"]),
    ("set -x; trap 'echo mine >&2' ERR; trap 'echo bye' EXIT; false; true", 0, ["mine", "false", "true", "echo bye"]),
]


@pytest.mark.parametrize("code, exit_code, shown", TRACED)
def test_trace_of_a_cell_shows_nothing_of_the_runner(runner, code, exit_code, shown):
    answer = runner.run("kept=1; " + code)
    assert answer.exit_code == exit_code and "__cella" not in answer.stderr, answer.stderr
    assert all(words in answer.stderr for words in shown), answer.stderr
    answer = runner.run("echo $kept")
    assert answer.stdout == "1\n" and "__cella" not in answer.stderr and "echo 1" in answer.stderr, answer.stderr


def test_trace_of_an_interrupted_cell_shows_nothing_of_the_runner(runner):
    runner.start("set -x; echo on; sleep 60")
    runner.wait_output("stdout", b"on\n")
    runner.interrupt()
    answer = runner.finish(10)
    assert answer.status == "interrupted" and "__cella" not in answer.stderr, answer


def test_state_is_kept_when_set_e_ends_the_shell_with_stdin(runner):
    answer = runner.run("kept=1; set -eu; read -r line; echo \"$line$undefined\"", stdin="text\nmore\n")
    assert (answer.status, answer.exit_code, answer.stdout) == ("error", 1, "")
    assert runner.run("echo $kept $line").stdout == "1 text\n"


def test_interrupt_of_an_ended_run_does_not_reach_the_next_run(runner):
    runner.run("kept=yes")
    for _ in range(3):
        with runner.stopped():
            runner.interrupt()
            runner.start("sleep 0.1; echo $kept")
        assert runner.finish(10).stdout == "yes\n"


def test_interrupt_between_runs_is_ignored(runner):
    runner.run("kept=1; trap - INT")
    for _ in range(3):
        runner.interrupt()
        time.sleep(0.02)
    assert runner.run("echo $kept").stdout == "1\n"


def test_exit_trap_of_a_cell_runs_at_its_end_once(runner):
    answer = runner.run("tmp=here; trap 'echo \"cleaning $tmp\"' EXIT; echo working; false")
    assert (answer.status, answer.exit_code, answer.stdout) == ("error", 1, "working\ncleaning here\n")
    answer = runner.run("trap 'echo bye; exit 9' EXIT; exit 5")
    assert (answer.status, answer.exit_code, answer.stdout) == ("exit", 5, "bye\n")
    answer = runner.run("trap 'echo bye' EXIT; trap - EXIT; echo plain")
    assert answer.stdout == "plain\n"
    answer = runner.run("set -u; trap 'echo rescued' EXIT; echo $undefined")
    assert (answer.status, answer.exit_code, answer.stdout) == ("error", 1, "rescued\n")
    assert runner.run("set +u; (trap 'echo sub' EXIT; true); echo next").stdout == "sub\nnext\n"


def test_traps_of_cells_run_and_do_not_break_the_runner(runner):
    answer = runner.run("trap 'echo usr1' USR1; kill -USR1 $$; trap 'echo \"dbg $BASH_COMMAND\"' DEBUG\n"
                        "echo one; trap - DEBUG")
    assert answer.stdout.startswith("usr1\ndbg echo one\none\n")
    assert runner.run("kill -USR1 $$; trap 'echo err' ERR; false; true").stdout == "usr1\nerr\n"
    assert runner.run("false; true").stdout == "err\n"
    assert runner.run("trap - ERR; false; trap -p USR1").stdout == "trap -- 'echo usr1' SIGUSR1\n"
    assert runner.run("trap 'echo x' DEBUG").status == "ok"
    runner.run("trap 'return 2' DEBUG; trap '' INT")
    assert runner.run("trap - DEBUG; echo fine").stdout.endswith("fine\n")
    runner.start("echo go; sleep 60")
    runner.wait_output("stdout", b"go\n")
    runner.wait_for_program("sleep 60")
    runner.interrupt()
    assert runner.finish().status == "interrupted"


@pytest.mark.parametrize("code", ["break", "continue", "break 2", "break 99", "while :; do break 9; done", "return 0"])
def test_break_and_continue_do_not_end_the_session(runner, code):
    runner.run("kept=yes")
    assert runner.run(code + "; echo no").stdout == ""
    assert runner.run("echo $kept").stdout == "yes\n"


def test_hostile_settings_do_not_break_the_runner(runner):
    runner.run("IFS=52; PATH=; set -f -a -C -k; LC_ALL=POSIX; shopt -s nocasematch extglob failglob\n"
               "printf() { :; }; read() { :; }; echo() { builtin echo mine \"$@\"; }; set -o noclobber\n"
               "shopt -u patsub_replacement; CDPATH=/nowhere; BASH_ENV=/x\n"
               "alias builtin=false eval=false while=false local=false set=false")
    answer = runner.run("x='a b'; echo \"$x\" 1525")
    assert (answer.status, answer.stdout) == ("ok", "mine a b 1525\n")
    assert runner.run("no_such_command").exit_code == 127
    answer = runner.run("\\unalias -a; unset -f echo printf read; set +f; PATH=/usr/bin:/bin; IFS=$' \\t\\n'; ls -d /")
    assert answer.stdout == "/\n"
    assert runner.run("set -u; unset IFS; echo \"$x\"").stdout == "a b\n"


def test_err_trap_gets_line_and_status(runner):
    runner.run("trap 'echo \"line $LINENO status $?\"' ERR")
    assert runner.run("true\n\n(exit 6)\ntrue").stdout == "line 3 status 6\n"
    answer = runner.run("set -e\nf() {\n  (exit 7)\n}\nf\necho no")
    assert (answer.exit_code, answer.stdout) == (7, "line 3 status 7\n")


def test_xtrace_shows_only_the_cells_commands(runner):
    assert [line.lstrip("+ ") for line in runner.run("set -x; echo a").stderr.splitlines()] == ["echo a"]
    assert [line.lstrip("+ ") for line in runner.run("echo b\nset +x").stderr.splitlines()] == ["echo b", "set +x"]
    assert runner.run("echo c").stderr == ""


def test_line_numbers_count_from_the_start_of_the_cell(runner):
    answer = runner.run("echo $LINENO\n\nnothing_here\necho $LINENO")
    assert answer.stdout == "1\n4\n" and "line 3: nothing_here" in answer.stderr


def test_children_do_not_inherit_the_runners_descriptors(runner):
    answer = runner.run("ls -l /proc/self/fd; sleep 60 & until [[ $(</proc/$!/comm) == sleep ]]; do :; done\n"
                        "ls -l /proc/$!/fd; kill $!", stdin="x")
    assert "socket:" not in answer.stdout
    numbers = {line.split(" -> ")[0].split()[-1] for line in answer.stdout.splitlines() if " -> " in line}
    assert numbers <= {"0", "1", "2", "3"}


def test_closed_or_redirected_output_is_restored_for_the_next_cell(runner):
    runner.run("exec 0<&- 1>&- 2>&-")
    answer = runner.run("echo out; echo err >&2; cat")
    assert (answer.status, answer.stdout, answer.stderr) == ("ok", "out\n", "err\n")
    runner.run("exec >log")
    assert runner.run("echo logged").stdout == ""
    assert runner.run("exec >/dev/stderr; cat log >&2").stderr == "logged\n"


def test_stdin_text_is_read(runner):
    answer = runner.run("read -r a; read -r b; echo \"$a|$b\"; cat", stdin='first\\n\nzweite é "q"\nrest')
    assert answer.stdout == 'first\\n|zweite é "q"\nrest'
    assert runner.run("cat; read -r x || echo eof").stdout == "eof\n"
    assert runner.run("wc -c", stdin="x" * 300_000).stdout.strip() == "300000"
    assert runner.run("echo unread", stdin="y" * 300_000).stdout == "unread\n"
    assert runner.run("cat", stdin="").stdout == ""


def test_time_to_take_stdin_grows_with_its_length(runner):
    """Quadratic once: 4 MB took more processor time than a run may have."""
    def seconds(text):
        outcome = runner.run("wc -lc; cut -d' ' -f14,15 /proc/$$/stat", stdin=text)
        counts, times = outcome.stdout.splitlines()
        assert counts.split() == [str(text.count("\n")), str(len(text))]
        return sum(map(int, times.split())) / os.sysconf("SC_CLK_TCK")

    line = 'a "line" with \\ and its end\n'
    short, long = line * 8_000, line * 64_000
    before = seconds("")
    after_short = seconds(short)
    after_long = seconds(long)
    # Eight times the text: eight times the time, not sixty-four times.
    assert after_long - after_short < 24 * (after_short - before) + 0.5, (before, after_short, after_long)


@pytest.mark.parametrize("text", [
    "\\" * 100_000, '"' * 100_000, '\\"' * 50_000 + "x" + "\\" * 70_001, "\n\t\\n" * 60_000, "\x01\x02" * 30_000, "é\u2028" * 30_000,
], ids=["backslashes", "quotes", "both", "controls", "hidden", "unicode"])
def test_stdin_is_whole_wherever_it_is_cut(runner, text):
    assert runner.run("cat", stdin=text).stdout == text


def test_configured_variables_and_directory_are_used(runner, tmp_path):
    assert runner.run('printf %s "$GREETING"').stdout == 'he said "hi" \\ é'
    other = tmp_path / "with 'quotes' é"
    other.mkdir()
    runner.send(type="configure", env={"ONLY": "this", "PATH": os.environ["PATH"], "bad-name": "x"}, cwd=str(other),
                network=False, value_limit=1)
    answer = runner.run("echo $ONLY ${GREETING-gone} ${HOME-gone}; pwd")
    assert answer.stdout == f"this gone gone\n{other}\n"


def test_unicode_and_escapes_pass_in_both_directions(runner):
    code = "printf '%s' 'tab\there \"q\" \\ back\\\\slash / 😀 日本 \x01\x02\x1b[0m \\u0041 \u2028'"
    wanted = "tab\there \"q\" \\ back\\\\slash / 😀 日本 \x01\x02\x1b[0m \\u0041 \u2028"
    assert runner.run(code).stdout == wanted
    for ascii_only, separators in ((True, None), (True, (",", ":")), (False, (",", ":"))):
        runner.number += 1
        frame = {"type": "run", "run": f"run_{runner.number}", "number": 2, "code": code, "file": None, "stdin": None,
                 "input": False, "checkpoint": "off"}
        body = json.dumps(frame, ensure_ascii=ascii_only, separators=separators).replace(" / ", " \\/ ")
        runner.send_body(body.encode())
        assert runner.finish().stdout == wanted


def test_invalid_utf8_is_replaced_in_frames(runner, tmp_path):
    (tmp_path / os.fsdecode(b"odd\xff\xf0\x9f-\xf0\x9f\x98\x80")).write_text("")
    assert runner.ask(type="complete", code="cat odd", cursor=7)["matches"] == ["odd\ufffd\ufffd\ufffd-😀"]


def test_binary_and_large_output_is_complete_at_done(runner):
    assert runner.run(r"printf '\x00\xff\x80\n'").stdout_bytes == b"\x00\xff\x80\n"
    answer = runner.run("head -c 1048576 /dev/zero; for ((i = 0; i < 1000; i++)); do echo line $i; done")
    assert answer.stdout_bytes == bytes(1048576) + b"".join(b"line %d\n" % i for i in range(1000))


def test_large_code_runs_quickly(runner):
    code = "\n".join(f'v{i}="some \\"text\\" that fills a line $x" # é' for i in range(2500))
    assert len(code.encode()) > 100_000
    began = time.monotonic()
    assert runner.run(code + '\necho "$v2499"').stdout == 'some "text" that fills a line \n'
    assert time.monotonic() - began < 5


def test_background_command_that_ends_at_once_is_harmless(runner):
    """Killed before its exec it is still this shell, whose EXIT trap Bash calls there."""
    answer = runner.run("for i in {1..40}; do sleep 60 & kill $!; wait $!; echo $?; done")
    assert (answer.status, answer.stdout, answer.stderr) == ("ok", "143\n" * 40, "")


def test_background_jobs_print_between_runs_and_stay_jobs(runner, tmp_path):
    runner.run("(until [[ -e go ]]; do sleep 0.01; done; echo later) & sleep 60 & last=$!")
    (tmp_path / "go").touch()
    runner.wait_output("stdout", b"later\n")
    runner.wait_for_program("sleep 60")
    assert runner.run("kill %2; wait %2; echo $?").stdout.endswith("143\n")
    assert runner.run("exit 0").status == "exit"
    runner.run("sleep 60 & ")
    runner.wait_for_program("sleep 60")
    assert runner.run("exit 1").status == "exit"
    assert runner.run("kill %%; wait %%; echo $?").stdout == "143\n"


def test_complete_returns_matches(runner, tmp_path):
    (tmp_path / "some file.txt").write_text("")
    (tmp_path / "somewhere").mkdir()
    runner.run("my_function() { :; }; my_variable=1")
    assert runner.ask(type="complete", code="é; my_f", cursor=7) == {
        "type": "completion", "matches": ["my_function"], "start": 3, "end": 7}
    assert runner.ask(type="complete", code="echo $my_v", cursor=10)["matches"] == ["$my_variable"]
    assert runner.ask(type="complete", code="echo ${my_v", cursor=11)["matches"] == ["${my_variable"]
    assert sorted(runner.ask(type="complete", code="cat some", cursor=8)["matches"]) == ["some file.txt", "somewhere/"]
    assert runner.ask(type="complete", code="nothing_like_t", cursor=14)["matches"] == []


def test_inspect_returns_help(runner):
    runner.run("greet() { echo hello; }; count=5")
    assert "echo hello" in runner.ask(type="inspect", code="greet you", cursor=2)["text"]
    assert runner.ask(type="inspect", code="echo $count", cursor=9)["text"] == 'declare -- count="5"'
    assert runner.ask(type="inspect", code="cd /", cursor=1)["text"] == "cd is a shell builtin"
    missing = {"type": "inspection", "found": False, "text": ""}
    assert runner.ask(type="inspect", code="no_such_thing", cursor=3) == missing


@pytest.mark.parametrize("code, status", [
    ("echo hi", "complete"), ("", "complete"), ("# only", "complete"), ("touch made_by_parsing", "complete"),
    ("if true; then", "incomplete"), ("echo 'abc", "incomplete"), ('echo "abc', "incomplete"), ("f() {", "incomplete"),
    ("cat <<E\nabc", "incomplete"), ("echo \\", "incomplete"), ("a |", "incomplete"), ("fi", "invalid"),
    ("}", "invalid"), ("a )", "invalid"), ("x=$(", "incomplete"),
])
def test_is_complete_classifies_code(runner, tmp_path, code, status):
    assert runner.ask(type="is_complete", code=code) == {"type": "completeness", "status": status}
    assert not (tmp_path / "made_by_parsing").exists()


def test_runner_ends_when_the_socket_closes(tmp_path):
    made = start(tmp_path)
    made.run("trap 'echo never' EXIT; x=1")
    assert made.close() == 0


def test_exec_in_a_cell_ends_the_runner(runner):
    with pytest.raises((Ended, ConnectionError)):
        runner.run("exec true")


def test_runner_starts_no_program(tmp_path):
    made = start(tmp_path, env={"PATH": "/nowhere"})
    answer = made.run("x=1; echo $x; echo ${undefined:?gone}")
    assert (answer.status, answer.stdout) == ("error", "1\n")
    assert made.run("echo $x").stdout == "1\n"
    made.close()


@pytest.mark.alone
def test_small_run_is_quick(runner):
    times = []
    for _ in range(200):
        began = time.perf_counter()
        runner.run("x=1")
        times.append(time.perf_counter() - began)
    assert sorted(times)[len(times) // 2] < 0.01


# Values


def test_values_are_global_variables(runner, tmp_path):
    (tmp_path / "given").write_bytes(b"large\xff\n\n")
    files = {"large": str(tmp_path / "given")}
    answer = runner.run("printf '%s|' \"$a\" \"$b\" \"$large\"; f() { echo $a; }; f", texts={"a": "\u00e9\n'\"\\$(echo no)", "b": ""}, text_files=files)
    assert answer.stdout_bytes == "\u00e9\n'\"\\$(echo no)||large".encode() + b"\xff\n\n|\xc3\xa9 '\"\\$(echo no)\n", answer.error
    assert not (tmp_path / "given").exists()
    assert runner.run("echo $b$large | wc -c").stdout == "7\n"


def test_value_takes_the_place_of_whatever_had_its_name(runner):
    runner.run("declare -i n=1; list=(a b); declare -A map=([k]=v); declare -n ref=n; declare -l low=x; export E=old")
    texts = {"n": "1+1", "list": "x", "map": "y", "ref": "z", "low": "UP", "E": "new", "IFS": "-"}
    answer = runner.run('echo "$n" "$list${list[1]-}" "$map" "$ref" "$low"; env | grep ^E=; x=a-b; printf "%s," $x', texts=texts)
    assert answer.stdout == "1+1 x y z UP\nE=new\na,b,"
    assert runner.run("x=c-d; printf '%s,' $x").stdout == "c,d,"


def test_value_is_never_evaluated(runner, tmp_path):
    runner.run("declare -i n; n='a[$(touch control)]'")
    (tmp_path / "control").unlink()  # an assignment evaluates it
    runner.run("echo $n", texts={"n": "a[$(touch by_arithmetic)]", "s": "$(touch by_expansion)"})
    assert list(tmp_path.iterdir()) == []


def test_variable_that_is_read_only_ends_the_run_before_its_code(runner):
    runner.run("readonly R=1")
    for name in ("R", "UID"):
        answer = runner.run("echo ran", texts={name: "2"}, stdin="unread")
        assert (answer.status, answer.exit_code, answer.stdout) == ("error", 1, "") and name in answer.error["message"]
    assert runner.run("cat; echo $R$x", texts={"x": "3"}, stdin="in\n").stdout == "in\n13\n"


def test_value_is_there_after_a_rescue(runner):
    assert runner.run("set -u; echo $undefined", texts={"x": "kept"}).status == "error"
    assert runner.run("echo $x").stdout == "kept\n"
