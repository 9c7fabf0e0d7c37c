"""--executor subprocess: real Jupyter kernels, their start, their stops and their deaths."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest
from support.leftovers import assert_no_process
from support.needs import require
from support.running import wait_until

pytestmark = pytest.mark.needs("jupyter")


@pytest.fixture(scope="session")
def python():
    return require("jupyter")["JUPYTER_PYTHON"]


@pytest.fixture
def temporary(tmp_path):
    """A temporary directory of its own, which must be empty after the test."""
    directory = tmp_path / "t"
    directory.mkdir()
    yield directory
    assert os.listdir(directory) == []


@pytest.fixture
def kernel_session(temporary, open_session, python):
    def start(*flags, **options):
        options["with_env"] = {"TMPDIR": str(temporary), **options.get("with_env", {})}
        return open_session("--executor", "subprocess", "--system-packages", *flags, python=python, **options)

    return start


@pytest.fixture
def session(kernel_session):
    return kernel_session()


def make_kernel(directory, name, **spec):
    """A kernelspec in a directory for JUPYTER_PATH."""
    place = directory / "kernels" / name
    place.mkdir(parents=True)
    (place / "kernel.json").write_text(json.dumps({"display_name": name, "language": "python", **spec}))
    return {"JUPYTER_PATH": str(directory)}


def test_state_value_output_error_and_display_come_from_a_real_ipykernel(session):
    result = session.run("import ipykernel, sys; x = 41; print('out'); print('err', file=sys.stderr); x + 1")
    assert (result["status"], result["value"], result["stdout"], result["stderr"]) == ("ok", "42", "out\n", "err\n")
    assert session.run("In[1][:6], len(In)")["value"] == "('import', 3)"  # the first cell was the user's
    failed = session.run("def f(): 1 / 0\nf()")
    assert (failed["status"], failed["exit_code"], failed["state"]) == ("error", 1, "kept")
    assert (failed["error"]["name"], failed["error"]["message"]) == ("ZeroDivisionError", "division by zero")
    assert "f()" in failed["error"]["traceback"] and "\x1b" not in failed["error"]["traceback"]
    shown = session.run("from IPython.display import display, HTML; display(HTML('<b>bold</b>')); x")
    assert shown["value"] == "41"
    assert shown["outputs"][0]["mime"]["text/html"] == "<b>bold</b>"


def test_display_of_too_many_types_names_what_is_missing(session):
    """50,000 types kept two threads of a server for 16 s: some readers of displays are made for few."""
    result = session.run("from IPython.display import display\n"
                         "display({f'a/{i}': '' for i in range(50_000)} | {'text/plain': 'text'}, raw=True)")
    assert [output["mime"] for output in result["outputs"]] == [
        {"text/plain": "text\n[50000 representations were left out: at most 64 are sent]"}
    ]


def test_isolation_names_the_interpreter_and_no_jail(session, python):
    isolation = session.run("1")["isolation"]
    assert (isolation["executor"], isolation["namespaces"], isolation["seccomp"]) == ("subprocess", [], False)
    assert isolation["start"].startswith(f"exec: the ipykernel of '{python}' in a fresh environment of '/")
    assert isolation["limits"]["memory"]["by"] in ("cgroup", "rlimit+watchdog")


def test_environment_variables_are_clean_and_path_begins_with_the_environment(cella, session, environment, python):
    show = "import json, os; print(json.dumps(dict(os.environ)))"
    run = cella("run", "-e", "subprocess", "--system-packages", "--python", python, "-c", show, env=environment)
    alone, seen = json.loads(run.stdout), json.loads(session.run(show)["stdout"])
    assert not {name for name in alone if name.startswith("CELLA")} and "PYTHONPATH" not in alone
    assert alone["PATH"].startswith(f"{alone['VIRTUAL_ENV']}/bin:{os.path.dirname(python)}:")
    # A session adds packages.
    assert {name for name in seen if name.startswith("CELLA")} == {"CELLA_CALLS"}
    assert f"/.cella-packages/bin:{seen['VIRTUAL_ENV']}/bin:{os.path.dirname(python)}:" in seen["PATH"]
    assert session.run("!which pip")["stdout"].strip() == seen["PATH"].split(":")[0] + "/pip"


def test_kernel_starts_without_debugpy_and_code_can_import_it(session):
    assert session.run("import sys; 'debugpy' in sys.modules")["value"] == "False"
    assert session.run("import debugpy; debugpy.__name__")["value"] == "'debugpy'"


def test_files_of_the_workspace_are_reported(session):
    result = session.run("open('made.txt', 'w').write('x'); import os; print(os.getcwd())")
    assert [(file["path"], file["change"]) for file in result["files"]] == [("made.txt", "created")]
    assert result["stdout"].rstrip().endswith("/workspace")


def test_output_of_child_processes_belongs_to_the_run(session):
    for number in range(5):
        result = session.run(f"import os, subprocess; subprocess.run(['echo', 'child {number}']); os.write(1, b'low\\n')")
        assert sorted(result["stdout"].splitlines()) == [f"child {number}", "low"], result


def test_exit_ends_the_run_and_keeps_the_kernel(session):
    session.run("x = 5")
    for call in ("exit(3)", "quit(3)", "import sys; sys.exit(3)"):
        result = session.run(call)
        assert (result["status"], result["exit_code"], result["state"], result["error"]) == ("error", 3, "kept", None)
        assert result["stderr"] == ""
    assert session.run("x")["value"] == "5"


def test_input_is_answered_and_ends_without_a_caller(session):
    number = session.send(code="name = input('name? '); name", input=True, events=True)
    while (answer := session.answer(number)).get("event", {}).get("type") != "input_request":
        assert "result" not in answer, answer
    assert answer["event"]["prompt"] == "name? "
    session.ask(op="input", text="Ada")
    while "result" not in (answer := session.answer(number)):
        pass
    assert answer["result"]["value"] == "'Ada'"
    assert session.run("input()")["error"]["name"] == "EOFError"
    assert session.run("input('a '), input()", stdin="one\ntwo\n")["value"] == "('one', 'two')"


def test_timeout_interrupts_and_keeps_the_state(session):
    session.run("x = 1")
    result = session.run("import time\ntry: time.sleep(60)\nexcept KeyboardInterrupt: print('interrupted')", timeout=0.3)
    assert (result["status"], result["exit_code"], result["state"]) == ("timeout", 124, "kept")
    assert result["stdout"] == "interrupted\n"
    assert session.run("x")["value"] == "1"


def test_timeout_kills_what_ignores_the_interrupt_and_starts_a_fresh_kernel(session):
    session.run("x = 1")
    result = session.run(
        "import time\nwhile True:\n  try:\n    while True: time.sleep(1)\n  except KeyboardInterrupt: pass", timeout=0.3
    )
    assert (result["status"], result["state"]) == ("timeout", "lost")
    assert session.run("x")["error"]["name"] == "NameError"


def test_interrupt_raises_in_the_code(session):
    number = session.send(code="import time; print('on', flush=True); time.sleep(60)", events=True)
    while session.answer(number).get("event", {}).get("type") != "stdout":
        pass
    session.ask(op="interrupt")
    while "result" not in (answer := session.answer(number)):
        pass
    result = answer["result"]
    assert (result["error"]["name"], result["exit_code"], result["state"]) == ("KeyboardInterrupt", 130, "kept")
    assert session.run("2 + 2")["value"] == "4"


@pytest.mark.parametrize(
    ("code", "signal"), [("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", 11),
                         ("import os; os.kill(os.getpid(), 9)", 9)]
)
def test_death_by_a_signal_is_an_answer_and_a_fresh_kernel_follows(session, code, signal):
    session.run("x = 1")
    result = session.run("print('before', flush=True); " + code)
    assert (result["status"], result["signal"], result["exit_code"]) == ("crashed", signal, 128 + signal)
    assert result["state"] == "lost"
    assert f"signal {signal}" in result["error"]["message"]
    fresh = session.run("'x' in globals()")
    assert (fresh["value"], fresh["state"]) == ("False", "kept")


def test_exit_of_the_process_is_its_exit_code(session):
    result = session.run("import os; os._exit(3)")
    assert (result["status"], result["exit_code"], result["state"]) == ("error", 3, "lost")
    assert session.run("1")["value"] == "1"


def test_kernel_that_exits_after_its_reply_is_lost_with_that_run(session):
    """No later run may begin in a kernel that is about to end."""
    session.run("x = 1")
    for _ in range(3):
        result = session.run("get_ipython().ask_exit(); print('bye')")
        assert (result["status"], result["stdout"], result["state"]) == ("ok", "bye\n", "lost")
        fresh = session.run("'x' in globals()")
        assert (fresh["status"], fresh["value"]) == ("ok", "False")


def test_interrupt_by_message_keeps_the_state(kernel_session, tmp_path):
    argv = ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    env = make_kernel(tmp_path, "messages", argv=argv, interrupt_mode="message")
    session = kernel_session("--kernel", "messages", with_env=env)
    session.run("x = 1")
    result = session.run("import time; print('on', flush=True); time.sleep(60)", timeout=1)
    assert (result["status"], result["state"], result["stdout"]) == ("timeout", "kept", "on\n")
    assert session.run("x")["value"] == "1"


def test_a_block_in_another_language_is_rejected(session):
    result = session.run("echo hello", language="bash")
    assert (result["status"], result["exit_code"]) == ("rejected", 126)
    assert "'bash'" in result["error"]["message"]
    assert session.run("1")["value"] == "1"


def test_processes_of_a_session_end_with_it(kernel_session, token):
    session = kernel_session()
    session.run(f"import subprocess; subprocess.Popen(['sleep', '300.{token}'], start_new_session=True)")
    session.close()
    assert_no_process(token)


def test_killed_supervisor_leaves_no_kernel(kernel_session, token, temporary):
    session = kernel_session()
    session.run(f"import subprocess; subprocess.Popen(['sleep', '300.{token}'])")
    session.process.kill()
    assert_no_process(token)
    with contextlib.suppress(Exception):
        session.release()
    # Its directory is removed by the next supervisor.
    kernel_session().run("1")
    wait_until(lambda: len(os.listdir(temporary)) <= 1)


def test_connection_file_is_private(session):
    path = session.run("import ipykernel; print(ipykernel.get_connection_file())")["stdout"].strip()
    assert oct(os.stat(path).st_mode & 0o777) == "0o600"
    assert oct(os.stat(os.path.dirname(path)).st_mode & 0o777) == "0o700"
    assert json.loads(pathlib.Path(path).read_text())["transport"] == "ipc"


def test_many_displays_arrive_complete_and_in_order(session):
    number = session.send(
        code="from IPython.display import display\nfor n in range(3000): display({'text/plain': str(n)}, raw=True)",
        events=True,
    )
    shown = []
    while "result" not in (answer := session.answer(number)):
        if answer.get("event", {}).get("type") == "display":
            shown.append(int(answer["event"]["mime"]["text/plain"]))
    assert shown == list(range(3000))
    assert answer["result"]["status"] == "ok"


def test_a_client_that_stalls_loses_nothing_and_costs_little_memory(cella, environment, python, temporary):
    words = [str(cella.binary), "repl", "--json", "--executor", "subprocess", "--system-packages", "--python", python]
    env = {**environment, "TMPDIR": str(temporary)}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True) as process:
        code = "from IPython.display import display\nfor n in range(20000): display({'text/plain': str(n)}, raw=True)"
        process.stdin.write(json.dumps({"id": 1, "code": code, "events": True}) + "\n")
        process.stdin.flush()
        time.sleep(5)  # the stall
        shown, result = [], None
        for line in process.stdout:
            answer = json.loads(line)
            if answer.get("event", {}).get("type") == "display":
                shown.append(int(answer["event"]["mime"]["text/plain"]))
            if "result" in answer:
                result = answer["result"]
                break
        memory = _memory(process.pid)
        process.stdin.close()
        process.stdout.close()
    assert shown == list(range(20000))
    assert (result["status"], result["stderr"]) == ("ok", "")
    assert memory < 150 << 20


@pytest.mark.parametrize("flags", [(), ("--jail",)], ids=["plain", "jail"])
def test_supervisor_that_pauses_loses_nothing(kernel_session, flags):
    """Stock ipykernel drops 8,201 of these displays when its reader pauses for so long."""
    session = kernel_session(*flags)
    code = "from IPython.display import display\nfor n in range(20000): display({'text/plain': str(n)}, raw=True)"
    number = session.send(code=code, events=True)
    while session.answer(number).get("event", {}).get("type") != "display":
        pass
    os.kill(session.pid, signal.SIGSTOP)
    time.sleep(5)  # the pause
    os.kill(session.pid, signal.SIGCONT)
    shown = [0]
    while "result" not in (answer := session.answer(number)):
        if answer["event"]["type"] == "display":
            shown.append(int(answer["event"]["mime"]["text/plain"]))
    assert shown == list(range(20000))
    assert (answer["result"]["status"], answer["result"]["stderr"]) == ("ok", "")


def test_clear_output_withdraws_displays(session):
    code = "from IPython.display import display, clear_output\ndisplay(1); {}; display(2); print('kept')"
    for clear in ("clear_output()", "clear_output(wait=True)"):
        result = session.run(code.format(clear))
        assert [output["mime"]["text/plain"] for output in result["outputs"]] == ["2"], clear
        assert result["stdout"] == "kept\n"
    waiting = session.run("display(1); clear_output(wait=True)")
    assert [output["mime"]["text/plain"] for output in waiting["outputs"]] == ["1"]
    assert session.run("display(3)")["outputs"][0]["mime"]["text/plain"] == "3"


def test_value_of_an_assignment_is_one_where_it_is_asked_for(session, kernel_session):
    assert session.run("x = 6 * 7")["value"] is None
    asked = kernel_session("--value-of", "last_expr_or_assign")
    assert asked.run("x = 6 * 7")["value"] == "42"
    assert asked.run("x + 1")["value"] == "43"


ATTACH = """
import sys
from jupyter_client import BlockingKernelClient
client = BlockingKernelClient(connection_file=sys.argv[1])
client.load_connection_file()
client.start_channels()
client.wait_for_ready(timeout=30)
client.execute_interactive("print(shared + 1); shared = 1", timeout=30)
"""


def test_other_clients_use_the_connection_file(session, jailed, python):
    session.run("shared = 41")
    place = session.run("1")["isolation"]["connection_file"]
    assert os.stat(place).st_mode & 0o777 == 0o600
    attached = subprocess.run([python, "-c", ATTACH, place], capture_output=True, text=True, timeout=60)
    assert attached.stdout == "42\n", attached.stderr
    assert session.run("shared")["value"] == "1"
    console = subprocess.run(
        [python, "-m", "jupyter_console", "--existing", place, "--simple-prompt"], input="shared + 5\nshared = 7\n",
        capture_output=True, text=True, timeout=60, check=True,
    )
    assert "]: 6\n" in console.stdout
    assert session.run("shared")["value"] == "7"
    session.run("import os; os.kill(os.getpid(), 9)")
    assert not os.path.exists(place)
    again = session.run("1")["isolation"]["connection_file"]
    assert again != place and os.path.exists(again)
    session.close()
    assert not os.path.exists(again)
    assert "connection_file" not in jailed.run("1")["isolation"]


def test_completion_and_inspection(session):
    session.run("temperature = 20")
    assert "temperature" in session.ask(op="complete", code="temper")["matches"]
    inspected = session.ask(op="inspect", code="temperature")
    assert inspected["found"] and "int" in inspected["text"]


def test_one_shot_run_prints_what_a_terminal_expects(cella, environment, python):
    flags = ("--executor", "subprocess", "--system-packages", "--python", python)
    ended = cella("run", *flags, "-c", "print('hello'); 6 * 7", env=environment)
    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, b"hello\n", b"")
    failed = cella("run", *flags, "-c", "1 / 0", env=environment)
    assert failed.exit_code == 1 and failed.stdout == b""
    assert b"ZeroDivisionError" in failed.stderr and b"\x1b" not in failed.stderr
    assert cella("run", *flags, "-c", "exit(7)", env=environment).exit_code == 7


def test_one_shot_run_answers_input_from_its_standard_input(cella, environment, python):
    code = "print(input('a '), input()); input()"
    ended = cella("run", "-e", "subprocess", "--system-packages", "--python", python, "-c", code, env=environment, input=b"one\ntwo\n")
    assert ended.exit_code == 1 and b"EOFError" in ended.stderr
    assert ended.stdout == b"a one two\n"


def test_kernel_that_knows_only_ports_is_started_with_them(kernel_session, python, tmp_path):
    script = tmp_path / "tcp.py"
    script.write_text(
        "import json, os, sys\n"
        "if json.load(open(sys.argv[1]))['transport'] != 'tcp': sys.exit('only ports')\n"
        "os.execv(sys.executable, [sys.executable, '-m', 'ipykernel_launcher', '-f', sys.argv[1]])\n"
    )
    env = make_kernel(tmp_path / "share", "ports", argv=[python, str(script), "{connection_file}"])
    session = kernel_session("--kernel", "ports", with_env=env)
    assert session.run("6 * 7")["value"] == "42"


def test_unknown_kernel_names_the_installed_ones(cella, environment, python):
    ended = cella("run", "-e", "subprocess", "--python", python, "--kernel", "nope", "-c", "1", env=environment)
    assert ended.exit_code == 127
    assert b"unknown kernel 'nope'" in ended.stderr and b"python3" in ended.stderr


def test_kernelspec_of_the_environment_runs_the_sessions_python(kernel_session, python):
    session = kernel_session("--kernel", "python3")
    assert session.run("import sys; sys.executable")["value"] == repr(python)


def test_kernel_whose_program_is_missing_is_named(cella, environment, tmp_path):
    env = {**environment, **make_kernel(tmp_path, "broken", argv=["/nowhere/kernel", "{connection_file}"])}
    ended = cella("run", "-e", "subprocess", "--kernel", "broken", "-c", "1", env=env)
    assert ended.exit_code == 127
    assert b"/nowhere/kernel" in ended.stderr


def test_kernel_that_dies_at_once_shows_its_last_words(cella, environment, tmp_path):
    argv = ["/bin/sh", "-c", "echo the reason >&2; exit 3"]
    env = {**environment, **make_kernel(tmp_path, "dies", argv=argv)}
    ended = cella("run", "-e", "subprocess", "--kernel", "dies", "-c", "1", env=env)
    assert ended.exit_code == 126
    assert b"exit code 3" in ended.stderr and b"the reason" in ended.stderr


def test_kernel_environment_variables_expand_from_the_clean_ones(kernel_session, python, tmp_path):
    env = make_kernel(
        tmp_path, "env", argv=["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        env={"FROM_HOME": "${HOME}/x", "FROM_SECRET": "${SECRET}"},
    )
    session = kernel_session("--kernel", "env", with_env={**env, "SECRET": "leaked"})
    seen = session.run("import os; os.environ['FROM_HOME'].endswith('/x'), os.environ['FROM_SECRET']")
    assert seen["value"] == "(True, '${SECRET}')"


# A kernel that misbehaves: ZeroMQ by hand, with the connection file's sockets.
HOSTILE = """
import hashlib, hmac, json, sys, time, zmq
connection = json.load(open(sys.argv[1]))
context = zmq.Context()
def bind(kind, name):
    socket = context.socket(kind)
    socket.linger = 0
    socket.sndhwm = 0
    socket.bind(f"ipc://{connection['ip']}-{connection[name]}")
    return socket
