"""Sessions in containers: state, values, stops, and what a lost container means."""

import json
import os
import signal
import time

import pytest
from support.engine import Engine, default_images
from support.running import wait_until

pytestmark = pytest.mark.needs("docker")


@pytest.fixture(scope="module")
def engine():
    return Engine()


@pytest.fixture
def open_contained(open_session, engine):
    before = {one["Id"] for one in engine.containers()}

    def start(*flags):
        words = ["--executor", "container", "--image", engine.image, *flags]
        return open_session(*words, python=None, with_env={"DOCKER_HOST": engine.host})

    start.made = lambda: [one["Id"] for one in engine.containers() if one["Id"] not in before]
    return start


def test_variables_values_errors_and_displays(open_contained):
    session = open_contained()
    assert session.run("x = 6")["state"] == "kept"
    assert session.run("x * 7")["value"] == "42"
    error = session.run("1 / 0")["error"]
    assert error["name"] == "ZeroDivisionError" and "cella_runner" not in error["traceback"]
    assert session.run("print('out'); import sys; print('err', file=sys.stderr)")["stdout"] == "out\n"
    assert session.run("import os; os.getcwd()")["value"] == "'/workspace'"


def test_languages_share_the_workspace(open_contained):
    session = open_contained()
    session.run("open('f', 'w').write('from python')")
    assert session.run("cat f; v=1", language="bash")["stdout"] == "from python"
    assert session.run("echo $v", language="bash")["stdout"] == "1\n"
    assert session.run("cat f", language="sh")["stdout"] == "from python"
    assert session.run("1", language="javascript")["status"] == "rejected"
    assert session.run("2")["value"] == "2"


STUBBORN = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('before', flush=True)\ntime.sleep(60)"


def test_timeout_goes_back_to_the_checkpoint(open_contained):
    session = open_contained("--timeout", "2s")
    session.run("x = 1")
    result = session.run(STUBBORN)
    assert (result["status"], result["stdout"], result["state"]) == ("timeout", "before\n", "rolled_back"), result
    assert session.value("x") == "1"


def test_timeout_without_checkpoints_loses_the_state(open_contained):
    session = open_contained("--timeout", "2s", "--checkpoint", "off")
    assert session.run("x = 1")["checkpoint"] == "off"
    result = session.run(STUBBORN)
    assert (result["status"], result["stdout"], result["state"]) == ("timeout", "before\n", "lost"), result
    assert session.run("x")["error"]["name"] == "NameError"


def test_every_crash_goes_back_and_all_output_arrives(open_contained):
    """The checkpoint writes to the pipes of an interpreter that has ended, each time."""
    session = open_contained()
    session.run("count = 0")
    for number in range(1, 6):
        result = session.run("count += 1; print(count, end='x' * 200_000, flush=True)")
        assert result["stdout"] == f"{number}" + "x" * 200_000, result["stdout"][:50]
        result = session.run("print('last words', flush=True); count = -1; import os; os._exit(3)")
        assert (result["exit_code"], result["stdout"], result["state"]) == (3, "last words\n", "rolled_back"), result
    assert session.value("count") == "5"


def test_named_checkpoints(open_contained):
    session = open_contained()
    session.run("x = 1")
    assert session.ask(op="checkpoint", name="one").get("ok") is True
    session.run("x = 2")
    assert session.ask(op="checkpoint", name="two").get("ok") is True
    session.run("x = 3")
    for name, value in (("one", "1"), ("two", "2"), ("one", "1")):
        assert session.ask(op="rollback", name=name).get("ok") is True
        assert session.value("x") == value
    assert session.ask(op="checkpoints")["checkpoints"] == ["one", "two"]
    assert session.ask(op="drop", name="two").get("ok") is True
    assert "there is no checkpoint 'two'" in session.ask(op="rollback", name="two")["error"]["message"]
    assert session.run("import os; os.kill(os.getpid(), 9)")["state"] == "rolled_back"
    assert session.value("x") == "1"


def test_checkpoints_that_are_dropped_leave_no_process(open_contained, engine):
    session = open_contained()
    for number in range(12):
        assert session.run(f"x = {number}")["status"] == "ok"
        assert session.ask(op="checkpoint", name="same").get("ok") is True
    assert session.ask(op="drop", name="same").get("ok") is True
    count = "import os; len([each for each in os.listdir('/proc') if each.isdigit()])"
    # The agent, init, the interpreter, its automatic checkpoint, and one that is being replaced.
    assert wait_until(lambda: int(session.value(count)) <= 5), session.value(count)