shell, control, stdin = (bind(zmq.ROUTER, name) for name in ("shell_port", "control_port", "stdin_port"))
iopub = bind(zmq.XPUB, "iopub_port")
def sign(parts, key=connection["key"]):
    return hmac.new(key.encode(), b"".join(parts), hashlib.sha256).hexdigest().encode()
def message(kind, content, parent, key=connection["key"]):
    parts = [json.dumps({"msg_id": kind + str(time.time()), "msg_type": kind, "version": "5.3"}).encode(),
             json.dumps(parent).encode(), b"{}", content if isinstance(content, bytes) else json.dumps(content).encode()]
    return [b"<IDS|MSG>", sign(parts, key), *parts]
def publish(kind, content, parent, **options):
    iopub.send_multipart([b"topic", *message(kind, content, parent, **options)])
def reply(identity, kind, content, parent):
    shell.send_multipart([identity, *message(kind, content, parent)])
while True:
    identity, *_, header, _, _, content = shell.recv_multipart()
    parent = json.loads(header)
    kind = parent["msg_type"]
    if kind == "kernel_info_request":
        reply(identity, "kernel_info_reply", {"status": "ok", "language_info": {"name": "python"}}, parent)
        publish("status", {"execution_state": "idle"}, parent)
        continue
    code = json.loads(content)["code"]
    exec(code)
"""

DONE = """
reply(identity, "execute_reply", {"status": "ok"}, parent)
publish("status", {"execution_state": "idle"}, parent)
"""


@pytest.fixture
def hostile(kernel_session, python, tmp_path):
    """A session whose kernel does what the code says with its own sockets."""
    script = tmp_path / "hostile.py"
    script.write_text(HOSTILE)
    env = make_kernel(tmp_path / "share", "hostile", argv=[python, str(script), "{connection_file}"])
    return kernel_session("--kernel", "hostile", with_env=env)


def test_lost_idle_does_not_hang_the_run(hostile):
    result = hostile.run('publish("stream", {"name": "stdout", "text": "a"}, parent)\n' + DONE.strip().splitlines()[0])
    assert (result["status"], result["stdout"]) == ("ok", "a")
    assert "dropped a part of this run's output" in result["stderr"]
    assert hostile.run(DONE)["status"] == "ok"


def test_lost_idle_of_every_request_does_not_hang_the_run(hostile):
    silence = "publish('stream', {'name': 'stdout', 'text': 'a'}, parent)\npublish = lambda *_, **__: None\n"
    result = hostile.run(silence + DONE.strip().splitlines()[0])
    assert (result["status"], result["stdout"]) == ("ok", "a")
    assert "dropped a part of this run's output" in result["stderr"]


def test_kernel_that_breaks_the_protocol_is_ended(hostile):
    """The peer of the shell socket becomes one that speaks no ZeroMQ. No reply could ever come."""
    result = hostile.run(
        """