def test_interrupt_ends_the_code_and_keeps_the_state(open_contained):
    session = open_contained()
    session.run("x = 5")
    slow = session.send(code="print('ready', flush=True)\nimport time; time.sleep(60)", events=True)
    while session.answer(slow).get("event", {}).get("type") != "stdout":
        pass
    assert session.ask(op="interrupt").get("ok") is True
    answers = [session.answer(slow)]
    while "result" not in answers[-1]:
        answers.append(session.answer(slow))
    result = answers[-1]["result"]
    assert result["error"]["name"] == "KeyboardInterrupt" and result["state"] == "kept", result
    assert session.value("x") == "5"


def test_interrupt_directly_after_the_first_run_is_not_lost(open_contained):
    session = open_contained()
    for wait in (0, 0.001, 0.01):
        run = session.send(code="import time; time.sleep(60)")
        time.sleep(wait)
        assert session.ask(op="interrupt").get("ok") is True
        result = session.answer(run)["result"]
        assert result["error"]["name"] == "KeyboardInterrupt" and result["state"] == "kept", result


def test_input_requests_are_answered(open_contained):
    session = open_contained()
    run = session.send(code="input('name? ')", input=True, events=True)
    while session.answer(run).get("event", {}).get("type") != "input_request":
        pass
    assert session.ask(op="input", text="Ada").get("ok") is True
    answer = session.answer(run)
    while "result" not in answer:
        answer = session.answer(run)
    assert answer["result"]["value"] == "'Ada'"


def test_reset_forgets_variables_and_ends_processes(open_contained):
    session = open_contained()
    session.run("import subprocess; x = 1; p = subprocess.Popen(['sleep', '600'])")
    assert session.ask(op="reset").get("ok") is True
    assert session.run("x")["error"]["name"] == "NameError"
    code = "import os; [pid for pid in os.listdir('/proc') if pid.isdigit() and b'sleep' in open(f'/proc/{pid}/cmdline', 'rb').read()]"
    assert session.value(code) == "[]"


def test_killed_container_is_reported_and_leaves_nothing(open_contained, engine):
    session = open_contained()
    session.run("x = 1")
    (container,) = open_contained.made()
    engine.remove(container)
    assert wait_until(lambda: not engine.exists(container))
    result = session.run("x")
    assert result["status"] == "rejected" and "container has ended" in result["error"]["message"], result


@pytest.mark.skipif(os.geteuid() != 0, reason="kills a process of the engine's")
def test_container_that_is_killed_during_a_run_is_reported(open_contained, engine):
    """As the kernel does it for memory: with SIGKILL to process 1, unseen by the engine's clients."""
    session = open_contained()
    run = session.send(code="print('on', flush=True)\nimport time; time.sleep(600)", events=True)
    while session.answer(run).get("event", {}).get("type") != "stdout":
        pass
    (container,) = open_contained.made()
    began = time.monotonic()
    os.kill(engine.inspect(container)["State"]["Pid"], signal.SIGKILL)
    answer = session.answer(run)
    while "result" not in answer:
        answer = session.answer(run)
    result = answer["result"]
    assert (result["status"], result["stdout"], result["state"]) == ("crashed", "on\n", "lost"), result
    result = session.run("1")
    assert result["status"] == "rejected" and "container has ended" in result["error"]["message"], result
    session.close()
    assert time.monotonic() - began < 20 and wait_until(lambda: not engine.exists(container))


def test_full_memory_of_files_ends_runs_and_leaves_nothing(open_contained, engine):
    """What fills the memory stays when the code is killed, so that the container may be next."""
    session = open_contained("--memory", "64m", "--disk", "1g")
    session.run("x = 1")
    fill = "f = open('/tmp/big', 'wb')\nfor _ in range(300): f.write(b'x' * 2**20)\nprint('never')"
    for code in (fill, "x", "1"):
        began = time.monotonic()
        result = session.run(code)
        assert result["stdout"] == "" and time.monotonic() - began < 20, result
        assert code != fill or result["status"] in ("oom", "crashed"), result
    session.close()
    assert wait_until(lambda: not open_contained.made())