place = f"{connection['ip']}-{connection['shell_port']}"
shell.close()
import os, socket
def is_open():  # libzmq closes it in another thread
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(place) == 0
while is_open(): time.sleep(0.01)
listener = socket.socket(socket.AF_UNIX)
listener.bind(place + "-new")
os.rename(place + "-new", place)
listener.listen()
listener.accept()[0].sendall(b"HTTP/1.1 400 Bad Request\\r\\n\\r\\n")
time.sleep(60)
""",
        timeout=50,
    )
    assert (result["status"], result["state"]) == ("crashed", "lost"), result
    assert "does not speak ZMTP 3" in result["stderr"]
    assert hostile.run(DONE)["status"] == "ok"


def test_wrong_signatures_unknown_parents_and_foreign_bytes_are_ignored(hostile):
    result = hostile.run(
        """
publish("stream", {"name": "stdout", "text": "forged"}, parent, key="another")
publish("stream", {"name": "stdout", "text": "orphan"}, {})
publish("stream", {"name": "stdout", "text": "other"}, {"msg_id": "other"})
iopub.send_multipart([b"topic", b"<IDS|MSG>"])
iopub.send(b"\\xff" * 1000)
shell.send_multipart([identity, b"nonsense"])
reply(identity, "execute_reply", {"status": "error", "ename": "E"}, {"msg_id": "other"})
publish("unknown_type", {"x": 1}, parent)
publish("stream", {"name": "stdout", "text": "mine"}, parent)
"""
        + DONE
    )
    assert (result["status"], result["stdout"], result["stderr"]) == ("ok", "mine", "")


def test_replayed_messages_end_no_run_and_belong_to_none(hostile):
    record = "global sent; sent = message('execute_reply', {'status': 'ok'}, parent), message('stream', {'name': 'stdout', 'text': 'old'}, parent)\n"
    assert hostile.run(record + DONE)["status"] == "ok"
    replay = "for _ in range(100): shell.send_multipart([identity, *sent[0]]); iopub.send_multipart([b'topic', *sent[1]])\n"
    result = hostile.run(replay + 'time.sleep(0.2)\npublish("stream", {"name": "stdout", "text": "new"}, parent)\n' + DONE * 2)
    assert (result["status"], result["stdout"]) == ("ok", "new")


def test_bad_contents_are_left_out_and_said(hostile):
    result = hostile.run(
        """
publish("stream", b'{"name": "stdout", "text": "\\xff\\xfe"}', parent)
publish("stream", b'[' * 100000, parent)
publish("stream", {"name": "stdout", "text": "good"}, parent)
"""
        + DONE
    )
    assert (result["status"], result["stdout"]) == ("ok", "good")
    assert result["stderr"].count("cannot be read") == 2


def test_a_message_of_60_mb_is_left_out_in_bounded_time(hostile):
    start = time.monotonic()
    result = hostile.run(
        'publish("stream", {"name": "stdout", "text": "x" * 60_000_000}, parent)\n'
        'publish("stream", {"name": "stdout", "text": "after"}, parent)\n' + DONE
    )
    assert (result["status"], result["stdout"]) == ("ok", "after")
    assert "larger than can be read" in result["stderr"]
    assert time.monotonic() - start < 20


def test_silent_kernel_is_ended_at_the_limit(hostile):
    result = hostile.run("import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [2]); time.sleep(60)", timeout=0.5)
    assert (result["status"], result["state"]) == ("timeout", "lost")
    assert hostile.run(DONE)["status"] == "ok"


def test_flood_of_messages_keeps_the_supervisor_bounded(hostile):
    hostile.run(DONE)
    before = _memory(hostile.pid)
    result = hostile.run(
        'for n in range(200000): publish("stream", {"name": "stdout", "text": "flood " * 20}, parent)\n' + DONE,
        timeout=50,
    )
    assert result["status"] in ("ok", "timeout")
    assert _memory(hostile.pid) - before < 100 << 20


def _memory(pid):
    """The largest resident size that the process has had."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise AssertionError("no VmHWM")