def test_full_workspace_is_explained(open_contained):
    session = open_contained("--mode", "command", "--disk", "4m")
    fill = "f = open('full', 'wb')\nwhile True: f.write(b'x' * 4096); f.flush()"
    assert "No space left on device" in session.run(fill)["stderr"]
    result = session.run("print('x' * 100)" + "#" * 8192)
    assert result["status"] == "rejected" and "No space left on device" in result["error"]["message"], result


def test_command_mode_keeps_files_and_no_variables(open_contained):
    session = open_contained("--mode", "command")
    session.run("x = 1; open('f', 'w').write('kept')")
    result = session.run("print(open('f').read()); print('x' in dir())")
    assert result["stdout"] == "kept\nFalse\n" and result["state"] == "none", result


FIRST_OF_ALL = """
import os, socket
assert 'x' not in dir() and not os.path.exists('/workspace/f') and not os.path.exists('/tmp/f')
x = 6
for path in ('/workspace/f', '/tmp/f'):
    open(path, 'w').close()
socket.gethostname(), x * 7
"""


def test_fresh_runs_have_a_container_each(open_contained, engine):
    session = open_contained("--fresh", "run")
    seen = set()
    for _ in range(3):
        result = session.run(FIRST_OF_ALL)
        assert result["status"] == "ok" and result["state"] == "none" and result["checkpoint"] == "off", result
        assert result["isolation"]["fresh"] == "run" and "container" not in result["isolation"], result
        name, value = eval(result["value"])
        seen.add(name)
        assert value == 42 and wait_until(lambda: len(open_contained.made()) == 1)
    assert len(seen) == 3
    # Whatever a run does to its container, the next one has another.
    (container,) = open_contained.made()
    engine.remove(container)
    assert session.run(FIRST_OF_ALL)["status"] == "ok"
    assert session.run("import os; os.kill(os.getpid(), 9)")["state"] == "none"
    assert session.run(FIRST_OF_ALL)["status"] == "ok"
    assert "has no checkpoints" in session.ask(op="checkpoint", name="one")["error"]["message"]
    session.close()
    assert wait_until(lambda: not open_contained.made())


def test_fresh_runs_share_the_working_directory_and_the_name(open_contained, engine, tmp_path):
    name = f"{tmp_path.name}-fresh"
    session = open_contained("--fresh", "run", "--mode", "command", "--workdir", tmp_path, "--container-name", name)
    made = set()
    for number in range(3):
        result = session.run(f"echo {number} >> f; cat f; echo x > /tmp/g", language="sh")
        assert result["stdout"] == "".join(f"{each}\n" for each in range(number + 1)), result
        assert result["isolation"]["container"] == name
        made.add(engine.inspect(name)["Id"])
    assert len(made) == 3


def test_taskweaver_container_mode_without_an_image_takes_the_one_it_builds(open_session, engine, tmp_path):
    config = tmp_path / "taskweaver_config.json"
    config.write_text(json.dumps({"execution_service.kernel_mode": "Container"}))
    seen = []
    for images in (("python:3-slim",), ("python:3-slim", "executor_container:latest")):
        with default_images(engine, *images):
            session = open_session("--config", config, python=None, with_env={"DOCKER_HOST": engine.host})
            seen.append(session.run("1")["isolation"]["image"])
            session.close()
    assert seen == ["python:3-slim", "executor_container"]


def test_taskweaver_container_mode_has_its_image_and_its_rule_for_values(open_session, engine, tmp_path):
    config = tmp_path / "taskweaver_config.json"
    document = {"execution_service.kernel_mode": "Container", "execution_service.custom_image": engine.image}
    config.write_text(json.dumps(document))
    session = open_session("--config", config, python=None, with_env={"DOCKER_HOST": engine.host})
    assert session.value("total = 6 * 7") == "42"
    assert session.value("total += 1") == "43"
    assert session.value("total: int = 44") == "44"
    assert session.value("total") == "44"
    for code in ("total = 1;", "a = b = 1", "a, b = 1, 2", "def f(): pass"):
        assert session.run(code)["value"] is None, code
    assert session.run("total")["isolation"]["executor"] == "container"