@pytest.fixture
def jailed(kernel_session):
    return kernel_session("--jail")


def test_jailed_kernel_has_state_and_values_and_does_not_see_the_host(jailed, session, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("x")
    look = f"import os; os.path.exists({str(secret)!r})"
    assert session.run(look)["value"] == "True"  # the attack works without the jail
    result = jailed.run(look)
    assert result["value"] == "False"
    assert "pid" in result["isolation"]["namespaces"] and result["isolation"]["seccomp"]
    assert result["isolation"]["network"] == "none"
    jailed.run("x = 41; open('made', 'w').write('1')")
    assert jailed.run("x + 1, open('made').read()")["value"] == "(42, '1')"


def test_jailed_kernel_that_dies_keeps_the_files(jailed):
    jailed.run("x = 1; open('made', 'w').write('1')")
    result = jailed.run("import os; os.kill(os.getpid(), 11)")
    assert (result["status"], result["state"]) == ("crashed", "lost")
    fresh = jailed.run("'x' in globals(), open('made').read()")
    assert fresh["value"] == "(False, '1')"


def test_jailed_kernel_is_interrupted_and_killed(jailed):
    kept = jailed.run("import time; time.sleep(60)", timeout=0.3)
    assert (kept["status"], kept["state"]) == ("timeout", "kept")
    stubborn = "import time\nwhile True:\n  try:\n    while True: time.sleep(1)\n  except KeyboardInterrupt: pass"
    assert jailed.run(stubborn, timeout=0.3)["state"] == "lost"
    assert jailed.run("1")["value"] == "1"


def test_jailed_kernel_that_replaces_its_sockets_reaches_nothing(jailed, tmp_path):
    """The guest owns its directory. It may put links there; the supervisor follows none of them."""
    result = jailed.run(
        """
import glob, os
for place in glob.glob('/tmp/.kernel-*/k-*'):
    os.unlink(place)
    os.symlink('/run/systemd/private', place)
os.kill(os.getpid(), 9)
"""
    )
    assert result["state"] == "lost"
    assert jailed.run("1")["value"] == "1"


def test_list_of_kernels_says_what_works_without_starting_one(cella, environment, tmp_path, python):
    env = {**environment, **make_kernel(tmp_path, "broken", argv=["/nowhere/kernel"])}
    listed = json.loads(cella("kernels", "--json", "--python", python, env=env).stdout)["kernels"]
    by_name = {kernel["name"]: kernel for kernel in listed}
    assert by_name["python3"]["works"] is True and by_name["python3"]["problem"] is None
    assert by_name["broken"]["works"] is False and "/nowhere/kernel" in by_name["broken"]["problem"]
    plain = cella("kernels", "--python", python, env=env).stdout.decode()
    assert "does not work: '/nowhere/kernel'" in plain


@pytest.fixture
def taskweaver(tmp_path):
    def write(**settings):
        path = tmp_path / "taskweaver_config.json"
        path.write_text(json.dumps({"llm.api_key": "secret", **settings}))
        return path

    return write


def test_taskweavers_setting_chooses_the_kernel(cella, environment, taskweaver, python):
    path = taskweaver(**{"execution_service.kernel_mode": "SubProcess"})
    ended = cella("run", "--config", path, "--python", python, "--json", "-c", "total = 6 * 7", env=environment)
    result = json.loads(ended.stdout)
    assert (result["isolation"]["executor"], result["value"]) == ("subprocess", "42")
    assert b"secret" not in ended.stdout + ended.stderr


def test_option_wins_over_variable_and_variable_over_file_and_counts_beside_one(cella, environment, taskweaver, python):
    def executor(mode, *flags, config=True):
        more = ["--config", taskweaver(**{"execution_service.kernel_mode": "Container"})] if config else []
        env = {**environment, "EXECUTION_SERVICE_KERNEL_MODE": mode}
        ended = cella("run", *more, *flags, "--python", python, "--json", "-c", "1", env=env)
        return json.loads(ended.stdout)["isolation"]["executor"]

    assert executor("SubProcess") == "subprocess"
    assert executor("SubProcess", "--executor", "local") == "local"
    assert executor("SubProcess", config=False) == "sandbox"


def test_modes_that_taskweaver_has_not_are_refused_by_name(cella, environment, taskweaver):
    path = taskweaver(**{"execution_service.kernel_mode": "remote"})
    ended = cella("run", "--config", path, "-c", "1", env=environment)
    assert ended.exit_code == 126 and b"'remote'" in ended.stderr and b"secret" not in ended.stderr
    local = {**environment, "EXECUTION_SERVICE_KERNEL_MODE": "remote"}
    assert cella("run", "--config", taskweaver(), "-c", "1", env=local).exit_code == 126
